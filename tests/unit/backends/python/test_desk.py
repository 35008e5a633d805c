"""Questions of a worker at the server's desk: every one is answered, and what is held goes with the worker."""

from __future__ import annotations

import asyncio
import base64
import json
import struct
from typing import Any

import pytest

from infer.backends.api.backend import BackendContext
from infer.backends.api.errors import NotFound
from infer.backends.python.desk import Desk
from infer.backends.python.worker import frames
from infer.backends.python.worker.frames import Frame, FrameError, Kind
from infer.server.observe.custom_metrics import CustomMetricRegistry


class FakeControl:
    def __init__(self) -> None:
        self.asked: list[tuple[Any, ...]] = []
        self.stuck = asyncio.Event()

    async def load(self, name: str, config: str | None, files: Any, *, within: str = "") -> None:
        self.asked.append(("load", name, config, files, within))
        if name == "nobody":
            msg = "nobody is not found"
            raise NotFound(msg)
        if name == "stuck":
            await self.stuck.wait()
        if name == "broken":
            raise ZeroDivisionError

    async def unload(self, name: str, *, dependents: bool = False, within: str = "") -> None:
        self.asked.append(("unload", name, dependents, within))

    async def is_ready(self, name: str, version: str = "") -> bool:
        return (name, version) == ("m", "1")


class Rig:
    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.control = FakeControl()
        self.registry = CustomMetricRegistry()
        self.initializing = True
        self.answers: asyncio.Queue[tuple[int, Any]] = asyncio.Queue()
        context = BackendContext(loop, None, None, control=self.control, metrics=self.registry)  # pyright: ignore[reportArgumentType]
        self.desk = Desk(context, "asker", lambda: self.initializing)

    def send(self, frame: bytes) -> None:
        """What the worker's channel gets."""
        kind, _, _, _, number = frames.HEADER.unpack_from(frame)
        assert kind == Kind.ANSWER
        self.answers.put_nowait((number, json.loads(frame[frames.HEADER.size :])))

    async def ask(self, number: int, **question: Any) -> Any:
        self.question(number, **question)
        answered, answer = await asyncio.wait_for(self.answers.get(), 5)
        assert answered == number
        return answer

    def question(self, number: int, **question: Any) -> None:
        payload = bytearray(json.dumps(question).encode())
        self.desk.answer(Frame(Kind.QUERY, 0, number, payload, []), self)  # pyright: ignore[reportArgumentType]

    def count(self, number: int, operation: int, payload: bytes = b"") -> None:
        self.desk.count(Frame(Kind.METRIC, operation, number, bytearray(payload), []), self)  # pyright: ignore[reportArgumentType]

    def shown(self) -> str:
        return "".join(metric.rendered for metric in self.registry.collect())  # pyright: ignore[reportAttributeAccessIssue]


async def test_changes_of_models_are_handed_on_with_the_load_that_waits_for_them() -> None:
    rig = Rig()
    files = {"1/model.py": base64.b64encode(b"text").decode()}
    assert await rig.ask(1, ask="load", name="m", config="", files={}) == {"ok": None}
    rig.initializing = False
    assert await rig.ask(2, ask="load", name="m", config="{}", files=files) == {"ok": None}
    assert await rig.ask(3, ask="unload", name="m", dependents=True) == {"ok": None}
    assert await rig.ask(4, ask="ready", name="m", version="1") == {"ok": True}
    assert rig.control.asked == [
        ("load", "m", None, {}, "asker"),
        ("load", "m", "{}", {"1/model.py": b"text"}, ""),
        ("unload", "m", True, ""),
    ]


async def test_a_refusal_comes_back_as_its_sentence_and_code() -> None:
    rig = Rig()
    answer = await rig.ask(1, ask="load", name="nobody", config="", files={})
    assert answer == {"error": "nobody is not found", "code": 2}


async def test_a_change_that_is_ended_or_breaks_is_answered_all_the_same(caplog: pytest.LogCaptureFixture) -> None:
    rig = Rig()
    rig.question(1, ask="load", name="stuck", config="", files={})
    await asyncio.sleep(0)
    (task,) = rig.desk._tasks
    task.cancel()
    assert await rig.answers.get() == (1, {"error": "Server exiting", "code": 4})
    await asyncio.gather(task, return_exceptions=True)
    rig.question(2, ask="load", name="broken", config="", files={})
    (broken,) = rig.desk._tasks - {task}  # when a task that is done leaves them differs from Python to Python
    with pytest.raises(ZeroDivisionError):
        await broken
    assert (await rig.answers.get())[1]["error"] == "the server did not come to an end with it"


async def test_metrics_are_counted_by_handle_and_go_with_the_worker() -> None:
    rig = Rig()
    family = (await rig.ask(1, ask="family", name="n", description="", kind="GAUGE"))["ok"]
    metric = (await rig.ask(2, ask="metric", family=family, labels={}, buckets=None))["ok"]
    rig.count(metric, frames.METRIC_ADD, struct.pack("<d", 3))
    rig.count(metric, frames.METRIC_SET, struct.pack("<d", 2.5))
    assert await rig.ask(3, ask="value", metric=metric) == {"ok": 2.5}
    rig.count(99, frames.METRIC_ADD, struct.pack("<d", 3))
    rig.count(99, frames.METRIC_CLOSE)
    assert rig.shown() == "n 2.5\n"
    rig.desk.close()
    assert rig.shown() == ""
    answer = await rig.ask(4, ask="value", metric=metric)
    assert "has been deleted" in answer["error"]
    assert "has been deleted" in (await rig.ask(5, ask="metric", family=family, labels={}, buckets=None))["error"]


async def test_a_change_that_a_metric_does_not_take_is_told_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    rig = Rig()
    family = (await rig.ask(1, ask="family", name="n", description="", kind="COUNTER"))["ok"]
    metric = (await rig.ask(2, ask="metric", family=family, labels={}, buckets=None))["ok"]
    rig.count(metric, frames.METRIC_ADD, struct.pack("<d", -3))
    assert "a metric of model 'asker' is not counted: counter 'n' only grows" in caplog.text


async def test_frames_that_make_no_sense_break_the_channel() -> None:
    rig = Rig()
    family = (await rig.ask(1, ask="family", name="n", description="", kind="COUNTER"))["ok"]
    metric = (await rig.ask(2, ask="metric", family=family, labels={}, buckets=None))["ok"]
    with pytest.raises(FrameError, match="changed by nothing that is known"):
        rig.count(metric, 77, struct.pack("<d", 1))
    with pytest.raises(FrameError, match="changed by nothing that is known"):
        rig.count(metric, frames.METRIC_ADD, b"1")
    with pytest.raises(FrameError, match="question of unknown kind 'colour'"):
        rig.question(3, ask="colour")
    with pytest.raises(KeyError):
        rig.question(4, ask="load")
