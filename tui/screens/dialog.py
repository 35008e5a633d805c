"""A question over a screen: a title, what there is to say, and a row of answers, of which one is chosen beforehand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import Button, Static

from .modal import Modal

if TYPE_CHECKING:
    from collections.abc import Iterable

    from textual import events
    from textual.app import ComposeResult


@dataclass(frozen=True, slots=True)
class Answer:
    """One button: what choosing it means, its words, its key, and Textual's variant."""

    value: str
    label: str
    key: str = ""
    variant: str = "default"


class Dialog(Modal[str]):
    """Dismissed with the value of the answer; escape and ctrl+c give the empty one.

    The first answer has the focus, so the harmless one stands first.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,ctrl+c", "cancel", "Cancel", tooltip="Close without doing anything"),
        Binding("left,shift+tab", "app.focus_previous", "Previous", show=False, tooltip="The answer to the left"),
        Binding("down,pagedown", "scroll(5)", "Down", show=False, tooltip="More of a long text"),
        Binding("up,pageup", "scroll(-5)", "Up", show=False, tooltip="Back in a long text"),
        Binding("right,tab", "app.focus_next", "Next", show=False, tooltip="The answer to the right"),
    ]

    def __init__(self, title: str, lines: Iterable[Content | str], answers: Iterable[Answer]) -> None:
        super().__init__()
        self._title = title
        self._lines = [line if isinstance(line, Content) else Content(line) for line in lines]
        self._answers = tuple(answers)

    def compose(self) -> ComposeResult:
        """The box."""
        with Vertical(classes="dialog") as box:
            box.border_title = Content(self._title)
            with VerticalScroll(classes="dialog-text", can_focus=False):
                yield Static(Content("\n").join(self._lines))
            with Horizontal(classes="dialog-answers"):
                for answer in self._answers:
                    label = Content(answer.label) + (f" ({answer.key})" if answer.key else "")
                    yield Button(label, variant=answer.variant, name=answer.value, compact=True)  # type: ignore[arg-type]  a word of Textual's

    def on_mount(self) -> None:
        """The first answer is the one that Enter gives."""
        self.query(Button).first().focus()

    def on_key(self, event: events.Key) -> None:
        """A letter chooses its answer, and means nothing more to the screen below."""
        for answer in self._answers:
            if answer.key and event.key == answer.key:
                event.stop()
                event.prevent_default()
                self.give(answer.value)

    def on_button_pressed(self, event: Button.Pressed) -> None:
        """The chosen answer."""
        self.give(event.button.name or "")

    def action_scroll(self, lines: int) -> None:
        """Some lines on or back."""
        self.query_one(VerticalScroll).scroll_relative(y=lines, animate=False)

    def action_cancel(self) -> None:
        """The empty answer."""
        self.give("")
