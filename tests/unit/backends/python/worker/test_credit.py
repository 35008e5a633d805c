"""How much a sender may send: it waits for more, and never for what does not come."""

from __future__ import annotations

import threading

from infer.backends.python.worker import frames
from infer.backends.python.worker.credit import Credit


def waiters(credit: Credit, count: int) -> list[threading.Thread]:
    started = [threading.Thread(target=credit.wait) for _ in range(count)]
    for thread in started:
        thread.start()
    return started


def test_a_window_may_be_sent_and_no_more() -> None:
    credit = Credit()
    assert [credit.take() for _ in range(frames.WINDOW + 1)] == [True] * frames.WINDOW + [False]


def test_what_the_server_has_taken_may_be_sent_again() -> None:
    credit = Credit()
    while credit.take():
        pass
    credit.add(2)
    assert [credit.take() for _ in range(3)] == [True, True, False]


def test_who_waits_goes_on_one_for_each_that_was_taken() -> None:
    credit = Credit()
    while credit.take():
        pass
    started = waiters(credit, 5)
    credit.add(5)
    for thread in started:
        thread.join(10)
        assert not thread.is_alive()
    assert not credit.take()


def test_nobody_waits_once_the_limit_is_lifted() -> None:
    credit = Credit()
    while credit.take():
        pass
    started = waiters(credit, 5)
    credit.lift()
    credit.wait()
    for thread in started:
        thread.join(10)
        assert not thread.is_alive()
    assert credit.take()
