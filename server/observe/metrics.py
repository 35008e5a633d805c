"""Prometheus metrics under Triton's names, made from snapshots at the moment they are asked for.

Nothing here is counted while requests are served: collectors in a registry of our own read the snapshots, and the
samples of a model version are kept until its snapshot changes. Names, types, labels and units of the ``nv_…``
families are Triton's; families of our own start with ``infer_``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from prometheus_client.core import CollectorRegistry
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

from ...backends.api.errors import FailureReason

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from .gpu import GpuReading
    from .host import HostProbe
    from .statistics import ModelSnapshot

CONTENT_TYPE: Final = "text/plain; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Family:
    """A metric family: its exact name, what ``# HELP`` says, and ``counter`` or ``gauge``."""

    name: str
    help: str
    type: str = "counter"

    def metric(self, samples: Iterable[Sample]) -> Metric:
        """The family with these samples, as the registry passes it on."""
        metric = Metric(self.name, self.help, self.type)
        metric.samples = list(samples)
        return metric


_FAILURE: Final = Family("nv_inference_request_failure", "Number of failed inference requests, all batch sizes")

_BATCHES: Final = Family(
    "infer_batches_total", "Number of batches handed to an instance, by what kept them from being larger"
)

#: A family of each model version, and how its value is read from a snapshot. Microseconds are whole.
_MODEL_FAMILIES: Final[tuple[tuple[Family, Callable[[ModelSnapshot], float]], ...]] = (
    (
        Family("nv_inference_request_success", "Number of successful inference requests, all batch sizes"),
        lambda model: model.success.count,
    ),
    (
        Family("nv_inference_count", "Number of inferences performed (does not include cached requests)"),
        lambda model: model.inference_count,
    ),
    (
        Family("nv_inference_exec_count", "Number of model executions performed (does not include cached requests)"),
        lambda model: model.execution_count,
    ),
    (
        Family(
            "nv_inference_request_duration_us",
            "Cumulative inference request duration in microseconds (includes cached requests)",
        ),
        lambda model: model.success.ns // 1000,
    ),
    (
        Family(
            "nv_inference_queue_duration_us",
            "Cumulative inference queuing duration in microseconds (includes cached requests)",
        ),
        lambda model: model.queue.ns // 1000,
    ),
    (
        Family(
            "nv_inference_compute_input_duration_us",
            "Cumulative compute input duration in microseconds (does not include cached requests)",
        ),
        lambda model: model.compute_input.ns // 1000,
    ),
    (
        Family(
            "nv_inference_compute_infer_duration_us",
            "Cumulative compute inference duration in microseconds (does not include cached requests)",
        ),
        lambda model: model.compute_infer.ns // 1000,
    ),
    (
        Family(
            "nv_inference_compute_output_duration_us",
            "Cumulative inference compute output duration in microseconds (does not include cached requests)",
        ),
        lambda model: model.compute_output.ns // 1000,
    ),
    (
        Family(
            "nv_inference_pending_request_count",
            "Instantaneous number of pending requests awaiting execution per-model.",
            "gauge",
        ),
        lambda model: model.pending,
    ),
    (
        Family("nv_model_load_duration_secs", "Model load time in seconds", "gauge"),
        lambda model: model.load_duration_s,
    ),
)

_GPU_FAMILIES: Final[tuple[tuple[Family, Callable[[GpuReading], float]], ...]] = (
    (Family("nv_gpu_utilization", "GPU utilization rate [0.0 - 1.0)", "gauge"), lambda gpu: gpu.utilization),
    (
        Family("nv_gpu_memory_total_bytes", "GPU total memory, in bytes", "gauge"),
        lambda gpu: gpu.memory_total_bytes,
    ),
    (Family("nv_gpu_memory_used_bytes", "GPU used memory, in bytes", "gauge"), lambda gpu: gpu.memory_used_bytes),
    (Family("nv_gpu_power_usage", "GPU power usage in watts", "gauge"), lambda gpu: gpu.power_usage_watts),
    (Family("nv_gpu_power_limit", "GPU power management limit in watts", "gauge"), lambda gpu: gpu.power_limit_watts),
    (
        Family("nv_energy_consumption", "GPU energy consumption in joules since the server started"),
        lambda gpu: gpu.energy_joules,
    ),
)

