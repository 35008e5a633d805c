"""A thread that waits for another one is told from one that sleeps, computes or waits with a limit."""

from __future__ import annotations

import queue
import threading
import time
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

import pytest

from infer.backends.python.worker.waiting import is_waiting

if TYPE_CHECKING:
    from collections.abc import Callable

LIMIT_S = 10


class Subject:
    """A thread that does one thing until it is let go."""

    def __init__(self, wait: Callable[[Subject], object]) -> None:
        self.event = threading.Event()
        self.future: Future[None] = Future()
        self.queue: queue.Queue[None] = queue.Queue()
        self.other = threading.Thread(target=self.event.wait, daemon=True)
        self.other.start()
        self.thread = threading.Thread(target=wait, args=(self,), daemon=True)
        self.thread.start()

    def let_go(self) -> None:
        """End both threads."""
        self.event.set()
        self.future.set_result(None)
        self.queue.put(None)
        for thread in (self.thread, self.other):
            thread.join(LIMIT_S)
            assert not thread.is_alive()


def compute(subject: Subject) -> None:
    while not subject.event.is_set():
        sum(range(100))


def sleep(subject: Subject) -> None:
    while not subject.event.is_set():
        time.sleep(0.001)


def observed(wait: Callable[[Subject], object], wanted: Any) -> bool:
    """What is seen of a thread, once it is seen, or after a while of not seeing it."""
    subject = Subject(wait)
    assert subject.thread.ident is not None
    deadline = time.monotonic() + (LIMIT_S if wanted else 0.2)
    seen = False
    while seen is not True and time.monotonic() < deadline:
        seen = is_waiting(subject.thread.ident)
    subject.let_go()
    return seen


@pytest.mark.parametrize(
    "wait",
    [
        lambda subject: subject.event.wait(),
        lambda subject: subject.future.result(),
        lambda subject: subject.queue.get(),
        lambda subject: subject.other.join(),
    ],
)
def test_a_thread_that_waits_without_a_limit_waits(wait: Callable[[Subject], object]) -> None:
    assert observed(wait, wanted=True)


@pytest.mark.parametrize("wait", [compute, sleep, lambda subject: subject.event.wait(LIMIT_S)])
def test_a_thread_that_goes_on_by_itself_does_not(wait: Callable[[Subject], object]) -> None:
    assert not observed(wait, wanted=False)


def test_a_thread_that_is_over_does_not() -> None:
    assert not is_waiting(1)
