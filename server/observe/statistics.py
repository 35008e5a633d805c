"""What is counted for each model version, and the frozen pictures of it.

The counters are plain integers that only the serving loop writes; any thread may take a picture. Names and
meanings are those of Triton's statistics extension and of its ``nv_inference_*`` metrics:

- ``success`` counts requests whose final response carried data or the plain final flag, ``fail`` every other ending;
- ``inference_count`` adds batch sizes of successes, ``execution_count`` adds executed batches;
- the spans of a merged batch are added in full to each of its requests.

What limits the batches of a batcher is counted besides, which Triton does not do: by hand-over to an instance, so that
a batch counts also where it fails.
"""

from __future__ import annotations

import enum
import time
from collections import defaultdict
from dataclasses import dataclass, field
from math import log2
from typing import TYPE_CHECKING, NamedTuple

from ...backends.api.errors import FailureReason
from . import latency

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MAX_RESPONSES = 10_000
"""Responses of one request that are counted apart; those after them are counted with the last of these."""


@dataclass(frozen=True, slots=True)
class Duration:
    """A number of events and the nanoseconds they took together."""

    count: int = 0
    ns: int = 0


@dataclass(frozen=True, slots=True)
class BatchSnapshot:
    """Executions of one batch size and how long their phases took."""

    batch_size: int
    compute_input: Duration
    compute_infer: Duration
    compute_output: Duration


@dataclass(frozen=True, slots=True)
class ResponseSnapshot:
    """What happened to the n-th response of the requests of a decoupled model."""

    compute_infer: Duration = Duration()
    compute_output: Duration = Duration()
    success: Duration = Duration()
    fail: Duration = Duration()
    empty_response: Duration = Duration()
    cancel: Duration = Duration()


@dataclass(frozen=True, slots=True)
class MemoryUsage:
    """Memory a model holds: ``type`` is CPU, CPU_PINNED or GPU."""

    type: str
    id: int
    byte_size: int


@dataclass(frozen=True, slots=True)
class ModelSnapshot:
    """One model version's counters at one moment. Durations are in nanoseconds, ``last_inference`` in ms since 1970."""

    name: str
    version: str
    last_inference: int = 0
    inference_count: int = 0
    execution_count: int = 0
    success: Duration = Duration()
    fail: Duration = Duration()
    queue: Duration = Duration()
    compute_input: Duration = Duration()
    compute_infer: Duration = Duration()
    compute_output: Duration = Duration()
    cache_hit: Duration = Duration()
    cache_miss: Duration = Duration()
    batches: tuple[BatchSnapshot, ...] = ()
    responses: tuple[tuple[str, ResponseSnapshot], ...] = ()
    memory_usage: tuple[MemoryUsage, ...] = ()
    failures: Mapping[str, int] = field(default_factory=dict[str, int])
    batch_limits: Mapping[str, int] = field(default_factory=dict[str, int])
    pending: int = 0
    load_duration_s: float = 0.0
    metric_tags: Mapping[str, str] = field(default_factory=dict[str, str])


class Totals(NamedTuple):
    """What a dashboard polls of one model version: sums since load.

    The nanoseconds are those of successful requests. ``batches`` holds size and executions, ``latency`` upper bound in
    µs and requests, both ascending; ``batch_limits`` is empty without a batcher. ``last_inference`` is in ms
    since 1970.
    """

    success: int
    failures: Mapping[str, int]
    inference_count: int
    execution_count: int
    pending: int
    request_ns: int
    queue_ns: int
    input_ns: int
    infer_ns: int
    output_ns: int
    batches: Sequence[tuple[int, int]]
    batch_limits: Mapping[str, int]
    latency: latency.Sparse
    load_duration_s: float
    last_inference: int


class _Span:
    """A mutable Duration."""

    __slots__ = ("count", "ns")

    def __init__(self) -> None:
        self.count = 0
        self.ns = 0

    def add(self, ns: int) -> None:
        self.count += 1
        self.ns += ns

    def freeze(self) -> Duration:
        return Duration(self.count, self.ns)


class _BatchSpans:
    """The phases of all executions of one batch size."""

    __slots__ = ("count", "infer_ns", "input_ns", "output_ns")

    def __init__(self) -> None:
        self.count = self.input_ns = self.infer_ns = self.output_ns = 0

    def freeze(self, rows: int) -> BatchSnapshot:
        count = self.count
        return BatchSnapshot(
            rows, Duration(count, self.input_ns), Duration(count, self.infer_ns), Duration(count, self.output_ns)
        )