_CPU_UTILIZATION: Final = Family("nv_cpu_utilization", "CPU utilization rate [0.0 - 1.0]", "gauge")
_CPU_TOTAL: Final = Family("nv_cpu_memory_total_bytes", "CPU total memory (RAM), in bytes", "gauge")
_CPU_USED: Final = Family("nv_cpu_memory_used_bytes", "CPU used memory (RAM), in bytes", "gauge")
_PINNED_TOTAL: Final = Family(
    "nv_pinned_memory_pool_total_bytes", "Pinned memory pool total memory size, in bytes", "gauge"
)
_PINNED_USED: Final = Family(
    "nv_pinned_memory_pool_used_bytes", "Pinned memory pool used memory size, in bytes", "gauge"
)
_REFUSED: Final = Family(
    "infer_refused_requests_total", "Number of inference requests refused before they were queued, by error code"
)

_INSTANCE_MEMORY: Final = Family(
    "infer_instance_memory_bytes", "Memory that the worker process of an instance holds (resident), in bytes", "gauge"
)


class InstanceMemory(NamedTuple):
    """What one worker process holds, in bytes."""

    model: str
    version: str
    instance: str
    bytes: int


SERVER_FAMILIES: Final[frozenset[str]] = frozenset(
    family.name
    for family in (
        *(family for family, _ in _MODEL_FAMILIES),
        *(family for family, _ in _GPU_FAMILIES),
        *(_FAILURE, _CPU_UTILIZATION, _CPU_TOTAL, _CPU_USED, _PINNED_TOTAL, _PINNED_USED),
        *(_REFUSED, _INSTANCE_MEMORY, _BATCHES),
    )
)
"""The names of the server's own families."""


def model_samples(model: ModelSnapshot) -> dict[Family, list[Sample]]:
    """The samples of one model version, by family; a metric tag becomes a label with an underscore in front."""
    labels = {"model": model.name, "version": model.version}
    labels.update((f"_{tag}", value) for tag, value in model.metric_tags.items())
    samples = {family: [Sample(family.name, labels, read(model))] for family, read in _MODEL_FAMILIES}
    samples[_FAILURE] = [
        Sample(_FAILURE.name, {**labels, "reason": reason.value}, model.failures.get(reason.value, 0))
        for reason in FailureReason
    ]
    samples[_BATCHES] = [
        Sample(_BATCHES.name, {**labels, "reason": limit}, count) for limit, count in model.batch_limits.items()
    ]
    return samples


class RenderedMetric(Metric):
    """A family whose sample lines are text already."""

    def __init__(self, family: Family, rendered: Iterable[str]) -> None:
        """``rendered`` holds whole lines."""
        super().__init__(family.name, family.help, family.type)
        self.rendered = "".join(rendered)


class ModelCollector(Collector):
    """The per-model families. A family without a model is still named, as Triton does; ours needs a batcher.

    The lines of a model version are kept until its snapshot changes: with a thousand idle models a scrape takes
    a tenth of the time, and it holds the GIL for all of it.
    """

    def __init__(self, statistics: Callable[[], Iterable[ModelSnapshot]]) -> None:
        """``statistics`` gives the snapshots of all loaded versions and may be called by any thread."""
        self._statistics = statistics
        self._cache: dict[tuple[str, str], tuple[ModelSnapshot, dict[Family, str]]] = {}

    def collect(self) -> Iterator[Metric]:
        """One metric a family."""
        cache: dict[tuple[str, str], tuple[ModelSnapshot, dict[Family, str]]] = {}
        for model in self._statistics():
            key = (model.name, model.version)
            known = self._cache.get(key)
            cache[key] = known if known is not None and known[0] == model else (model, _rendered(model))
        # Replaced as a whole: unloaded models leave it, and a scrape beside this one still has the old one.
        self._cache = cache
        families = [_MODEL_FAMILIES[0][0], _FAILURE, *(family for family, _ in _MODEL_FAMILIES[1:])]
        for family in families:
            yield RenderedMetric(family, (lines[family] for _, lines in cache.values()))
        batched = [lines[_BATCHES] for _, lines in cache.values() if lines[_BATCHES]]
        if batched:
            yield RenderedMetric(_BATCHES, batched)


def _rendered(model: ModelSnapshot) -> dict[Family, str]:
    return {family: "".join(map(_line, samples)) for family, samples in model_samples(model).items()}


class HostCollector(Collector):
    """CPU and memory of the machine, read at scrape."""

    def __init__(self, probe: HostProbe) -> None:
        """``probe`` reads the machine."""
        self._probe = probe

    def collect(self) -> Iterator[Metric]:
        """One sample a family, without labels. There is no pool of pinned memory, so its size is 0."""
        host = self._probe.read()
        values = (
            (_PINNED_TOTAL, 0),
            (_PINNED_USED, 0),
            (_CPU_UTILIZATION, host.cpu_utilization),
            (_CPU_TOTAL, host.memory_total_bytes),
            (_CPU_USED, host.memory_used_bytes),
        )
        for family, value in values:
            yield family.metric((Sample(family.name, {}, value),))


