"""The command line at the bottom: the verbs of the shell, completed while they are typed."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.suggester import Suggester
from textual.widgets import Input, Static

from .. import verbs
from ..dashboard import dashboard_of
from .modal import Modal

if TYPE_CHECKING:
    from textual.app import ComposeResult

_SHOWN = 8


class _Completion(Suggester):
    """The first line that begins like what is typed."""

    def __init__(self, models: list[str]) -> None:
        super().__init__(use_cache=False, case_sensitive=True)
        self._models = models

    async def get_suggestion(self, value: str) -> str | None:
        found = verbs.completions(value, self._models) if value else []
        return found[0] if found else None


class CommandScreen(Modal[None]):
    """Enter does what the line says; what is wrong with a line is said below it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,ctrl+c", "close", "Close", tooltip="Close the command line"),
        Binding("tab", "complete", "Complete", tooltip="Take the completion", priority=True),
    ]

    def compose(self) -> ComposeResult:
        """The line, and what it may become."""
        with Vertical(id="command"):
            yield Static("", id="command-hint", markup=False)
            yield Input(placeholder="a command, as in the shell: unload MODEL", suggester=_Completion(self.models))

    @property
    def models(self) -> list[str]:
        """The names of the server's models."""
        latest = dashboard_of(self).history.latest
        return list(dict.fromkeys(row.name for row in latest.models)) if latest is not None else []

    def on_mount(self) -> None:
        """Ready to type."""
        self.query_one(Input).focus()
        self._hint("")

    def on_input_changed(self, event: Input.Changed) -> None:
        """Show what fits."""
        self._hint(event.value)

    def _hint(self, line: str) -> None:
        found = verbs.completions(line, self.models)
        shown = "  ".join(word.strip().rpartition(" ")[2] if " " in line else word.strip() for word in found[:_SHOWN])
        more = f"  … {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
        self.query_one("#command-hint", Static).update(shown + more)

    def action_complete(self) -> None:
        """Take the first completion; tab never leaves the line."""
        line = self.query_one(Input)
        found = verbs.completions(line.value, self.models)
        if found:
            line.value = found[0]
            line.cursor_position = len(found[0])

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Do it."""
        if not event.value.strip():
            self.give()
            return
        command = verbs.parse(event.value, self.models)
        if isinstance(command, str):
            self.query_one("#command-hint", Static).update(command)
            return
        self.give()
        dashboard_of(self).perform(command.verb, command.model)

    def action_close(self) -> None:
        """Back to the screen."""
        self.give()
