"""The keys of a screen, generated from the bindings that are in force on it."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.app import App
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.screen import Screen
from textual.widgets import Static

from ..dashboard import app_of
from ..places import available
from ..verbs import offered
from .modal import Modal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from textual.app import ComposeResult
    from textual.binding import ActiveBinding

GROUPS = ("This list", "This screen", "Everywhere")
_KEY_COLUMNS = 16


class HelpScreen(Modal[None]):
    """All keys that do something on the screen it was opened from, and the words of the command line."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,question_mark,f1,ctrl+c", "close", "Close", tooltip="Back to the screen"),
        Binding("down,j", "scroll(1)", "Down", tooltip="One line on"),
        Binding("up,k", "scroll(-1)", "Up", tooltip="One line back"),
        Binding("pagedown,space", "scroll(15)", "Page down", tooltip="One page on"),
        Binding("home,g", "scroll(-1000)", "Top", tooltip="To the beginning"),
        Binding("end,G", "scroll(1000)", "End", tooltip="To the end"),
        Binding("pageup", "scroll(-15)", "Page up", tooltip="One page back"),
    ]

    def __init__(self, screen: Screen[object]) -> None:
        super().__init__()
        self._lines = list(help_lines(screen))

    def compose(self) -> ComposeResult:
        """One text."""
        with Vertical(classes="dialog help") as box:
            box.border_title = "Keys"
            box.border_subtitle = "esc closes"
            with VerticalScroll(classes="dialog-text"):
                yield Static(Content("\n").join(self._lines))

    def action_scroll(self, lines: int) -> None:
        """Some lines on or back."""
        self.query_one(VerticalScroll).scroll_relative(y=lines, animate=False)

    def action_close(self) -> None:
        """Back to the screen."""
        self.give()


def group_of(active: ActiveBinding) -> str:
    """Where a binding comes from: the focused widget, the screen, or the app."""
    if isinstance(active.node, App):
        return GROUPS[2]
    return GROUPS[1] if isinstance(active.node, Screen) else GROUPS[0]


def key_table(screen: Screen[object]) -> dict[str, dict[str, tuple[list[str], str, bool]]]:
    """By group, action and words: the keys, what they do, and whether that is allowed now."""
    table: dict[str, dict[str, tuple[list[str], str, bool]]] = {group: {} for group in GROUPS}
    app = app_of(screen)
    for active in screen.active_bindings.values():
        binding = active.binding
        words = active.tooltip or binding.description
        row = table[group_of(active)].setdefault(f"{binding.action} {words}", ([], words, active.enabled))
        row[0].append(app.get_key_display(binding))
    return table


def help_lines(screen: Screen[object]) -> Iterator[Content]:
    """The text, a line a binding."""
    for group, rows in key_table(screen).items():
        if rows:
            yield Content.styled(group, "bold $primary")
        for keys, words, enabled in rows.values():
            shown = " ".join(dict.fromkeys(keys))
            suffix = "" if enabled else "  (not allowed now)"
            style = "" if enabled else "dim"
            yield Content.styled(f"  {shown:<{_KEY_COLUMNS}} {words}{suffix}", style)
    yield Content.styled("Commands after :", "bold $primary")
    for verb in offered(place.name for place in available()):
        names = " ".join((verb.name, *(alias for alias in verb.aliases if not alias.isdigit())))
        model = " MODEL" if verb.takes_model else ""
        yield Content(f"  {names + model:<26} {verb.shell_line('MODEL') or verb.title}")