class _ResponseSpans:
    """The n-th responses. There may be thousands of these, so they are plain numbers."""

    __slots__ = ("cancel", "cancel_ns", "empty", "empty_ns", "fail", "fail_ns", "output_ns", "success", "success_ns")

    def __init__(self) -> None:
        self.success = self.success_ns = self.fail = self.fail_ns = self.empty = self.empty_ns = 0
        self.cancel = self.cancel_ns = self.output_ns = 0

    def freeze(self) -> ResponseSnapshot:
        sent, sent_ns = self.success + self.fail, self.success_ns + self.fail_ns
        return ResponseSnapshot(
            compute_infer=Duration(sent + self.empty, sent_ns + self.empty_ns - self.output_ns),
            compute_output=Duration(sent, self.output_ns),
            success=Duration(self.success, self.success_ns),
            fail=Duration(self.fail, self.fail_ns),
            empty_response=Duration(self.empty, self.empty_ns),
            cancel=Duration(self.cancel, self.cancel_ns),
        )


class Outcome(enum.Enum):
    """What a response of a decoupled request was."""

    SUCCESS = "data"
    FAIL = "an error"
    EMPTY = "neither"
    CANCEL = "the end of a request that was cancelled"


class BatchLimit(enum.Enum):
    """Why a batch that a batcher hands to an instance is no larger. The words are what users see everywhere.

    ``place`` is where it is counted. PERF: a batch counts one, and on Python 3.11 neither an enum's value nor a look-up
    by an enum is cheap.
    """

    place: int

    def __init__(self, _words: str) -> None:
        self.place = len(type(self).__members__)

    FULL = "full"
    """It has ``max_batch_size``, or each of the slots of *direct* sequences a request."""
    PREFERRED = "preferred size"
    """It goes at once: a preferred size, or more than the largest; ``minimum_slot_utilization`` of *direct*."""
    DELAY = "delay over"
    """Nobody came any more while it waited, for an instance or for the ``max_queue_delay_microseconds``."""
    NO_OTHERS = "no others"
    """Nothing else was ready to execute, and no delay is configured."""
    NEXT = "next does not fit"
    """With the next request it would exceed ``max_batch_size``, or the largest preferred size."""
    SHAPE = "shape differs"
    """Those that wait cannot share a batch with it: their shapes differ, or which of the optional inputs they have."""


