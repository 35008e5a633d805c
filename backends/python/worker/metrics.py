"""``pb_utils.MetricFamily`` and its metrics: handles on what the server counts and shows on its metrics endpoint.

The values are the server's, shared by all that name them alike. A change is sent and not waited for; only making a
handle and reading a value ask the server. What can be wrong with a change is therefore checked here.
"""

from __future__ import annotations

import enum
import os
import struct
from typing import Any

from . import frames
from .errors import TritonModelException, require
from .frames import Kind
from .questions import ask
from .runtime import RUNTIME

_VALUE = struct.Struct("<d")
_FAMILY_GONE = "Invalid metric operation as the corresponding 'MetricFamily' has been deleted."


class MetricKind(enum.Enum):
    """What a family counts."""

    COUNTER = 0
    GAUGE = 1
    HISTOGRAM = 2


class _Handle:
    """What the server keeps for an object of the model's. It outlives the object by no more than its closing frame."""

    __slots__ = ("closed", "id", "pid")

    def __init__(self, number: int) -> None:
        self.id = number
        self.closed = False
        self.pid = os.getpid()

    def close(self) -> None:
        """Called by finalisers: does not wait, and says nothing for a process that only inherited the object."""
        if not self.closed:
            self.closed = True
            if self.pid == os.getpid() and RUNTIME.connected:
                RUNTIME.channel().post(frames.pack(Kind.METRIC, self.id, flags=frames.METRIC_CLOSE))


class Metric:
    """One metric of a family, made by :meth:`MetricFamily.Metric`. Any thread.

    It is over when its family object is deleted: every use then raises TritonModelException.
    """

    __slots__ = ("__weakref__", "_family", "_handle", "_kind")

    def __init__(self, family: _Handle, kind: MetricKind, number: int) -> None:
        self._family = family
        self._kind = kind
        self._handle = _Handle(number)

    def __del__(self) -> None:
        handle = getattr(self, "_handle", None)
        if handle is not None:
            handle.close()

    def increment(self, value: float) -> None:
        """Add to a counter (nothing negative) or a gauge."""
        number = self._checked("increment", value, (MetricKind.COUNTER, MetricKind.GAUGE))
        if self._kind is MetricKind.COUNTER and not number >= 0:
            msg = f"a counter only grows: increment() takes no negative value, got {number}"
            raise TritonModelException(msg)
        self._send(frames.METRIC_ADD, number)

    def set(self, value: float) -> None:
        """Set a gauge."""
        self._send(frames.METRIC_SET, self._checked("set", value, (MetricKind.GAUGE,)))

    def observe(self, value: float) -> None:
        """Count a value in a histogram."""
        number = self._checked("observe", value, (MetricKind.HISTOGRAM,))
        if number != number:  # noqa: PLR0124  the cheapest question for NaN
            msg = "a histogram cannot observe NaN: it is in no bucket"
            raise TritonModelException(msg)
        self._send(frames.METRIC_OBSERVE, number)

    def value(self) -> float:
        """The value of a counter or gauge, as the server has it."""
        self._check("value", (MetricKind.COUNTER, MetricKind.GAUGE))
        return float(ask({"ask": "value", "metric": self._handle.id}))

    def _check(self, operation: str, kinds: tuple[MetricKind, ...]) -> None:
        if self._family.closed:
            raise TritonModelException(_FAMILY_GONE)
        if self._kind not in kinds:
            msg = f"a metric of kind {self._kind.name} does not support {operation}()"
            raise TritonModelException(msg)

    def _checked(self, operation: str, value: object, kinds: tuple[MetricKind, ...]) -> float:
        self._check(operation, kinds)
        return _number(operation, value)

    def _send(self, operation: int, number: float) -> None:
        RUNTIME.channel().send(frames.pack(Kind.METRIC, self._handle.id, _VALUE.pack(number), flags=operation))


class MetricFamily:
    """``MetricFamily(name, description, kind)``: metrics of one name, told apart by their labels.

    A name that exists is shared, with the description it already has. Raises TritonModelException for a name that
    Prometheus does not take, and for one that exists with another kind.
    """

    COUNTER = MetricKind.COUNTER
    GAUGE = MetricKind.GAUGE
    HISTOGRAM = MetricKind.HISTOGRAM

    __slots__ = ("__weakref__", "_handle", "_kind")

    def __init__(self, name: str, description: str, kind: MetricKind) -> None:
        require(name, str, "MetricFamily", "name")
        require(description, str, "MetricFamily", "description")
        require(kind, MetricKind, "MetricFamily", "kind")
        number = _ask({"ask": "family", "name": name, "description": description, "kind": kind.name})
        self._kind = kind
        self._handle = _Handle(number)

    def __del__(self) -> None:
        handle = getattr(self, "_handle", None)
        if handle is not None:
            handle.close()

    def Metric(self, labels: dict[str, str] | None = None, buckets: list[float] | None = None) -> Metric:  # noqa: N802  the interface
        """The metric with these labels; the same as before where it exists.

        ``buckets`` are the upper bounds of a histogram, ascending; other kinds have none. Raises TritonModelException.
        """
        question = {
            "ask": "metric",
            "family": self._handle.id,
            "labels": _checked_labels(labels),
            "buckets": _checked_buckets(self._kind, buckets),
        }
        return Metric(self._handle, self._kind, _ask(question))


def _ask(question: dict[str, Any]) -> int:
    if not RUNTIME.connected:
        msg = "custom metrics are not available in auto_complete_config: make them in initialize or execute"
        raise TritonModelException(msg)
    return int(ask(question))


def _number(operation: str, value: object) -> float:
    if isinstance(value, (str, bytes)) or not (hasattr(value, "__float__") or hasattr(value, "__index__")):
        require(value, float, operation, "value")
    return float(value)  # pyright: ignore[reportArgumentType]  it has what float() asks for


def _checked_labels(labels: object) -> dict[str, str]:
    if labels is None:
        return {}
    if not isinstance(labels, dict):
        msg = f"labels must be a dict of str and str, got {type(labels)}"
        raise TritonModelException(msg)
    for name, value in labels.items():  # pyright: ignore[reportUnknownVariableType]
        if not isinstance(name, str) or not isinstance(value, str):
            msg = f"labels must be a dict of str and str, got {name!r}: {value!r}; write numbers as text"
            raise TritonModelException(msg)
    return labels  # pyright: ignore[reportUnknownVariableType]


def _checked_buckets(kind: MetricKind, buckets: object) -> list[float] | None:
    if kind is not MetricKind.HISTOGRAM:
        if buckets is None:
            return None
        msg = f"a metric of kind {kind.name} has no buckets; only a HISTOGRAM has"
        raise TritonModelException(msg)
    if not isinstance(buckets, list):
        msg = f"a HISTOGRAM needs buckets, a list of ascending upper bounds, got {type(buckets)}"
        raise TritonModelException(msg)
    bounds = [_number("Metric", bound) for bound in buckets]  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    if any(not bounds[place - 1] < bounds[place] for place in range(1, len(bounds))):
        msg = f"buckets must be strictly ascending, got {bounds}"
        raise TritonModelException(msg)
    return bounds
