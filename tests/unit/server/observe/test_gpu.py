from __future__ import annotations

import contextlib
import sys
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from infer.server.observe import gpu
from infer.server.observe.gpu import FAILURE_LIMIT, Found, GpuProbe, GpuReading, GpuSampler, NvmlDevice, is_visible

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


@dataclass
class StubDevice:
    uuid: str = "GPU-1234"
    fields: Mapping[str, Callable[[], float]] = field(default_factory=dict)
    index: int = 0
    name: str = "Tester"


class NvmlStub:
    """The part of pynvml that a device asks, with power unknown to the GPU."""

    NVML_TEMPERATURE_GPU = 0

    class NVMLError(Exception):
        pass

    def __init__(self) -> None:
        self.energy_mj = 5000

    def nvmlDeviceGetUUID(self, _handle: object) -> Any:  # noqa: N802
        return "GPU-abc"

    def nvmlDeviceGetUtilizationRates(self, _handle: object) -> Any:  # noqa: N802
        return type("Rates", (), {"gpu": 42})

    def nvmlDeviceGetMemoryInfo(self, _handle: object) -> Any:  # noqa: N802
        return type("Memory", (), {"total": 1000, "used": 10})

    def nvmlDeviceGetPowerUsage(self, _handle: object) -> Any:  # noqa: N802
        raise self.NVMLError("not supported")

    def nvmlDeviceGetEnforcedPowerLimit(self, _handle: object) -> Any:  # noqa: N802
        return 700_000

    def nvmlDeviceGetTotalEnergyConsumption(self, _handle: object) -> Any:  # noqa: N802
        return self.energy_mj

    def nvmlDeviceGetName(self, _handle: object) -> Any:  # noqa: N802
        return b"NVIDIA Tester"

    def nvmlDeviceGetTemperature(self, _handle: object, sensor: int) -> Any:  # noqa: N802
        assert sensor == self.NVML_TEMPERATURE_GPU
        return 61


def test_readings_are_in_tritons_units_and_energy_counts_from_the_first_sample() -> None:
    nvml = NvmlStub()
    probe = GpuProbe((NvmlDevice(nvml, object(), 3),))
    probe.read()
    nvml.energy_mj += 2500
    assert probe.read() == (GpuReading("GPU-abc", 0.42, 1000, 10, 0.0, 700.0, 2.5, 61, 3, "NVIDIA Tester"),)


def test_a_gpu_that_does_not_tell_its_name_is_measured_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def unnamed(_handle: object) -> Any:
        raise NvmlStub.NVMLError("not supported")

    nvml = NvmlStub()
    monkeypatch.setattr(nvml, "nvmlDeviceGetName", unnamed)
    assert NvmlDevice(nvml, object(), 3).name == ""


def test_a_field_that_keeps_failing_is_not_asked_for_again() -> None:
    asked: list[int] = []

    def fails() -> float:
        asked.append(1)
        raise OSError("not supported")

    probe = GpuProbe((StubDevice(fields={"power_usage_watts": fails}),))
    for _ in range(FAILURE_LIMIT + 4):
        assert probe.read()[0].power_usage_watts == 0.0
    assert len(asked) == FAILURE_LIMIT


def test_a_success_forgives_earlier_failures() -> None:
    outcomes = iter([OSError("once"), 1.0, OSError("again"), OSError("again"), 2.0])

    def flaky() -> float:
        outcome = next(outcomes)
        if isinstance(outcome, OSError):
            raise outcome
        return outcome

    probe = GpuProbe((StubDevice(fields={"power_usage_watts": flaky}),))
    assert [probe.read()[0].power_usage_watts for _ in range(5)] == [0.0, 1.0, 0.0, 0.0, 2.0]


def test_the_sampler_has_a_named_thread_and_joins_it() -> None:
    sampled = threading.Event()
    count = [0]

    def utilization() -> float:
        count[0] += 1
        if count[0] > 2:
            sampled.set()
        return 0.5

    sampler = GpuSampler(interval_s=0.001)
    assert sampler.start((StubDevice(fields={"utilization": utilization}),))
    assert sampled.wait(10)
    assert "gpu-sampler" in {thread.name for thread in threading.enumerate()}
    sampler.stop()
    sampler.stop()
    assert "gpu-sampler" not in {thread.name for thread in threading.enumerate()}
    assert sampler.readings == (GpuReading("GPU-1234", utilization=0.5, name="Tester"),)


