"""What a rule finds: a sentence, and the field that it is about."""

from __future__ import annotations

from typing import NamedTuple

from ...backends.api.errors import InvalidArgument


class Problem(NamedTuple):
    """One thing that is wrong. ``path`` is where, as in ``input[0].dims``; "" for the whole configuration."""

    path: str
    sentence: str


class UnsoundConfig(InvalidArgument):
    """A configuration that breaks a rule; ``path`` is the field, so that its line can be found."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.sentence)
        self.path = problem.path
