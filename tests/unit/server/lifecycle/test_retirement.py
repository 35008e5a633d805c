"""What is unloaded takes nothing more, answers what it holds, and is closed."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from infer.backends.api.errors import NotFound
from infer.server.lifecycle.overrides import LoadOverrides

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.server.lifecycle.conftest import Rig

LIMIT_S = 20


async def test_an_unload_that_does_not_wait_returns_before_the_last_answer(rig: Rig) -> None:
    rig.add("m")
    await rig.engine.load("m")
    rig.script.may_answer.clear()
    answers = [rig.send("m") for _ in range(3)]
    await rig.script.until_executing()
    await asyncio.wait_for(rig.engine.unload("m", wait=False), LIMIT_S)
    assert rig.reasons() == {"1": "UNLOADING"}
    with pytest.raises(NotFound, match="Request for unknown model: 'm' has no available versions"):
        rig.send("m")
    again = asyncio.ensure_future(rig.engine.unload("m", wait=False))
    await asyncio.wait_for(again, LIMIT_S)
    rig.script.may_answer.set()
    assert [(await answer).error for answer in answers] == [None, None, None]
    await asyncio.gather(*rig.engine._loader._retirement._retiring)
    assert rig.reasons() == {"1": "UNAVAILABLE unloaded"}
    assert rig.script.events.count("close 1") == 1


async def test_an_unload_of_an_idle_model_has_closed_it_when_it_returns(rig: Rig) -> None:
    rig.add("m")
    await rig.engine.load("m")
    await rig.engine.unload("m", wait=False)
    assert rig.reasons() == {"1": "UNAVAILABLE unloaded"}
    assert rig.script.events[-2:] == ["end m_0", "close 1"]


async def test_an_unload_that_waits_is_over_when_the_last_answer_is_out(rig: Rig) -> None:
    rig.add("m")
    await rig.engine.load("m")
    rig.script.may_answer.clear()
    answer = rig.send("m")
    await rig.script.until_executing()
    unloading = asyncio.ensure_future(rig.engine.unload("m"))
    done, _ = await asyncio.wait([unloading], timeout=0)
    assert not done
    rig.script.may_answer.set()
    await asyncio.wait_for(unloading, LIMIT_S)
    assert answer.done()


async def test_who_gives_up_waiting_for_an_unload_does_not_stop_it(rig: Rig) -> None:
    rig.add("m")
    await rig.engine.load("m")
    rig.script.may_answer.clear()
    answer = rig.send("m")
    await rig.script.until_executing()
    unloading = asyncio.ensure_future(rig.engine.unload("m"))
    await asyncio.sleep(0)
    unloading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await unloading
    rig.script.may_answer.set()
    assert (await answer).error is None
    await asyncio.gather(*rig.engine._loader._retirement._retiring)
    assert rig.reasons() == {"1": "UNAVAILABLE unloaded"}


async def test_statistics_begin_anew_after_unload_and_load(rig: Rig) -> None:
    rig.add("m")
    await rig.engine.load("m")
    assert (await rig.send("m")).error is None
    assert rig.engine.statistics("m")[0].success.count == 1
    await rig.engine.unload("m")
    await rig.engine.load("m")
    assert rig.engine.statistics("m")[0].success.count == 0


async def test_a_model_that_does_not_close_cleanly_is_gone_all_the_same_and_lets_go_of_its_folder(
    rig: Rig, private_folders: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail() -> None:
        raise RuntimeError("it sticks")

    await rig.engine.load("m", LoadOverrides(rig.config_text(), {"1/a": b""}))
    monkeypatch.setattr(rig.engine.find("m").model, "close", fail)
    await rig.engine.unload("m")
    assert "model 'm' version 1 did not close cleanly" in caplog.text
    assert rig.engine.index() == ()
    assert not any(private_folders.iterdir())  # noqa: ASYNC240  a look at a folder
