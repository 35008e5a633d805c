"""A worker that has died is started again, later and later while it keeps dying, and at last given up."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..api.backend import InstanceState
from ..api.errors import InferError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

_log = logging.getLogger("infer.python")


@dataclass(frozen=True, slots=True)
class RestartPolicy:
    """How long to wait before the n-th start in a row, in seconds, and after how many failed ones to give up.

    A worker that has been up for ``settled`` seconds starts the count anew.
    """

    first: float = 0.25
    factor: float = 2.0
    longest: float = 30.0
    attempts: int = 10
    settled: float = 60.0

    def delay(self, failures: int) -> float | None:
        """Seconds to wait after ``failures`` deaths or failed starts in a row (from 1); None to give up."""
        if failures > self.attempts:
            return None
        return min(self.longest, self.first * self.factor ** (failures - 1))


class Restarter:
    """Calls ``start`` again after each death, as the policy says, and tells the observers. Serving loop only.

    ``start`` raises InferError or OSError where it fails. ``name`` and ``labels`` are for the log.
    """

    def __init__(
        self, policy: RestartPolicy, start: Callable[[], Awaitable[None]], name: str, labels: dict[str, Any]
    ) -> None:
        self._policy = policy
        self._start = start
        self._name = name
        self._labels = labels
        self._failures = 0
        self._up_since = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None
        self._observers: list[Callable[[InstanceState, str], None]] = []

    def observe(self, observer: Callable[[InstanceState, str], None]) -> None:
        """Have ``observer(state, reason)`` called whenever something is told."""
        self._observers.append(observer)

    def tell(self, state: InstanceState, reason: str) -> None:
        """Tell the observers."""
        for observer in list(self._observers):
            observer(state, reason)

    def up(self) -> None:
        """The worker is ready, whoever has started it."""
        self._up_since = asyncio.get_running_loop().time()

    def died(self, reason: str) -> None:
        """The worker was up and is dead: start it again in a while, or say that it is given up."""
        if asyncio.get_running_loop().time() - self._up_since > self._policy.settled:
            self._failures = 0
        self._schedule(reason)

    async def close(self) -> None:
        """Start nothing any more; a start that is under way is broken off."""
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        # Instance and observers know this too. Cut, all go at once and not in a round of the garbage collector.
        self._observers.clear()
        self._start = _nothing

    def _schedule(self, reason: str) -> None:
        self._failures += 1
        delay = self._policy.delay(self._failures)
        if delay is None:
            self.tell(InstanceState.FAILED, reason)
        else:
            self._timer = asyncio.get_running_loop().call_later(delay, self._begin)

    def _begin(self) -> None:
        self._timer = None
        self._task = asyncio.get_running_loop().create_task(self._again())

    async def _again(self) -> None:
        try:
            await self._start()
        except (InferError, OSError) as exc:
            _log.error("'%s' could not be started again: %s", self._name, exc, extra=self._labels)
            self.tell(InstanceState.RESTARTING, str(exc))
            self._schedule(str(exc))
        else:
            self.tell(InstanceState.READY, "")
        finally:
            self._task = None


async def _nothing() -> None:
    return
