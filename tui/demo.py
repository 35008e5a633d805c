"""A made-up server, for ``infer top --demo``, screenshots and tests. It is the same for the same clock.

It answers as a server of ours does: loads and unloads take their time and change states, logs flow, a call checks its
values against the metadata and gets made-up outputs.
"""

from __future__ import annotations

import json
import math
import threading
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any
from zlib import crc32

from .client import Client, Reply
from .demo_log import DemoLog
from .demo_models import MIB, MODELS, DemoModel, Tensor
from .failure import ClientError, Kind
from .snapshot import Gpu, Host, LogPage, ModelSnapshot, Overview, Server

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from .inference import Answer

Document = dict[str, Any]

UPTIME_S = 7_500.0
"""How long the server has been up when it is first looked at."""

_ADDRESS = "127.0.0.1:8000"
_FREE_SIZE = 4


@dataclass(slots=True)
class _State:
    """What changes of a model while the demo runs. Counters speak of the time since ``loaded_at``."""

    model: DemoModel
    loaded_at: float
    changed: bool = False
    state: str = field(init=False)
    version: str = field(init=False)
    reason: str = field(init=False)

    def __post_init__(self) -> None:
        self.state, self.version, self.reason = self.model.state, self.model.version, self.model.reason


class DemoServer:
    """A :class:`~infer.tui.source.Source` without a server."""

    def __init__(
        self, clock: Callable[[], float] = time.time, pause: Callable[[float], None] = time.sleep, *, seed: int = 4
    ) -> None:
        """``clock`` tells the seconds since 1970, ``pause`` lets the seconds of a load go by; ``seed`` makes values."""
        self._clock = clock
        self._pause = pause
        self._seed = seed
        self._lock = threading.Lock()
        self._start = clock()
        self._states = {model.name: _State(model, loaded_at=self._start - UPTIME_S) for model in MODELS}
        self._log = DemoLog(self._start, seed)

    @property
    def address(self) -> str:
        """No address: what a title shows."""
        return "demo"

    def overview(self) -> Overview:
        """The server now."""
        with self._lock:
            now = self._clock()
            self._log.flow(now)
            rows = [row for state in self._states.values() for row in self._rows(state, now)]
            return Overview(
                server=self._server(now),
                models=tuple(rows),
                host=Host(0.31 + 0.2 * _wave(now - self._start, 40), 16, 3.4, 64 * 1024 * MIB, 27 * 1024 * MIB),
                gpus=tuple(self._gpu(index, now) for index in range(2)),
                refused={"INVALID_ARGUMENT": 3, "NOT_FOUND": 12},
                log_last=self._log.last,
            )

    def _server(self, now: float) -> Server:
        seconds = now - self._start + UPTIME_S
        return Server(
            id="triton",
            version="0.1.0",
            name="demo",
            pid=4242,
            started_at=self._start - UPTIME_S,
            now=now,
            ready=True,
            control_mode="explicit",
            http=_ADDRESS,
            grpc="127.0.0.1:8001",
            operator="127.0.0.1:8002",
            memory_bytes=1_430 * MIB,
            cpu_s=0.34 * seconds,
        )

    def _gpu(self, index: int, now: float) -> Gpu:
        busy = 0.55 + 0.35 * _wave(now - self._start, 45 + 15 * index)
        return Gpu(
            index=index,
            uuid=f"GPU-00000000-0000-4000-8000-00000000000{index}",
            name="NVIDIA Demo 48GB",
            utilization=busy,
            memory_total_bytes=48 * 1024 * MIB,
            memory_used_bytes=(31 - 12 * index) * 1024 * MIB,
            power_usage_watts=60 + 220 * busy,
            power_limit_watts=300.0,
            temperature_celsius=38 + 30 * busy,
            energy_joules=170.0 * (now - self._start + UPTIME_S),
        )

    def _rows(self, state: _State, now: float) -> list[ModelSnapshot]:
        model = state.model
        self._settle(state, now)
        gone = [
            ModelSnapshot(model.name, version, "UNAVAILABLE", "unloaded", model.backend, model.max_batch_size)
            for version in model.old_versions
        ]
        row = ModelSnapshot(
            model.name,
            state.version,
            state.state,
            state.reason,
            model.backend if state.state else "",
            model.max_batch_size if state.state else 0,
            model.depends_on,
        )
        if state.state not in ("READY", "UNLOADING"):
            return [*gone, row]
        traffic, seconds = model.traffic, now - state.loaded_at
        waiting = round(traffic.waiting * traffic.level(seconds))
        batches = traffic.batches(seconds)
        done = traffic.requests(seconds)
        serving = replace(
            row,
            instances=model.instances,
            success=done,
            failures=traffic.failed(seconds),
            inference_count=done,
            execution_count=sum(count for _, count in batches),
            pending=waiting,
            in_flight=waiting + sum(instance.state == "busy" for instance in model.instances),
            durations=traffic.durations(seconds),
            latency=traffic.latency(seconds),
            batches=batches,
            batch_limits=traffic.batch_limits(seconds),
            load_duration_s=model.load_s,
            last_inference_ms=int(now * 1000) if done else 0,
        )
        return [*gone, serving]

    def _settle(self, state: _State, now: float) -> None:
        """What begins in a passing state leaves it by itself, unless somebody changed it before."""
        model = state.model
        if model.later and not state.changed and now - self._start >= model.settled_s:
            state.changed = True
            state.state, state.loaded_at = model.later, self._start + model.settled_s

    def log(self, *, after: int | None = None, limit: int = 200, level: str = "", model: str = "") -> LogPage:
        """Log records after a number, or the last ones."""
        with self._lock:
            self._log.flow(self._clock())
            return self._log.page(after, limit, level, model)

    def metadata(self, name: str, version: str = "") -> Document:
        """Inputs and outputs of a model."""
        return self._serving(name, version).model.metadata()

    def config(self, name: str, version: str = "") -> Document:
        """The configuration of a model."""
        return self._serving(name, version).model.config()

    def load(self, name: str) -> None:
        """Load a model, or load it again: it is LOADING for as long as it takes."""
        state = self._known(name)
        with self._lock:
            state.changed, state.state, state.reason = True, "LOADING", ""
            state.version = state.version or "1"
            self._log.event(self._clock(), "INFO", f"loading {name}", name)
        self._pause(state.model.load_s)
        with self._lock:
            if state.model.reason and state.model.state == "UNAVAILABLE":
                state.state, state.reason = "UNAVAILABLE", state.model.reason
                self._log.event(self._clock(), "ERROR", f"{name} did not load: {state.reason}", name)
                raise ClientError(f"the server refused to load '{name}'", state.reason, "see: infer model list")
            state.state, state.loaded_at = "READY", self._clock()
            self._log.event(self._clock(), "INFO", f"{name} version {state.version} is ready", name)

    def unload(self, name: str) -> None:
        """Stop serving a model: it is UNLOADING for a moment."""
        state = self._known(name)
        if state.state != "READY":
            return
        with self._lock:
            state.changed, state.state = True, "UNLOADING"
            self._log.event(self._clock(), "INFO", f"unloading {name}", name)
        self._pause(1.0)
        with self._lock:
            state.state, state.reason = "UNAVAILABLE", "unloaded"
            self._log.event(self._clock(), "INFO", f"{name} is unloaded", name)

    def infer(self, name: str, version: str, values: Mapping[str, Any]) -> tuple[Answer, str]:
        """Call a model: values are checked against its metadata, outputs are made up."""
        from . import inference

        state = self._serving(name, version)
        if state.model.decoupled:
            raise ClientError(
                f"the server refused '{name}' with status 400",
                "it may send any number of responses to a request, which an HTTP answer cannot hold",
                f"call it over gRPC, or: infer call {name} --stream",
            )
        request = inference.prepare(_DemoClient(f"http://{_ADDRESS}", demo=self), name, version, dict(values), "")
        return replace(request.send(), took_s=state.model.traffic.median_us / 1e6), request.curl()

    def _known(self, name: str) -> _State:
        if name not in self._states:
            raise ClientError(
                f"there is no model '{name}'",
                "no folder of the repository has that name",
                "see what is there: infer model list",
                kind=Kind.NOT_FOUND,
            )
        state = self._states[name]
        self._settle(state, self._clock())
        return state

    def _serving(self, name: str, version: str) -> _State:
        state = self._known(name)
        if state.state != "READY" or version not in ("", state.version):
            wanted = f"version {version} of '{name}'" if version else f"'{name}'"
            raise ClientError(
                f"{wanted} is not ready",
                state.reason or f"its state is {state.state or 'not loaded'}",
                f"load it with: infer model load {name}",
                kind=Kind.NOT_READY,
            )
        return state

    def answer(self, name: str, body: bytes) -> Document:
        """What the made-up server says to an inference request."""
        state = self._serving(name, "")
        given = crc32(body, self._seed)
        outputs = [_made_up(tensor, given) for tensor in state.model.outputs]
        return {"model_name": name, "model_version": state.version, "outputs": outputs}


