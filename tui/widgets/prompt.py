"""A line in which one word is typed and given with enter: what to search for, or a model's name."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType
from textual.message import Message
from textual.suggester import SuggestFromList
from textual.widgets import Input

if TYPE_CHECKING:
    from collections.abc import Iterable


class Prompt(Input):
    """Hidden until :meth:`ask`. Enter answers, escape gives it up."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "give_up", "Cancel", tooltip="Leave it as it was"),
    ]

    class Answered(Message):
        """What was typed, and what for."""

        def __init__(self, purpose: str, text: str) -> None:
            super().__init__()
            self.purpose = purpose
            self.text = text

    class Closed(Message):
        """The list should have the focus again."""

    def __init__(self) -> None:
        super().__init__(id="prompt", compact=True)
        self.display = False
        self._purpose = ""

    def ask(self, purpose: str, placeholder: str, suggestions: Iterable[str] = ()) -> None:
        """Show the line and type into it; ``suggestions`` complete with the right arrow."""
        self._purpose = purpose
        self.placeholder = placeholder
        self.suggester = SuggestFromList(suggestions)
        self.value = ""
        self.display = True
        self.focus()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Enter."""
        event.stop()
        self.post_message(self.Answered(self._purpose, event.value.strip()))
        self.action_give_up()

    def action_give_up(self) -> None:
        """Back to the list."""
        self.display = False
        self.post_message(self.Closed())

    def on_blur(self) -> None:
        """Somebody clicked elsewhere."""
        self.display = False
