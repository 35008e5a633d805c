"""What reaches the dashboard's loop from its workers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.message import Message

if TYPE_CHECKING:
    from .cadence import Link
    from .changes import Outcome, Progress
    from .snapshot import Overview


class Pictured(Message):
    """A new picture of the server has come."""

    def __init__(self, overview: Overview) -> None:
        super().__init__()
        self.overview = overview


class LinkChanged(Message):
    """The link to the server does better or worse than before, or its interval is another."""

    def __init__(self, link: Link) -> None:
        super().__init__()
        self.link = link


class ChangeProgressed(Message):
    """One of several loads and unloads has begun."""

    def __init__(self, progress: Progress) -> None:
        super().__init__()
        self.progress = progress


class ChangesDone(Message):
    """Everything that was asked for is done, or has failed."""

    def __init__(self, outcomes: tuple[Outcome, ...]) -> None:
        super().__init__()
        self.outcomes = outcomes
