"""Models that load models: only in explicit mode, and never in a circle of loads that wait for each other."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from infer.backends.api.control import NoModelControl
from infer.backends.api.errors import InvalidArgument, NotFound, Unavailable, Unsupported
from infer.server.lifecycle.model_control import EngineControl
from infer.server.lifecycle.overrides import LoadOverrides


class FakeEngine:
    """Loads a model when it is told to go on."""

    def __init__(self, control_mode: str = "explicit") -> None:
        self.control_mode = control_mode
        self.asked: list[tuple[Any, ...]] = []
        self.go = asyncio.Event()
        self.ready = True

    async def load(self, name: str, overrides: LoadOverrides | None = None) -> None:
        self.asked.append(("load", name, overrides))
        await self.go.wait()

    async def unload(self, name: str, *, wait: bool = True, unload_dependents: bool = False) -> None:
        self.asked.append(("unload", name, wait, unload_dependents))
        await self.go.wait()

    def find(self, name: str, version: int | None = None) -> Any:
        self.asked.append(("find", name, version))
        if name == "nobody":
            msg = "Request for unknown model: 'nobody' is not found"
            raise NotFound(msg)
        return self

    async def probe_ready(self) -> bool:
        return self.ready


async def test_a_load_and_an_unload_reach_the_engine_as_they_were_asked_for() -> None:
    engine = FakeEngine()
    engine.go.set()
    control = EngineControl(engine)
    await control.load("a", '{"backend": "x"}', {"1/model.py": b"text"})
    await control.load("a", None, {})
    await control.unload("a", dependents=True)
    assert engine.asked == [
        ("load", "a", LoadOverrides('{"backend": "x"}', {"1/model.py": b"text"})),
        ("load", "a", LoadOverrides()),
        ("unload", "a", False, True),
    ]


@pytest.mark.parametrize("mode", ["none", "poll"])
async def test_another_mode_than_explicit_takes_neither_and_says_whether_a_model_is_ready(mode: str) -> None:
    control = EngineControl(FakeEngine(mode))
    for change in (control.load("a", None, {}), control.unload("a")):
        with pytest.raises(Unavailable, match="explicit model load / unload is not allowed"):
            await change
    assert await control.is_ready("a")


async def test_readiness_asks_for_the_version_that_was_named() -> None:
    engine = FakeEngine()
    control = EngineControl(engine)
    assert await control.is_ready("a", "2")
    assert await control.is_ready("a", "")
    assert engine.asked == [("find", "a", 2), ("find", "a", None)]
    engine.ready = False
    assert not await control.is_ready("a")
    with pytest.raises(NotFound, match="Request for unknown model: 'nobody'"):
        await control.is_ready("nobody")


@pytest.mark.parametrize("version", ["x", "-1", "1.0", " 1", "²", "\u0661"])
async def test_a_version_that_is_no_number_is_refused(version: str) -> None:
    with pytest.raises(InvalidArgument, match=r"is no number; give one such as '1'"):
        await EngineControl(FakeEngine()).is_ready("a", version)


async def test_a_model_that_would_wait_for_its_own_load_is_refused_with_the_way_it_would_take() -> None:
    engine = FakeEngine()
    control = EngineControl(engine)
    with pytest.raises(
        InvalidArgument, match="'a' is being loaded, and this would wait for that load to end: 'a' → 'a"
    ):
        await control.load("a", None, {}, within="a")
    with pytest.raises(InvalidArgument, match="would wait"):
        await control.unload("a", within="a")
    first = asyncio.ensure_future(control.load("b", None, {}, within="a"))
    second = asyncio.ensure_future(control.unload("c", within="b"))
    await asyncio.sleep(0)
    with pytest.raises(InvalidArgument, match="'c' → 'a' → 'b' → 'c'"):
        await control.load("a", None, {}, within="c")
    engine.go.set()
    await asyncio.gather(first, second)
    await control.load("a", None, {}, within="c")


async def test_what_waits_for_no_load_and_two_who_wait_for_the_same_are_let_through() -> None:
    engine = FakeEngine()
    control = EngineControl(engine)
    loads = [
        asyncio.ensure_future(each)
        for each in (
            control.load("b", None, {}, within="a"),
            control.load("b", None, {}, within="c"),
            control.load("a", None, {}),
            control.load("b", None, {}, within="a"),
        )
    ]
    await asyncio.sleep(0)
    engine.go.set()
    await asyncio.gather(*loads)
    await control.load("a", None, {}, within="b")


async def test_a_load_that_was_given_up_is_not_waited_for_any_more() -> None:
    engine = FakeEngine()
    control = EngineControl(engine)
    load = asyncio.ensure_future(control.load("b", None, {}, within="a"))
    await asyncio.sleep(0)
    load.cancel()
    await asyncio.gather(load, return_exceptions=True)
    engine.go.set()
    await control.load("a", None, {}, within="b")


async def test_without_a_server_nothing_can_be_reached() -> None:
    control = NoModelControl()
    for change in (control.load("a", None, {}), control.unload("a"), control.is_ready("a")):
        with pytest.raises(Unsupported, match="'a' cannot be reached"):
            await change
