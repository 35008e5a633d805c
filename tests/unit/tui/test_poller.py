"""The poller asks once at a time, never holds its loop up, and comes back by itself."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest

from infer.tui import poller as poller_module
from infer.tui.cadence import State
from infer.tui.failure import ClientError
from infer.tui.messages import LinkChanged, Pictured
from infer.tui.poller import Poller
from infer.tui.snapshot import Overview, Server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

AWAY = ClientError("cannot reach a server", "connection refused")


class Source:
    """Answers when its gate is open; counts how many ask at the same time."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.gate.set()
        self.error: ClientError | None = None
        self.asked = self.together = self.most = 0

    def overview(self) -> Overview:
        self.asked += 1
        self.together += 1
        self.most = max(self.most, self.together)
        assert self.gate.wait(30)
        self.together -= 1
        if self.error:
            raise self.error
        return Overview(Server(now=float(self.asked)))


class Bench:
    """A poller, and the messages that it has posted."""

    def __init__(self, interval_s: float = 3600.0) -> None:
        self.source = Source()
        self.messages: list[Any] = []
        source: Any = self.source
        self.poller = Poller(source, self.messages.append, interval_s)

    @property
    def pictures(self) -> int:
        return sum(isinstance(message, Pictured) for message in self.messages)

    @property
    def states(self) -> list[State]:
        return [message.link.state for message in self.messages if isinstance(message, LinkChanged)]

    async def until(self, what: str, true: Any) -> None:
        for _ in range(4000):
            if true():
                return
            await asyncio.sleep(0.002)
        pytest.fail(f"this did not come true: {what}; states {self.states[-5:]}")


@pytest.fixture
async def bench(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Bench]:
    """A running poller whose ticks are short."""
    monkeypatch.setattr(poller_module, "TICK_S", 0.01)
    made = Bench()
    task = asyncio.ensure_future(made.poller.run())
    yield made
    made.source.gate.set()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_the_first_picture_is_asked_for_at_once_and_the_next_after_the_interval(bench: Bench) -> None:
    await bench.until("a picture", lambda: bench.pictures == 1)
    assert bench.source.asked == 1
    assert bench.states == [State.LIVE]


async def test_a_key_asks_before_the_interval_is_over(bench: Bench) -> None:
    await bench.until("a picture", lambda: bench.pictures == 1)
    bench.poller.now()
    await bench.until("another picture", lambda: bench.pictures == 2)


async def test_a_slow_answer_is_told_and_nobody_asks_a_second_time(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("infer.tui.cadence.PATIENCE_S", 0.02)
    await bench.until("a picture", lambda: bench.pictures == 1)
    bench.source.gate.clear()
    bench.poller.now()
    await bench.until("a word about it", lambda: State.SLOW in bench.states)
    bench.poller.now()
    bench.poller.now()
    assert bench.source.together == 1
    bench.source.gate.set()
    await bench.until("the answer", lambda: bench.pictures >= 2)
    assert bench.source.most == 1
    assert bench.poller.link.state is State.LIVE


async def test_a_server_that_is_away_is_counted_down_to_and_found_again(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("infer.tui.cadence.LONGEST_WAIT_S", 0.1)
    await bench.until("a picture", lambda: bench.pictures == 1)
    bench.source.error = AWAY
    bench.poller.now()
    await bench.until("the loss", lambda: bench.poller.link.state is State.LOST)
    assert bench.poller.link.error is AWAY
    await bench.until("a countdown", lambda: bench.poller.link.retry_in_s < 0.08)
    bench.source.error = None
    await bench.until("the return", lambda: bench.poller.link.state is State.LIVE)
    await bench.until("a picture", lambda: bench.pictures >= 2)


async def test_a_pause_stops_the_questions_and_the_same_key_goes_on(bench: Bench) -> None:
    await bench.until("a picture", lambda: bench.pictures == 1)
    bench.poller.toggle_pause()
    bench.poller.now()
    await asyncio.sleep(0.02)
    assert (bench.source.asked, bench.poller.link.state) == (1, State.PAUSED)
    bench.poller.toggle_pause()
    await bench.until("a picture after the pause", lambda: bench.pictures == 2)


async def test_an_answer_that_comes_during_a_pause_changes_nothing(bench: Bench) -> None:
    await bench.until("a picture", lambda: bench.pictures == 1)
    bench.source.gate.clear()
    bench.poller.now()
    await bench.until("a question", lambda: bench.source.asked == 2)
    bench.poller.toggle_pause()
    bench.source.gate.set()
    await bench.until("the answer", lambda: bench.source.together == 0)
    await asyncio.sleep(0.02)
    assert bench.pictures == 1
    assert bench.poller.link.state is State.PAUSED


async def test_a_new_interval_is_told_and_begins_at_once(bench: Bench) -> None:
    await bench.until("a picture", lambda: bench.pictures == 1)
    bench.poller.step_interval(-1)
    assert bench.poller.link.interval_s == 30.0
    await bench.until("a picture", lambda: bench.pictures == 2)
