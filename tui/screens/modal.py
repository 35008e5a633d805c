"""What lies over a screen and goes away with a result."""

from __future__ import annotations

from typing import TypeVar

from textual.screen import ModalScreen

Result = TypeVar("Result")


class Modal(ModalScreen[Result]):
    """A modal screen that goes away once: keys that were typed ahead still arrive while it does."""

    def give(self, result: Result | None = None) -> None:
        """Go away with a result; what comes after the first one is not heard."""
        if self.is_current:
            self.dismiss(result)