class ModelStatistics:
    """The counters of one model version. Written on the serving loop only, read anywhere."""

    __slots__ = (
        "_batch_limits",
        "_batches",
        "_failures",
        "_infer_ns",
        "_input_ns",
        "_latency",
        "_output_ns",
        "_queue_ns",
        "_responses",
        "_success_count",
        "_success_ns",
        "execution_count",
        "fail",
        "inference_count",
        "last_inference",
        "load_duration_s",
        "memory_usage",
        "metric_tags",
        "name",
        "pending",
        "version",
    )

    def __init__(self, name: str, version: int, metric_tags: Mapping[str, str] | None = None) -> None:
        self.name = name
        self.version = str(version)
        self.metric_tags = dict(metric_tags or {})
        self.pending = 0
        self.load_duration_s = 0.0
        self.memory_usage: tuple[MemoryUsage, ...] = ()
        self.last_inference = self.inference_count = self.execution_count = 0
        self.fail = _Span()
        self._success_count = self._success_ns = 0
        self._queue_ns = self._input_ns = self._infer_ns = self._output_ns = 0
        self._failures = dict.fromkeys((reason.value for reason in FailureReason), 0)
        self._batches: dict[int, _BatchSpans] = {}
        self._batch_limits: list[int] = []
        self._responses: list[_ResponseSpans] = []
        self._latency: defaultdict[int, int] = defaultdict(int)

    def record_success(  # noqa: PLR0913  the spans of a request, by name
        self, rows: int, *, total_ns: int, queue_ns: int, input_ns: int, infer_ns: int, output_ns: int
    ) -> None:
        """A request ended well; ``rows`` is its batch size, the spans are its own."""
        self.inference_count += rows
        self._success_count += 1
        self._success_ns += total_ns
        self._queue_ns += queue_ns
        self._input_ns += input_ns
        self._infer_ns += infer_ns
        self._output_ns += output_ns
        # PERF: latency.bucket written out: the call would cost as much again.
        self._latency[int(log2(total_ns + 1) * 8)] += 1

    def record_failure(self, reason: FailureReason, total_ns: int) -> None:
        """A request ended badly."""
        self.fail.add(total_ns)
        self._failures[reason.value] += 1

    def record_batch(self, rows: int, *, input_ns: int, infer_ns: int, output_ns: int) -> None:
        """A batch of ``rows`` rows was executed."""
        spans = self._batches.get(rows)
        if spans is None:
            spans = self._batches[rows] = _BatchSpans()
        spans.count += 1
        spans.input_ns += input_ns
        spans.infer_ns += infer_ns
        spans.output_ns += output_ns
        self.execution_count += 1
        self.last_inference = time.time_ns() // 1_000_000

    def has_batcher(self) -> None:
        """From now on there is a batcher: what limits its batches is counted, from 0."""
        self._batch_limits = [0] * len(BatchLimit)

    def record_limit(self, limit: BatchLimit) -> None:
        """The batcher, of which ``has_batcher`` told, hands a batch over that this kept from being larger."""
        self._batch_limits[limit.place] += 1

    def record_response(self, index: int, total_ns: int, outcome: Outcome, output_ns: int = 0) -> None:
        """The ``index``-th response of a decoupled request was sent, ``total_ns`` after the one before it.

        :param output_ns: how much of that was spent on the outputs.
        """
        responses = self._responses
        if index >= len(responses):
            index = min(index, MAX_RESPONSES - 1)
            while len(responses) <= index:
                responses.append(_ResponseSpans())
        spans = responses[index]
        if outcome is Outcome.SUCCESS:
            spans.success += 1
            spans.success_ns += total_ns
            spans.output_ns += output_ns
        elif outcome is Outcome.FAIL:
            spans.fail += 1
            spans.fail_ns += total_ns
            spans.output_ns += output_ns
        elif outcome is Outcome.EMPTY:
            spans.empty += 1
            spans.empty_ns += total_ns
        else:
            spans.cancel += 1
            spans.cancel_ns += total_ns

    @property
    def stamp(self) -> tuple[int, int, int, int]:
        """Differs from an earlier one where requests were counted in between. Any thread."""
        return (self._success_count, self.fail.count, self.execution_count, self.pending)

    def totals(self) -> Totals:
        """The sums alone, cheap enough for every second. Any thread."""
        count = self._success_count
        batches = sorted((rows, spans.count) for rows, spans in self._batches.copy().items())
        return Totals(
            success=count,
            failures=self._failures.copy(),
            inference_count=self.inference_count,
            execution_count=self.execution_count,
            pending=self.pending,
            request_ns=self._success_ns,
            queue_ns=self._queue_ns,
            input_ns=self._input_ns,
            infer_ns=self._infer_ns,
            output_ns=self._output_ns,
            batches=batches,
            batch_limits=_worded(self._batch_limits),
            latency=latency.sparse(self._latency.copy()),
            load_duration_s=self.load_duration_s,
            last_inference=self.last_inference,
        )

    def snapshot(self) -> ModelSnapshot:
        """A frozen picture. Any thread."""
        count = self._success_count
        return ModelSnapshot(
            name=self.name,
            version=self.version,
            last_inference=self.last_inference,
            inference_count=self.inference_count,
            execution_count=self.execution_count,
            success=Duration(count, self._success_ns),
            fail=self.fail.freeze(),
            queue=Duration(count, self._queue_ns),
            compute_input=Duration(count, self._input_ns),
            compute_infer=Duration(count, self._infer_ns),
            compute_output=Duration(count, self._output_ns),
            batches=tuple(spans.freeze(rows) for rows, spans in sorted(self._batches.copy().items())),
            responses=tuple((str(index), spans.freeze()) for index, spans in enumerate(tuple(self._responses))),
            memory_usage=self.memory_usage,
            failures=self._failures.copy(),
            batch_limits=_worded(self._batch_limits),
            pending=self.pending,
            load_duration_s=self.load_duration_s,
            metric_tags=self.metric_tags,
        )


def _worded(batch_limits: Sequence[int]) -> dict[str, int]:
    """The counts by the words for them; nothing without a batcher."""
    return {limit.value: count for limit, count in zip(BatchLimit, batch_limits, strict=False)}
