"""What one worker asks of the server beside calls: loading models (QUERY), and metrics (QUERY and METRIC)."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import struct
from typing import TYPE_CHECKING, Any, TypeVar

from ..api.custom_metrics import MetricKind
from ..api.errors import Code, InferError, Internal, InvalidArgument
from .worker import frames
from .worker.frames import Frame, FrameError, Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from ..api.backend import BackendContext
    from ..api.custom_metrics import CustomFamily, CustomMetric
    from .channel import Channel

T = TypeVar("T")
_log = logging.getLogger("infer.python")
_VALUE = struct.Struct("<d")


class Desk:
    """Answers the questions of one worker and of its forks, and holds its metrics until it ends. Serving loop only.

    ``initializing()`` says whether the model is still being brought up, so that its load waits for what it asks.
    """

    def __init__(self, context: BackendContext, model: str, initializing: Callable[[], bool]) -> None:
        self._context = context
        self._model = model
        self._initializing = initializing
        self._families: dict[int, CustomFamily] = {}
        self._metrics: dict[int, CustomMetric] = {}
        self._last_id = 0
        self._tasks: set[asyncio.Task[None]] = set()

    def answer(self, frame: Frame, channel: Channel) -> None:
        """A QUERY frame: the answer goes back now, or when the change that it asks for is made. Raises FrameError."""
        question = json.loads(frame.payload)
        work = self._change(question)
        if work is not None:
            task = self._context.loop.create_task(self._answer_later(frame.id, channel, work))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            return
        try:
            answer = {"ok": self._look_up(question)}
        except InferError as exc:
            answer = _refusal(exc)
        channel.send(frames.pack_json(Kind.ANSWER, frame.id, answer))

    def count(self, frame: Frame, _: Channel) -> None:
        """A METRIC frame. Raises FrameError. What cannot be done is only told of in the log: nobody waits for it."""
        if frame.flags == frames.METRIC_CLOSE:
            handle = self._metrics.pop(frame.id, None) or self._families.pop(frame.id, None)
            if handle is not None:
                handle.close()
            return
        metric = self._metrics.get(frame.id)
        if metric is None:
            return
        operation = {
            frames.METRIC_ADD: metric.increment,
            frames.METRIC_SET: metric.set,
            frames.METRIC_OBSERVE: metric.observe,
        }.get(frame.flags)
        if operation is None or len(frame.payload) != _VALUE.size:
            msg = f"metric {frame.id} is changed by nothing that is known"
            raise FrameError(msg)
        try:
            operation(*_VALUE.unpack(frame.payload))
        except InferError as exc:
            _log.error("a metric of model '%s' is not counted: %s", self._model, exc)

    def close(self) -> None:
        """The worker is gone: what it held of metrics is gone with it."""
        for metric in self._metrics.values():
            metric.close()
        for family in self._families.values():
            family.close()
        self._metrics.clear()
        self._families.clear()

    def _change(self, question: dict[str, Any]) -> Coroutine[Any, Any, object] | None:
        """What takes a while; None for a question that is answered at once."""
        control = self._context.control
        within = self._model if self._initializing() else ""
        kind = question["ask"]
        if kind == "load":
            files = {path: base64.b64decode(content) for path, content in question["files"].items()}
            return control.load(question["name"], question["config"] or None, files, within=within)
        if kind == "unload":
            return control.unload(question["name"], dependents=question["dependents"], within=within)
        if kind == "ready":
            return control.is_ready(question["name"], question["version"])
        return None

    def _look_up(self, question: dict[str, Any]) -> float:
        """The number that answers a question about metrics. Raises InferError and FrameError."""
        kind = question["ask"]
        if kind == "value":
            return _found(self._metrics, question["metric"]).value()
        if kind == "family":
            family = self._context.metrics.family(
                question["name"], question["description"], MetricKind[question["kind"]]
            )
            return self._enter(self._families, family)
        if kind == "metric":
            family = _found(self._families, question["family"])
            metric = family.metric(question["labels"], question["buckets"])
            return self._enter(self._metrics, metric)
        msg = f"question of unknown kind '{kind}'"
        raise FrameError(msg)

    def _enter(self, handles: dict[int, Any], handle: object) -> int:
        self._last_id += 1
        handles[self._last_id] = handle
        return self._last_id

    async def _answer_later(self, question_id: int, channel: Channel, work: Coroutine[Any, Any, object]) -> None:
        # Whatever becomes of the work, the worker is told: it waits.
        answer = _refusal(Internal("the server did not come to an end with it"))
        try:
            answer = {"ok": await work}
        except InferError as exc:
            answer = _refusal(exc)
        except asyncio.CancelledError:
            answer = _refusal(InferError("Server exiting", code=Code.UNAVAILABLE))
            raise
        finally:
            channel.send(frames.pack_json(Kind.ANSWER, question_id, answer))


def _found(handles: dict[int, T], number: int) -> T:
    """A handle by its number. Raises InvalidArgument for one that a fork still has and its parent has let go of."""
    handle = handles.get(number)
    if handle is None:
        msg = "Invalid metric operation as the corresponding 'MetricFamily' has been deleted."
        raise InvalidArgument(msg)
    return handle


def _refusal(error: InferError) -> dict[str, Any]:
    return {"error": str(error), "code": int(error.code)}
