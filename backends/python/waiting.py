"""Waiting for a worker to come up: the log says what it is doing where that takes long, the reason where too long."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from ..api.errors import LoadFailed

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import Self

_log = logging.getLogger("infer.python")

FIRST_NOTICE_S = 10.0
"""After how long the log says what is being waited for; it says so again after twice as long, and so on."""

PHASES = {
    "import": "importing its model file",
    "auto_complete": "in auto_complete_config",
    "initialize": "in initialize",
}
"""What a worker says it begins (STATE frames), in words."""


class Waiting:
    """``async with Waiting("instance 'm_0_0'", limit_s, labels) as waiting:`` around something that may take long.

    ``phase`` says what it is doing, in words that follow "is". After ``limit_s`` seconds (0: no limit) the body is
    cancelled and LoadFailed raised, with the phase and with what ``last_words`` gives.
    """

    def __init__(self, who: str, limit_s: float, labels: dict[str, Any], phase: str = "") -> None:
        self.phase = phase
        self.last_words: Callable[[], str] = str
        self._who = who
        self._limit_s = limit_s
        self._labels = labels
        self._scope = asyncio.timeout(limit_s or None)
        self._notice: asyncio.TimerHandle | None = None
        self._waited_s = FIRST_NOTICE_S

    async def __aenter__(self) -> Self:
        self._notice = asyncio.get_running_loop().call_later(self._waited_s, self._tell)
        await self._scope.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._notice is not None:
            self._notice.cancel()
            self._notice = None
        try:
            await self._scope.__aexit__(kind, error, trace)
        except TimeoutError as exc:
            msg = f"{self._who} was not ready within {self._limit_s:g} s (--model-load-timeout); it was {self.phase}"
            words = self.last_words()
            raise LoadFailed(f"{msg}. Last words: {words}" if words else msg) from exc

    def enter(self, phase: str) -> None:
        """The worker says that it begins a phase."""
        self.phase = PHASES.get(phase, phase)

    def _tell(self) -> None:
        words = "%s is not ready after %g s: it is %s"
        _log.info(words, self._who, self._waited_s, self.phase, extra=self._labels)
        self._notice = asyncio.get_running_loop().call_later(self._waited_s, self._tell)
        self._waited_s *= 2