@dataclass(frozen=True, slots=True, kw_only=True)
class _DemoClient(Client):
    """Takes to the demo what would go to a server's HTTP door."""

    demo: DemoServer

    def request(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,  # noqa: ARG002  as the real one
    ) -> Reply:
        """What the demo says."""
        name = path.split("/")[3]
        document = self.demo.metadata(name) if method == "GET" else self.demo.answer(name, body)
        return Reply(200, {}, json.dumps(document).encode())


def _made_up(tensor: Tensor, given: int) -> Document:
    """An output of the shape that the metadata says, free dimensions small, from a checksum of the request."""
    shape = [size if size >= 0 else (1 if place == 0 else _FREE_SIZE) for place, size in enumerate(tensor.shape)]
    numbers = [crc32(f"{given} {tensor.name} {index}".encode()) % 1000 for index in range(math.prod(shape))]
    data: list[Any] = numbers
    if tensor.datatype == "BYTES":
        data = [("billing", "delivery", "praise", "spam")[number % 4] for number in numbers]
    elif tensor.datatype.startswith(("FP", "BF")):
        data = [number / 1000 for number in numbers]
    return {"name": tensor.name, "datatype": tensor.datatype, "shape": shape, "data": data}


def _wave(seconds: float, period_s: float) -> float:
    """-1 .. 1."""
    return math.sin(2 * math.pi * seconds / period_s)