def test_without_a_gpu_there_is_no_thread() -> None:
    sampler = GpuSampler()
    assert not sampler.start(())
    assert "gpu-sampler" not in {thread.name for thread in threading.enumerate()}
    sampler.stop()


def test_this_machine_is_asked_without_an_error() -> None:
    sampler = GpuSampler()
    found = sampler.start()
    try:
        assert found == bool(sampler.readings)
        assert all(reading.memory_total_bytes > 0 for reading in sampler.readings)
    finally:
        sampler.stop()


@pytest.mark.parametrize(
    ("visible", "index", "expected"),
    [(None, 3, True), ("", 0, False), ("0,2", 2, True), ("0,2", 1, False), ("GPU-ab", 7, True), ("GPU-", 7, False)],
)
def test_only_visible_gpus_are_measured(visible: str | None, index: int, *, expected: bool) -> None:
    assert is_visible(visible, index, "GPU-abc") is expected


def test_gpus_that_models_may_use_are_numbered_as_cuda_does(monkeypatch: pytest.MonkeyPatch) -> None:
    @contextlib.contextmanager
    def two() -> Any:
        yield Found((StubDevice("GPU-1"), StubDevice("GPU-2")))

    monkeypatch.setattr(gpu, "visible_devices", two)
    assert gpu.usable_indices() == (0, 1)
    monkeypatch.undo()
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert gpu.usable_indices() == ()


class NvmlLibrary(NvmlStub):
    """The whole of pynvml: three GPUs, the second of which is broken."""

    def __init__(self, *, driver: bool = True, count: int = 3) -> None:
        super().__init__()
        self.driver = driver
        self.count = count
        self.shut_down = 0

    def nvmlInit(self) -> None:  # noqa: N802
        if not self.driver:
            raise self.NVMLError("Driver Not Loaded")

    def nvmlShutdown(self) -> None:  # noqa: N802
        self.shut_down += 1

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return self.count

    def nvmlDeviceGetHandleByIndex(self, index: int) -> Any:  # noqa: N802
        if index == 1:
            raise self.NVMLError("GPU is lost")
        return index

    def nvmlDeviceGetUUID(self, handle: object) -> Any:  # noqa: N802
        return f"GPU-{handle}"


@pytest.mark.parametrize(("visible", "count"), [(None, 2), ("", 0), ("2", 1), ("0,1,2", 2)])
def test_gpus_that_are_lost_or_hidden_are_left_out_and_the_others_count(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, visible: str | None, count: int
) -> None:
    library = NvmlLibrary()
    monkeypatch.setitem(sys.modules, "pynvml", library)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert gpu.usable_indices() == tuple(range(count))
    assert library.shut_down == 1
    assert "GPU 1: left out of the metrics: GPU is lost" in caplog.text


def test_a_library_without_a_driver_and_no_library_at_all_mean_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    library = NvmlLibrary(driver=False)
    monkeypatch.setitem(sys.modules, "pynvml", library)
    assert gpu.usable_indices() == ()
    assert library.shut_down == 0
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert gpu.usable_indices() == ()


def reason() -> str:
    sampler = GpuSampler()
    assert not sampler.start()
    return sampler.reason


def test_a_machine_without_gpus_says_why_it_shows_none(monkeypatch: pytest.MonkeyPatch) -> None:
    assert GpuSampler().reason == "GPUs are not measured"
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert reason() == "the package nvidia-ml-py, which reads NVIDIA GPUs, is not installed"
    monkeypatch.setitem(sys.modules, "pynvml", NvmlLibrary(driver=False))
    assert reason() == "no NVIDIA driver on this machine (Driver Not Loaded)"
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setitem(sys.modules, "pynvml", NvmlLibrary(count=0))
    assert reason() == "the NVIDIA driver finds no GPU"
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "7")
    monkeypatch.setitem(sys.modules, "pynvml", NvmlLibrary())
    assert reason() == "CUDA_VISIBLE_DEVICES='7' hides every GPU"


def test_gpus_that_cannot_be_read_are_told_from_gpus_that_are_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def lost(_index: int) -> Any:
        raise NvmlStub.NVMLError("GPU is lost")

    library = NvmlLibrary(count=2)
    monkeypatch.setattr(library, "nvmlDeviceGetHandleByIndex", lost)
    monkeypatch.setitem(sys.modules, "pynvml", library)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert reason() == "none of 2 GPUs can be read; the log says why"


def test_a_machine_with_gpus_gives_no_reason() -> None:
    sampler = GpuSampler()
    assert sampler.start((StubDevice(),))
    sampler.stop()
    assert sampler.reason == ""
