"""GPU gauges through NVML: a thread that samples every visible GPU; where there is none, a sentence that says why."""

from __future__ import annotations

import contextlib
import importlib
import logging
import os
import threading
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Mapping

_logger = logging.getLogger(__name__)

#: After so many failures in a row a field of a GPU is not asked for again.
FAILURE_LIMIT = 3


@dataclass(frozen=True, slots=True)
class GpuReading:
    """One GPU at one moment. ``utilization`` is 0..1, memory is in bytes, power in watts.

    ``energy_joules`` counts from the first sample. A field that the GPU does not offer is 0. ``index`` is the driver's
    number of the GPU, ``name`` its product name.
    """

    uuid: str
    utilization: float = 0.0
    memory_total_bytes: int = 0
    memory_used_bytes: int = 0
    power_usage_watts: float = 0.0
    power_limit_watts: float = 0.0
    energy_joules: float = 0.0
    temperature_celsius: float = 0.0
    index: int = 0
    name: str = ""


class Device(Protocol):
    """One GPU as the sampler asks it: ``fields`` gives field name to value; a field may raise OSError."""

    uuid: str
    index: int
    name: str
    fields: Mapping[str, Callable[[], float]]


class NvmlDevice:
    """One GPU behind the NVML library."""

    def __init__(self, nvml: Any, handle: Any, index: int = 0) -> None:  # noqa: ANN401  pynvml has no types
        """Raises OSError when the GPU does not tell its identity."""
        self._nvml = nvml
        self._handle = handle
        self.index = index
        self.uuid = _text(self._ask(nvml.nvmlDeviceGetUUID))
        self.name = ""
        with contextlib.suppress(OSError):
            self.name = _text(self._ask(nvml.nvmlDeviceGetName))
        self.fields: Mapping[str, Callable[[], float]] = {
            "utilization": lambda: self._ask(nvml.nvmlDeviceGetUtilizationRates).gpu / 100,
            "memory_total_bytes": lambda: self._ask(nvml.nvmlDeviceGetMemoryInfo).total,
            "memory_used_bytes": lambda: self._ask(nvml.nvmlDeviceGetMemoryInfo).used,
            "power_usage_watts": lambda: self._ask(nvml.nvmlDeviceGetPowerUsage) / 1000,
            "power_limit_watts": lambda: self._ask(nvml.nvmlDeviceGetEnforcedPowerLimit) / 1000,
            "energy_joules": lambda: self._ask(nvml.nvmlDeviceGetTotalEnergyConsumption) / 1000,
            "temperature_celsius": lambda: self._ask(
                lambda device: nvml.nvmlDeviceGetTemperature(device, nvml.NVML_TEMPERATURE_GPU)
            ),
        }

    def _ask(self, function: Callable[[Any], Any]) -> Any:  # noqa: ANN401  as above
        try:
            return function(self._handle)
        except self._nvml.NVMLError as error:
            raise OSError(str(error)) from error


