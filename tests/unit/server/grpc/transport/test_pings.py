"""Pings of a client are counted as gRPC counts them, and a client that does not answer ours is given up."""

from __future__ import annotations

from typing import Any

import pytest

from infer.server.grpc.transport.frames import ping
from infer.server.grpc.transport.limits import ConnectionLimits
from infer.server.grpc.transport.pings import KeepAlive, PingStrikes


def strikes(*times: float, calls: bool = True, **limits: Any) -> list[bool]:
    """Whether each ping at these times is one too many."""
    counted = PingStrikes(ConnectionLimits(min_ping_interval_s=10.0, **limits))
    return [counted.too_many(now, 0, calls=calls) for now in times]


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        ((0, 10, 20, 30, 40), [False] * 5),
        ((0, 1, 2, 3), [False, False, False, True]),
        ((0, 9.9, 19.8, 29.7), [False, False, False, True]),
        ((0, 1, 11, 12, 13), [False, False, False, False, True]),
    ],
)
def test_the_third_ping_that_comes_too_soon_is_one_too_many(times: tuple[float, ...], expected: list[bool]) -> None:
    assert strikes(*times) == expected


def test_without_a_limit_any_number_of_pings_is_taken() -> None:
    assert not any(strikes(*range(100), max_ping_strikes=0))


def test_without_calls_pings_may_come_every_two_hours() -> None:
    assert strikes(0, 7199, 14_398, 21_597, calls=False) == [False, False, False, True]
    assert not any(strikes(0, 7200, 14_400, 21_600, calls=False))
    assert not any(strikes(0, 10, 20, 30, calls=False, keepalive_without_calls=True))


def test_what_is_sent_in_between_forgives_the_strikes() -> None:
    counted = PingStrikes(ConnectionLimits())
    for now in range(100):
        assert not counted.too_many(now, now, calls=True)


class Timer:
    def __init__(self, delay: float, callback: Any) -> None:
        self.delay, self.callback, self.cancelled = delay, callback, False

    def cancel(self) -> None:
        self.cancelled = True


class FakeConnection:
    """A connection whose time passes when the test says so."""

    def __init__(self, *, calls: bool = True, **limits: Any) -> None:
        self.loop = self.streams = self.output = self
        self.calls = {1: "a call"} if calls else {}
        self.timers: list[Timer] = []
        self.written: list[bytes] = []
        self.data_count = 0
        self.aborted = False
        self.keep = KeepAlive(self, ConnectionLimits(keepalive_time_s=60, keepalive_timeout_s=20, **limits))  # type: ignore[arg-type]

    def call_later(self, delay: float, callback: Any) -> Timer:
        self.timers.append(Timer(delay, callback))
        return self.timers[-1]

    def write(self, data: bytes) -> None:
        self.written.append(data)

    def abort(self) -> None:
        self.aborted = True

    def pass_time(self) -> float:
        """Let the timer that runs fire; how long it took."""
        (timer,) = (timer for timer in self.timers if not timer.cancelled)
        self.timers.remove(timer)
        timer.callback()
        return timer.delay


PING = ping(b"infer ok")


def test_a_client_that_does_not_answer_a_ping_is_given_up() -> None:
    connection = FakeConnection()
    assert connection.pass_time() == 60
    assert connection.written == [PING]
    assert connection.pass_time() == 20
    assert connection.aborted


def test_a_client_that_answers_is_asked_again_later() -> None:
    connection = FakeConnection()
    connection.pass_time()
    connection.keep.answered()
    assert connection.pass_time() == 60
    assert connection.written == [PING, PING]
    assert not connection.aborted


def test_a_client_that_sends_something_else_is_alive() -> None:
    connection = FakeConnection()
    connection.pass_time()
    connection.keep.alive = True
    assert connection.pass_time() == 20
    assert not connection.aborted
    assert connection.pass_time() == 60


def test_a_client_without_calls_is_not_asked_unless_that_is_wanted() -> None:
    idle = FakeConnection(calls=False)
    idle.pass_time()
    assert idle.written == []
    wanted = FakeConnection(calls=False, keepalive_without_calls=True)
    wanted.pass_time()
    assert wanted.written == [PING]


@pytest.mark.parametrize(("limit", "expected"), [(2, 2), (1, 1), (0, 5)])
def test_only_so_many_pings_go_out_without_data(limit: int, expected: int) -> None:
    connection = FakeConnection(max_pings_without_data=limit)
    for _ in range(5):
        connection.pass_time()
        connection.keep.answered()
    assert len(connection.written) == expected
    connection.data_count += 1
    connection.pass_time()
    assert len(connection.written) == expected + 1


def test_a_connection_that_ends_has_no_timer_left() -> None:
    connection = FakeConnection()
    connection.keep.stop()
    assert all(timer.cancelled for timer in connection.timers)
