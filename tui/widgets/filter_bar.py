"""The line in which a filter is typed; it takes effect with every letter."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widgets import Input

from ..filtering import Filter

if TYPE_CHECKING:
    from textual import events


class FilterBar(Input):
    """Hidden until :meth:`open`. Enter keeps the filter and goes back to the list; escape clears it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "clear_filter", "Clear", tooltip="Clear the filter and go back to the list"),
        Binding("down", "keep", "Keep", show=False, tooltip="Keep the filter and go back to the list"),
    ]

    class Typed(Message):
        """The filter is another now."""

        def __init__(self, wanted: Filter) -> None:
            super().__init__()
            self.filter = wanted

    class Closed(Message):
        """The list should have the focus again."""

    def __init__(self) -> None:
        super().__init__(placeholder="regular expression; ! in front leaves out what fits", id="filter", compact=True)
        self.display = False
        self.filter = Filter()

    def open(self) -> None:
        """Show the line and type into it."""
        self.display = True
        self.focus()

    def reset(self) -> None:
        """No filter any more."""
        self.display = False
        self.value = ""

    def watch_value(self, value: str) -> None:
        """Every letter counts."""
        if value != self.filter.text:
            self.filter = Filter(value)
            self.post_message(self.Typed(self.filter))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Enter."""
        event.stop()
        self.action_keep()

    def action_keep(self) -> None:
        """Back to the list, the filter in force."""
        self.display = False
        self.post_message(self.Closed())

    def action_clear_filter(self) -> None:
        """Back to the list, without a filter."""
        self.reset()
        self.post_message(self.Closed())

    def on_blur(self, event: events.Blur) -> None:  # noqa: ARG002  the event's handler
        """Somebody clicked elsewhere; a filter that is in force is seen in the line of facts."""
        self.display = False