def _text(value: str | bytes) -> str:
    """What NVML says, which older libraries give as bytes."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


class GpuProbe:
    """Reads every device once a call; a field that fails too often is left out from then on."""

    def __init__(self, devices: tuple[Device, ...]) -> None:
        """``devices`` in the order in which they are shown."""
        self._devices = devices
        self._failures: dict[tuple[str, str], int] = {}
        self._first_energy: dict[str, float] = {}

    def read(self) -> tuple[GpuReading, ...]:
        """One reading a device."""
        return tuple(self._read_device(device) for device in self._devices)

    def _read_device(self, device: Device) -> GpuReading:
        values = {field: value for field in device.fields if (value := self._read_field(device, field)) is not None}
        reading = replace(GpuReading(device.uuid, index=device.index, name=device.name), **values)
        if "energy_joules" not in values:
            return reading
        first = self._first_energy.setdefault(device.uuid, reading.energy_joules)
        return replace(reading, energy_joules=reading.energy_joules - first)

    def _read_field(self, device: Device, field: str) -> float | None:
        key = (device.uuid, field)
        if self._failures.get(key, 0) >= FAILURE_LIMIT:
            return None
        try:
            value = device.fields[field]()
        except OSError as error:
            self._failures[key] = self._failures.get(key, 0) + 1
            _logger.warning("GPU %s: unable to read %s: %s", device.uuid, field, error)
            return None
        self._failures[key] = 0
        return value


class GpuSampler:
    """Samples the GPUs every ``interval_s`` on the thread ``gpu-sampler``.

    ``readings`` and ``reason``, the sentence why there are none, may be read by any thread.
    """

    def __init__(self, interval_s: float = 2.0) -> None:
        """Nothing is touched before ``start``."""
        self._interval_s = interval_s
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._cleanup = contextlib.ExitStack()
        self.readings: tuple[GpuReading, ...] = ()
        self.reason = "GPUs are not measured"

    def start(self, devices: tuple[Device, ...] | None = None) -> bool:
        """Look for GPUs (those of NVML unless ``devices`` are given) and sample them. False where there is none."""
        reason = ""
        if devices is None:
            devices, reason = self._cleanup.enter_context(visible_devices())
        self.reason = reason
        if not devices:
            self._cleanup.close()
            return False
        probe = GpuProbe(devices)
        self.readings = probe.read()
        self._thread = threading.Thread(target=self._sample, args=(probe,), name="gpu-sampler", daemon=True)
        self._thread.start()
        return True

    def stop(self) -> None:
        """End the thread and let NVML go. Idempotent."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        self._cleanup.close()

    def _sample(self, probe: GpuProbe) -> None:
        while not self._stop.wait(self._interval_s):
            self.readings = probe.read()


class Found(NamedTuple):
    """The GPUs that this process may use, and where there are none, why, as a sentence."""

    devices: tuple[Device, ...]
    reason: str = ""


@contextlib.contextmanager
def visible_devices() -> Generator[Found]:
    """The GPUs that this process may use, with NVML open for as long."""
    try:
        nvml: Any = importlib.import_module("pynvml")
    except ImportError:
        yield Found((), "the package nvidia-ml-py, which reads NVIDIA GPUs, is not installed")
        return
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        _logger.debug("no GPU metrics: %s", error)
        yield Found((), f"no NVIDIA driver on this machine ({error})")
        return
    try:
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        devices = tuple(_devices(nvml, visible))
        yield Found(devices, "" if devices else _why_none(nvml.nvmlDeviceGetCount(), visible))
    finally:
        nvml.nvmlShutdown()


def _why_none(count: int, visible: str | None) -> str:
    if not count:
        return "the NVIDIA driver finds no GPU"
    if visible is not None:
        return f"CUDA_VISIBLE_DEVICES='{visible}' hides every GPU"
    return f"none of {count} GPUs can be read; the log says why"


def _devices(nvml: Any, visible: str | None) -> Iterator[Device]:  # noqa: ANN401  as above
    for index in range(nvml.nvmlDeviceGetCount()):
        try:
            device = NvmlDevice(nvml, nvml.nvmlDeviceGetHandleByIndex(index), index)
        except (OSError, nvml.NVMLError) as error:
            _logger.warning("GPU %d: left out of the metrics: %s", index, error)
            continue
        if is_visible(visible, index, device.uuid):
            yield device


def is_visible(visible: str | None, index: int, uuid: str) -> bool:
    """Whether ``CUDA_VISIBLE_DEVICES`` (None: not set) lets this GPU be used; it names indices or UUID prefixes."""
    if visible is None:
        return True
    wanted = [entry.strip() for entry in visible.split(",")]
    return any(entry == str(index) or (len(entry) > len("GPU-") and uuid.startswith(entry)) for entry in wanted)


def usable_indices() -> tuple[int, ...]:
    """The GPUs that models may use, numbered as CUDA numbers the visible ones; () where there is none."""
    with visible_devices() as found:
        return tuple(range(len(found.devices)))
