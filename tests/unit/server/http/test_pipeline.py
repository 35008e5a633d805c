"""Requests wait in order and up to a bound, and a connection that floods lets the loop turn: a loop by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from infer.server.http.pipeline import FULL_READ, MAX_FULL_READS, Pipeline

if TYPE_CHECKING:
    from collections.abc import Callable


class Owner:
    """A connection with its transport, flow and loop in one: whether it reads, and what the loop is to call."""

    def __init__(self) -> None:
        self.transport: Any = self
        self.flow: Any = self
        self.loop: Any = self
        self.read_paused = False
        self.closing = False
        self.soon: list[Callable[[], None]] = []

    def pause_reading(self) -> None:
        self.read_paused = True

    def resume_reading(self) -> None:
        self.read_paused = False

    def is_closing(self) -> bool:
        return self.closing

    def call_soon(self, call: Callable[[], None]) -> None:
        self.soon.append(call)

    def turn(self) -> None:
        """One turn of the loop."""
        calls, self.soon = self.soon, []
        for call in calls:
            call()


@pytest.fixture
def owner() -> Owner:
    return Owner()


@pytest.fixture
def pipeline(owner: Owner) -> Pipeline:
    return Pipeline(owner, 2)


def flood(pipeline: Pipeline, reads: int) -> None:
    for _ in range(reads):
        pipeline.note_read(FULL_READ)


def test_requests_are_taken_in_the_order_in_which_they_came(pipeline: Pipeline) -> None:
    first, second = object(), object()
    pipeline.add(first)  # type: ignore[arg-type]
    pipeline.add(second)  # type: ignore[arg-type]
    assert [pipeline.take(), pipeline.take()] == [first, second]


def test_reading_pauses_while_as_many_wait_as_may(owner: Owner, pipeline: Pipeline) -> None:
    states: list[bool] = []
    for _ in range(2):
        pipeline.add(object())  # type: ignore[arg-type]
        states.append(owner.read_paused)
    pipeline.take()
    assert [*states, owner.read_paused] == [False, True, False]


def test_many_full_reads_in_a_row_give_the_others_a_turn(owner: Owner, pipeline: Pipeline) -> None:
    flood(pipeline, MAX_FULL_READS - 1)
    assert not owner.read_paused
    flood(pipeline, 1)
    assert owner.read_paused
    owner.turn()
    assert not owner.read_paused
    flood(pipeline, MAX_FULL_READS - 1)
    assert not owner.read_paused


def test_a_read_that_was_not_full_ends_the_row(owner: Owner, pipeline: Pipeline) -> None:
    flood(pipeline, MAX_FULL_READS - 1)
    pipeline.note_read(FULL_READ - 1)
    flood(pipeline, MAX_FULL_READS - 1)
    assert not owner.read_paused


def test_a_turn_given_does_not_end_the_pause_of_a_full_pipeline(owner: Owner, pipeline: Pipeline) -> None:
    flood(pipeline, MAX_FULL_READS)
    pipeline.add(object())  # type: ignore[arg-type]
    pipeline.add(object())  # type: ignore[arg-type]
    owner.turn()
    assert owner.read_paused


def test_a_pause_that_is_there_already_needs_no_turn(owner: Owner, pipeline: Pipeline) -> None:
    owner.read_paused = True
    flood(pipeline, MAX_FULL_READS)
    assert owner.soon == []


def test_a_connection_that_closes_reads_no_more(owner: Owner, pipeline: Pipeline) -> None:
    flood(pipeline, MAX_FULL_READS)
    owner.closing = True
    owner.turn()
    assert owner.read_paused
