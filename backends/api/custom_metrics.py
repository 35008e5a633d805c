"""The port through which a model has the server count for it. Given at load, never imported."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Protocol

from .errors import Unsupported

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class MetricKind(enum.Enum):
    """What a family counts, as the text exposition format spells it."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class CustomMetric(Protocol):
    """A handle on one metric. Any thread. Raises InvalidArgument for what its kind does not do."""

    def increment(self, value: float) -> None:
        """Add to a counter (nothing negative) or a gauge."""
        ...

    def set(self, value: float) -> None:
        """Set a gauge."""
        ...

    def observe(self, value: float) -> None:
        """Count a value in a histogram."""
        ...

    def value(self) -> float:
        """The value of a counter or a gauge."""
        ...

    def close(self) -> None:
        """Let go of it; a metric without handles is gone."""
        ...


class CustomFamily(Protocol):
    """A handle on a family. Any thread."""

    def metric(self, labels: Mapping[str, str], buckets: Sequence[float] | None = None) -> CustomMetric:
        """The metric with these labels, made where there is none; ``buckets`` are a histogram's upper bounds.

        Raises InvalidArgument for labels that Prometheus does not take, and for buckets where they do not belong.
        """
        ...

    def close(self) -> None:
        """Let go of it, and of every handle on its metrics that it gave."""
        ...


class CustomMetrics(Protocol):
    """Metrics of models. Any thread."""

    def family(self, name: str, description: str, kind: MetricKind) -> CustomFamily:
        """The family of that name, made where there is none: the first description stays.

        Raises InvalidArgument for a name that Prometheus does not take, that is the server's own, or that exists with
        another kind.
        """
        ...


class NoCustomMetrics:
    """The port where there is no server behind it."""

    def family(self, name: str, description: str, kind: MetricKind) -> CustomFamily:  # noqa: ARG002  the port's signature
        """Raises Unsupported."""
        msg = f"metric '{name}' cannot be made: there is no server that counts here"
        raise Unsupported(msg)
