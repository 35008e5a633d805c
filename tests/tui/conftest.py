"""A made-up server for the dashboard: a table of models that a test changes as it likes."""

from __future__ import annotations

import contextlib
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from infer.tui.app import DashboardApp
from infer.tui.failure import ClientError, Kind
from infer.tui.snapshot import Duration, Host, Instance, LogPage, LogRecord, ModelSnapshot, Overview, Server
from infer.tui.widgets.model_table import ModelTable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from textual.pilot import Pilot

START = 1_800_000_000.0


def model(name: str, **changes: Any) -> ModelSnapshot:
    """A row of a model that serves."""
    row = ModelSnapshot(
        name=name,
        version="1",
        state="READY",
        backend="python",
        max_batch_size=8,
        instances=(Instance(f"{name}_0_0", "KIND_CPU", -1, "idle", 4242, 80 << 20, 0),),
        success=1000,
        inference_count=2000,
        execution_count=500,
        pending=0,
        in_flight=0,
        durations={name: Duration(1000, 2_000_000_000) for name in ("request", "queue", "compute_infer")},
        latency=((1000.0, 900), (8000.0, 100)),
        batches=((1, 200), (4, 300)),
    )
    return replace(row, **changes)


class FakeSource:
    """Answers from its ``models``. ``error`` is what every call fails with while it is set; ``gate`` holds calls up."""

    address = "http://127.0.0.1:8002"

    def __init__(self) -> None:
        self.models = {row.name: row for row in (model("simple"), model("digits", backend="onnxruntime", instances=()))}
        self.server = Server(id="triton", version="0.1.0", name="default", pid=1, started_at=START - 60, now=START)
        self.server = replace(self.server, ready=True, control_mode="explicit", http="127.0.0.1:8000")
        self.host: Host | None = Host(0.25, 2, 0.5, 8 << 30, 2 << 30)
        self.error: ClientError | None = None
        self.refused: dict[str, ClientError] = {}
        self.gate = threading.Event()
        self.gate.set()
        self.calls: list[tuple[str, ...]] = []
        self.log_records: list[LogRecord] = []

    def interrupt(self) -> None:
        """Let everything go that is held up."""
        self.gate.set()

    def _called(self, *words: str) -> None:
        self.calls.append(words)
        assert self.gate.wait(30)
        if self.error is not None:
            raise self.error
        if words in self.refused_calls():
            raise self.refused[words[1]]

    def refused_calls(self) -> set[tuple[str, ...]]:
        """Changes that fail, by the name of their model."""
        return {(verb, name) for verb in ("load", "unload") for name in self.refused}

    def overview(self) -> Overview:
        self._called("overview")
        self.server = replace(self.server, now=self.server.now + 1)
        reason = "no NVIDIA driver on this machine"
        return Overview(self.server, tuple(self.models.values()), self.host, (), reason, {}, len(self.log_records))

    def log(self, *, after: int | None = None, limit: int = 200, level: str = "", model: str = "") -> LogPage:
        self._called("log")
        records = [one for one in self.log_records if (after is None or one.seq > after) and model in ("", one.model)]
        return LogPage(len(self.log_records), 0, tuple(records[-limit:]))

    def metadata(self, name: str, version: str = "") -> dict[str, Any]:
        self._called("metadata", name)
        tensor = {"datatype": "INT32", "shape": [-1, 16]}
        inputs = [{"name": "INPUT0", **tensor}, {"name": "INPUT1", **tensor}]
        outputs = [{"name": "OUTPUT0", **tensor}, {"name": "OUTPUT1", **tensor}]
        return {"name": name, "versions": ["1"], "platform": "python", "inputs": inputs, "outputs": outputs}

    def config(self, name: str, version: str = "") -> dict[str, Any]:
        self._called("config", name)
        return {"name": name, "backend": "python", "max_batch_size": 8, "dynamic_batching": {}}

    def load(self, name: str) -> None:
        self._called("load", name)
        self.models[name] = replace(self.models[name], version="1", state="READY", reason="")

    def unload(self, name: str) -> None:
        self._called("unload", name)
        self.models[name] = replace(self.models[name], state="UNAVAILABLE", reason="unloaded", instances=())

    def infer(self, name: str, version: str, values: Mapping[str, Any]) -> Any:
        raise ClientError(f"'{name}' cannot be called", "this server is made up", kind=Kind.REFUSED)


@pytest.fixture
def source() -> FakeSource:
    """A made-up server with two models, `simple` and `digits`."""
    return FakeSource()


@pytest.fixture
def make_model() -> Callable[..., ModelSnapshot]:
    """Makes the row of a model: ``make_model(name, field=value, …)``."""
    return model


@pytest.fixture
def make_app(source: FakeSource) -> Callable[..., DashboardApp]:
    """Makes a dashboard of the made-up server (or ``source=…``), which asks only when it is told to or starts."""

    def make(**options: Any) -> DashboardApp:
        return DashboardApp(options.pop("source", source), interval_s=options.pop("interval_s", 3600.0), **options)

    return make


async def _until(pilot: Pilot[Any], true: Callable[[], object], what: str) -> None:
    for _ in range(2000):
        if true():
            # What else the same message has changed is drawn too.
            await pilot.pause()
            return
        await pilot.pause(0.005)
    pytest.fail(f"this did not come true: {what}")


@pytest.fixture
def until() -> Callable[..., Any]:
    """``await until(pilot, condition, words)``: wait for something that comes with a message."""
    return _until


def _screen_text(app: DashboardApp) -> str:
    """What the terminal shows, line by line."""
    width, height = app.size
    lines = app.screen._compositor.render_strips()
    return "\n".join("".join(segment.text for segment in line)[:width] for line in lines[:height])


@pytest.fixture
def screen_text() -> Callable[[DashboardApp], str]:
    """The text of the screen in front, as a terminal shows it."""
    return _screen_text


@pytest.fixture
def opened(make_app: Callable[..., DashboardApp]) -> Callable[..., Any]:
    """Runs a dashboard until its first picture is drawn: ``async with opened(size, **options) as (app, pilot)``."""

    @contextlib.asynccontextmanager
    async def opened(
        size: tuple[int, int] = (80, 24), **options: Any
    ) -> AsyncIterator[tuple[DashboardApp, Pilot[Any]]]:
        app = make_app(**options)
        async with app.run_test(size=size, notifications=True) as pilot:
            await _until(pilot, lambda: app.history.latest and app.screen.query_one(ModelTable).titled, "a picture")
            await pilot.pause()
            yield app, pilot

    return opened