class GpuCollector(Collector):
    """What the GPU sampler last read, labelled with ``gpu_uuid``."""

    def __init__(self, readings: Callable[[], Iterable[GpuReading]]) -> None:
        """``readings`` gives the last sample of every GPU."""
        self._readings = readings

    def collect(self) -> Iterator[Metric]:
        """One metric a family, one sample a GPU."""
        readings = tuple(self._readings())
        for family, read in _GPU_FAMILIES:
            yield family.metric(Sample(family.name, {"gpu_uuid": gpu.uuid}, read(gpu)) for gpu in readings)


class RefusalCollector(Collector):
    """Requests that were refused before a model was concerned."""

    def __init__(self, refusals: Callable[[], Mapping[str, int]]) -> None:
        """``refusals`` gives counts by error code; any thread may call it."""
        self._refusals = refusals

    def collect(self) -> Iterator[Metric]:
        """One family, a sample a code."""
        counts = sorted(self._refusals().items())
        yield _REFUSED.metric(Sample(_REFUSED.name, {"code": code}, count) for code, count in counts)


class InstanceCollector(Collector):
    """The memory of worker processes, read at scrape."""

    def __init__(self, memory: Callable[[], Iterable[InstanceMemory]]) -> None:
        """``memory`` gives what every worker holds; any thread may call it."""
        self._memory = memory

    def collect(self) -> Iterator[Metric]:
        """One family, a sample an instance."""
        yield _INSTANCE_MEMORY.metric(
            Sample(
                _INSTANCE_MEMORY.name,
                {"model": each.model, "version": each.version, "instance": each.instance},
                each.bytes,
            )
            for each in self._memory()
        )


class ServerMetrics:
    """The registry of one server. Other rooms may register collectors of their own."""

    def __init__(  # noqa: PLR0913  what there may be to show, by name
        self,
        statistics: Callable[[], Iterable[ModelSnapshot]],
        *,
        host: HostProbe | None = None,
        gpus: Callable[[], Iterable[GpuReading]] | None = None,
        refusals: Callable[[], Mapping[str, int]] | None = None,
        memory: Callable[[], Iterable[InstanceMemory]] | None = None,
        custom: Collector | None = None,
    ) -> None:
        """``host`` None leaves the CPU gauges out, ``gpus`` None the GPU gauges, and so on; ``custom`` are models'."""
        self.registry = CollectorRegistry(auto_describe=False)
        self.registry.register(ModelCollector(statistics))
        if refusals is not None:
            self.registry.register(RefusalCollector(refusals))
        if memory is not None:
            self.registry.register(InstanceCollector(memory))
        if gpus is not None:
            self.registry.register(GpuCollector(gpus))
        if host is not None:
            self.registry.register(HostCollector(host))
        if custom is not None:
            self.registry.register(custom)

    def text(self) -> str:
        """Everything in the text exposition format. Any thread."""
        return exposition(self.registry.collect())


def exposition(metrics: Iterable[Metric]) -> str:
    """The text format, with each family under its own name.

    The client library's writer would add ``_total`` to the name of a counter, which Triton's names do not have.
    """
    lines: list[str] = []
    for metric in metrics:
        documentation = metric.documentation.replace("\\", r"\\").replace("\n", r"\n")
        kind = "untyped" if metric.type == "unknown" else metric.type
        lines.append(f"# HELP {metric.name} {documentation}\n# TYPE {metric.name} {kind}\n")
        if isinstance(metric, RenderedMetric):
            lines.append(metric.rendered)
        else:
            lines.extend(_line(sample) for sample in metric.samples if not sample.name.endswith("_created"))
    return "".join(lines)


def _line(sample: Sample) -> str:
    return f"{sample.name}{label_text(sample.labels)} {number_text(sample.value)}\n"


def label_text(labels: Mapping[str, str], **last: str) -> str:
    """Labels as a line has them, sorted; ``last`` are those that come after all others."""
    pairs = [f'{name}="{_escaped(value)}"' for name, value in (*sorted(labels.items()), *last.items())]
    return "{" + ",".join(pairs) + "}" if pairs else ""


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def number_text(value: float) -> str:
    """A value as a line has it."""
    if math.isfinite(value):
        return repr(value)
    return "NaN" if math.isnan(value) else ("+Inf" if value > 0 else "-Inf")
