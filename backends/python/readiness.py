"""Asking a worker's model whether it is ready: one question at a time, shared by all who ask meanwhile."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import TYPE_CHECKING, Any

from .worker import frames
from .worker.frames import Frame, FrameError, Kind

if TYPE_CHECKING:
    from collections.abc import Callable

_log = logging.getLogger("infer.python")

BUDGET_S = 5.0
"""How long one who asks waits. The model is not interrupted; its answer then serves who asks next."""


class ReadinessProbe:
    """The probes of one instance. Serving loop only."""

    def __init__(self, labels: dict[str, Any], budget_s: float = BUDGET_S) -> None:
        self.wanted = False
        """Whether the model has ``is_ready``."""
        self._labels = labels
        self._budget_s = budget_s
        self._last_id = 0
        self._open: asyncio.Future[bool] | None = None

    async def ask(self, send: Callable[[bytes], None]) -> bool:
        """The model's word, or False where it does not come in time. ``send`` takes frames for its worker."""
        if self._open is None:
            self._open = asyncio.get_running_loop().create_future()
            self._last_id += 1
            send(frames.pack(Kind.PROBE, self._last_id))
        done, _ = await asyncio.wait([self._open], timeout=self._budget_s)
        if not done:
            self._complain(f"is_ready did not return within {self._budget_s:g} s")
            return False
        return done.pop().result()

    def answer(self, frame: Frame) -> None:
        """A PROBE frame from the worker. Raises FrameError."""
        content = json.loads(frame.payload)
        if not isinstance(content.get("ready"), bool):
            msg = f"probe {frame.id} is answered without a word"
            raise FrameError(msg)
        if frame.id != self._last_id or self._open is None:
            return
        if content["reason"]:
            self._complain(content["reason"])
        opened, self._open = self._open, None
        opened.set_result(content["ready"])

    def lost(self) -> None:
        """The worker is gone, and with it the answer."""
        opened, self._open = self._open, None
        if opened is not None:
            opened.set_result(False)

    def _complain(self, reason: str) -> None:
        labels = self._labels
        words = "Model '%s' version %s is not ready: '%s': %s"
        _log.error(words, labels["model"], labels["version"], labels["instance"], reason, extra=labels)
