"""The dashboard.

The app holds what all screens share: the source, the history of pictures, the link, what may be changed. A poller asks
the source; its messages arrive here and go to the screen in front. `tui/screens` says how a screen is added.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, ClassVar, cast

from textual.app import App

from . import mouse, places
from .cadence import State
from .changing import Changing
from .glyphs import ascii_terminal
from .keys import EVERYWHERE
from .poller import Poller
from .rates import History
from .screens.base import DashboardScreen
from .themes import DARK, LIGHT

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from textual.binding import BindingType
    from textual.command import Provider
    from textual.filter import LineFilter
    from textual.screen import Screen

    from .cadence import Link
    from .messages import ChangeProgressed, ChangesDone, LinkChanged, Pictured
    from .source import Source


def _palette() -> type[Provider]:
    from .palette import Verbs

    return Verbs


class DashboardApp(App[str]):
    """Runs until it is left; its return value is ``stop``, ``leave`` or ``detach``."""

    TITLE = "infer"
    CSS_PATH = "tui.tcss"
    COMMANDS: ClassVar[set[type[Provider] | Callable[[], type[Provider]]]] = {_palette}
    MODES: ClassVar[dict[str, str | Callable[[], Screen[None]]]] = {  # type: ignore[assignment]  a screen's result
        place.name: place.make for place in places.available()
    }
    DEFAULT_MODE = "models"

    BINDINGS: ClassVar[list[BindingType]] = EVERYWHERE

    def __init__(
        self,
        source: Source,
        *,
        owned: bool = False,
        read_only: bool = False,
        interval_s: float = 1.0,
        mouse_reports: bool = True,
    ) -> None:
        """``owned``: leaving asks what becomes of the server. ``read_only``: nothing is loaded or unloaded."""
        super().__init__()
        self.source = source
        self.owned = owned
        self.history = History()
        self.poller = Poller(source, self.post_message, interval_s)
        self.changing = Changing(self, read_only=read_only)
        self.ascii = ascii_terminal(os.environ)
        self.mouse = mouse_reports
        for theme in (DARK, LIGHT):
            self.register_theme(theme)
        self.theme = DARK.name

    @property
    def link(self) -> Link:
        """How the server answers."""
        return self.poller.link

    @property
    def refusal(self) -> str:
        """Why nothing may be loaded or unloaded from here."""
        return self.changing.refusal

    @property
    def under_way(self) -> Mapping[str, str]:
        """By model: what is being done to it."""
        return self.changing.under_way

    @property
    def front(self) -> DashboardScreen | None:
        """The screen in front, dialogs aside; none once the app is closing."""
        if not self.is_running:
            return None
        screens = (screen for screen in reversed(self.screen_stack) if isinstance(screen, DashboardScreen))
        return next(screens, None)

    def on_mount(self) -> None:
        """Begin to ask the server."""
        self.run_worker(self.poller.run(), name="poller", group="poller")

    def get_line_filters(self) -> Sequence[LineFilter]:
        """In a locale without Unicode everything that is drawn becomes ASCII."""
        if not self.ascii:
            return super().get_line_filters()
        from .widgets.plain import PlainText

        return [*super().get_line_filters(), PlainText()]

    def on_unmount(self) -> None:
        """Let go of what is under way, so that the process can end; the server carries on with its part."""
        self.changing.abandon()

    def on_pictured(self, message: Pictured) -> None:
        """Show the new picture."""
        self.history.add(message.overview)
        if self.front is not None:
            self.front.catch_up()

    def on_link_changed(self, message: LinkChanged) -> None:
        """Show how the link is doing."""
        if self.front is not None and message.link.state is not State.LIVE:
            self.front.show_link(message.link)

    def on_change_progressed(self, message: ChangeProgressed) -> None:
        """Show what is being changed."""
        self.changing.show_progress(message.progress)

    def on_changes_done(self, message: ChangesDone) -> None:
        """Show what came of it, and how the server looks now."""
        self.changing.show_outcomes(message.outcomes)
        self.poller.now()

    def go(self, mode: str, model: str = "", version: str = "") -> None:
        """Show another screen of the first level, turned to a model where one is named."""
        if mode not in self.MODES:
            self.notify(f"this build has no screen '{mode}'", severity="warning", markup=False)
            return
        self.switch_mode(mode)
        if model:
            cast("DashboardScreen", self.screen).aim(model, version)

    def back(self) -> None:
        """One level up; on the first level, to the models."""
        if len(self.screen_stack) > 1:
            self.pop_screen()
        elif self.current_mode != self.DEFAULT_MODE:
            self.switch_mode(self.DEFAULT_MODE)

    def perform(self, verb: str, model: str = "", version: str = "") -> None:
        """Do what a verb says."""
        from .performing import perform

        perform(self, verb, model, version)

    def change(self, verb: str, names: tuple[str, ...]) -> None:
        """Ask whether these models should be changed, and do it."""
        self.changing.ask(verb, names)

    def toggle_mouse(self) -> bool:
        """Turn the terminal's mouse reports off, or on again; whether they are on now."""
        self.mouse = not self.mouse
        if self._driver is not None:
            self._driver.write(mouse.ON if self.mouse else mouse.OFF)
            self._driver.flush()
        return self.mouse

    def action_perform(self, verb: str) -> None:
        """A key that stands for a verb."""
        self.perform(verb)

    def action_command(self) -> None:
        """Open the command line."""
        from .screens.command import CommandScreen

        self.push_screen(CommandScreen())

    async def action_quit(self) -> None:
        """Leave, once it is said what becomes of the server."""
        from .performing import leave

        leave(self)


def run_dashboard(source: Source, *, owned: bool, read_only: bool = False, interval_s: float = 1.0) -> str:
    """Show the dashboard until it is left: ``stop``, ``leave`` (owned) or ``detach``. Then a summary stays behind."""
    from .summary import text

    reports = mouse.wanted(os.environ)
    app = DashboardApp(source, owned=owned, read_only=read_only, interval_s=interval_s, mouse_reports=reports)
    outcome = app.run(mouse=reports)
    if app.mouse != reports:
        sys.stdout.write(mouse.OFF)
    sys.stdout.write(text(app.history, source.address))
    return outcome or ("leave" if owned else "detach")
