"""The keys that are valid now, on the last line: those of the focused widget, the screen and the app.

One widget that draws a line. Textual's footer is a widget a key, made anew whenever the focus moves, which is most of
what a first frame costs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from textual.content import Content
from textual.widget import Widget

from ..dashboard import app_of

if TYPE_CHECKING:
    from textual import events
    from textual.binding import ActiveBinding
    from textual.screen import Screen
    from textual.signal import Signal


class KeyBar(Widget):
    """A key that is not allowed now is dim; a click on a key presses it."""

    def on_mount(self) -> None:
        """Follow the bindings."""
        signal = cast(
            "Signal[Screen[object]]",
            self.screen.bindings_updated_signal,  # pyright: ignore[reportUnknownMemberType]  as in app_of
        )
        signal.subscribe(self, self._follow)

    def _follow(self, screen: Screen[object]) -> None:
        if screen is self.screen:
            self.refresh()

    def _shown(self) -> list[tuple[str, str, ActiveBinding]]:
        """Key as it is shown, description, binding; an action of several keys stands there once."""
        found: dict[str, tuple[str, str, ActiveBinding]] = {}
        for active in self.screen.active_bindings.values():
            binding = active.binding
            if binding.show and binding.description:
                shown = app_of(self).get_key_display(binding)
                found.setdefault(f"{binding.action} {binding.description}", (shown, binding.description, active))
        return list(found.values())

    def render(self) -> Content:
        """The line."""
        parts = [
            Content.assemble((key, "bold $footer-key-foreground"), f" {text}").stylize("" if active.enabled else "dim")
            for key, text, active in self._shown()
        ]
        return Content(" ").join(parts).truncate(self.size.width)

    def on_click(self, event: events.Click) -> None:
        """Press the key that was clicked."""
        x = event.x
        for key, text, active in self._shown():
            width = len(key) + len(text) + 2
            if x < width:
                app_of(self).simulate_key(active.binding.key)
                return
            x -= width
