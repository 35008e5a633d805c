"""A model's own word on whether it is ready: asked of real workers, beside what they execute."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from infer.backends.api.backend import InstanceState

if TYPE_CHECKING:
    from pathlib import Path

Rig = Any

MODEL = """
class TritonPythonModel:
    def initialize(self, args):
        self.told = threading.Event()
        self.asked = 0
    {ready}
    def execute(self, requests):
        value = int(by_name(requests[0], "IN").as_numpy()[0])
        if value == 1:
            self.told.wait()
        return [Response([T("OUT", np.array([self.asked], np.int32))]) for _ in requests]
"""


def ints(*values: int) -> np.ndarray[Any, Any]:
    return np.array(values, dtype=np.int32)


async def load(rig: Rig, ready: str, **more: Any) -> Any:
    return await rig.load("m", MODEL.replace("{ready}", ready), **more)


async def test_a_model_without_is_ready_is_asked_nothing(rig: Rig) -> None:
    instance = await load(rig, "is_ready = None")
    assert not instance.is_probed
    instance._send = None  # whoever sent a probe would fail
    assert await instance.check_ready()


@pytest.mark.parametrize(
    ("ready", "expected", "words"),
    [
        ("def is_ready(self): return True", True, ""),
        ("def is_ready(self): return False", False, ""),
        ("async def is_ready(self): return True", True, ""),
        ("async def is_ready(self): return False", False, ""),
        ("def is_ready(self): return 1", False, "is_ready must return a bool, got int"),
        ("def is_ready(self): return np.bool_(True)", False, "is_ready must return a bool, got bool"),
        ("def is_ready(self): return None", False, "is_ready must return a bool, got NoneType"),
        ("async def is_ready(self): return 'yes'", False, "is_ready must return a bool, got str"),
        ("def is_ready(self): raise ValueError('the cache is cold')", False, "ValueError: the cache is cold"),
        ("async def is_ready(self): raise ValueError('cold')", False, "ValueError: cold"),
        ("def is_ready(self): sys.exit(1)", False, "is_ready ended the thread it was called on"),
        ("def is_ready(self, more): return True", False, "TypeError: "),
    ],
)
async def test_only_a_true_bool_is_a_yes_and_a_mistake_is_told_in_the_log(
    rig: Rig, caplog: pytest.LogCaptureFixture, ready: str, expected: bool, words: str
) -> None:
    instance = await load(rig, ready)
    assert instance.is_probed
    for _ in range(2):
        assert await instance.check_ready() is expected
        assert (await rig.infer(instance, IN=ints(0))).outputs["OUT"].as_numpy() == [0], "it executes all the same"
    complaints = [record.getMessage() for record in caplog.records if "is not ready" in record.getMessage()]
    assert len(complaints) == (2 if words else 0)
    assert all(f"Model 'm' version 1 is not ready: 'm_0_0': {words}" in each for each in complaints)


async def test_a_model_is_asked_while_it_executes(rig: Rig) -> None:
    ready = "def is_ready(self): self.told.set(); return True"
    instance = await load(rig, ready)
    _, done = rig.execute(instance, rig.request(IN=ints(1)))
    assert await instance.check_ready()
    await asyncio.wait_for(done, 20)


async def test_those_who_ask_meanwhile_share_one_answer_and_one_who_waited_enough_is_told_no(
    rig: Rig, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    gate = tmp_path / "open"
    ready = (
        f"def is_ready(self):\n        self.asked += 1\n        while not os.path.exists({str(gate)!r}):"
        "\n            time.sleep(0.001)\n        return True"
    )
    instance = await load(rig, ready)
    instance._probe._budget_s = 0.05
    assert await asyncio.gather(*(instance.check_ready() for _ in range(3))) == [False] * 3
    assert "is_ready did not return within 0.05 s" in caplog.text
    instance._probe._budget_s = 20
    later = [asyncio.ensure_future(instance.check_ready()) for _ in range(3)]
    await asyncio.sleep(0)
    gate.touch()
    assert await asyncio.gather(*later) == [True] * 3
    assert (await rig.infer(instance, IN=ints(0))).outputs["OUT"].as_numpy() == [1], "it was asked once"


async def test_a_worker_that_dies_while_it_is_asked_is_not_ready_and_then_asked_anew(rig: Rig, tmp_path: Path) -> None:
    flag = tmp_path / "asked"
    ready = (
        f"def is_ready(self):\n        if os.path.exists({str(flag)!r}): return True"
        f"\n        open({str(flag)!r}, 'w').close()\n        os.kill(os.getpid(), 9)"
    )
    instance = await load(rig, ready)
    assert await asyncio.wait_for(instance.check_ready(), 20) is False
    await rig.until_state(InstanceState.READY)
    assert await instance.check_ready()


async def test_an_instance_that_is_closed_is_not_ready(rig: Rig) -> None:
    instance = await load(rig, "def is_ready(self): return True")
    await instance.close()
    assert not await instance.check_ready()
