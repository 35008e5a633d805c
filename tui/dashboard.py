"""What a screen may ask of the app that it is part of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, cast

if TYPE_CHECKING:
    from textual.message_pump import MessagePump

    from .cadence import Link
    from .rates import History
    from .source import Source


class Dashboard(Protocol):
    """The app as its screens see it. Everything here returns at once; what takes time comes back as a message."""

    history: History
    link: Link
    source: Source

    @property
    def refusal(self) -> str:
        """Why nothing may be loaded or unloaded from here; empty where it may."""
        ...

    def go(self, mode: str, model: str = "", version: str = "") -> None:
        """Show another screen of the first level, turned to a model where one is named."""
        ...

    def back(self) -> None:
        """One level up."""
        ...

    def perform(self, verb: str, model: str = "") -> None:
        """Do what a verb of :mod:`infer.tui.verbs` says, to the model named or the one selected."""
        ...

    def change(self, verb: str, names: tuple[str, ...]) -> None:
        """Ask whether these models should be loaded, unloaded or reloaded, and do it."""
        ...


def dashboard_of(node: MessagePump) -> Dashboard:
    """The app that a screen or widget is part of."""
    return cast("Dashboard", node.app)  # pyright: ignore[reportUnknownMemberType]  Textual leaves the app's result open
