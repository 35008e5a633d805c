"""Probes of a worker's model: one at a time, shared, with a budget, and answered also by the worker's end."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

import pytest

from infer.backends.python.readiness import ReadinessProbe
from infer.backends.python.worker.frames import Frame, FrameError, Kind

LABELS = {"model": "m", "version": 1, "instance": "m_0_0"}


class Rig:
    def __init__(self, budget_s: float = 20) -> None:
        self.sent: list[bytes] = []
        self.probe = ReadinessProbe(LABELS, budget_s)

    def answer(self, number: int, ready: Any, reason: str = "") -> None:
        payload = bytearray(json.dumps({"ready": ready, "reason": reason}).encode())
        self.probe.answer(Frame(Kind.PROBE, 0, number, payload, []))


async def test_all_who_ask_share_one_question_and_the_next_one_asks_anew() -> None:
    rig = Rig()
    asking = [asyncio.ensure_future(rig.probe.ask(rig.sent.append)) for _ in range(3)]
    await asyncio.sleep(0)
    assert len(rig.sent) == 1
    rig.answer(1, ready=True)
    assert await asyncio.gather(*asking) == [True] * 3
    again = asyncio.ensure_future(rig.probe.ask(rig.sent.append))
    await asyncio.sleep(0)
    assert len(rig.sent) == 2
    rig.answer(2, ready=False)
    assert await again is False


async def test_one_who_waited_long_enough_is_told_no_and_the_late_answer_serves_the_next(
    caplog: pytest.LogCaptureFixture,
) -> None:
    rig = Rig(budget_s=0)
    assert await rig.probe.ask(rig.sent.append) is False
    assert await rig.probe.ask(rig.sent.append) is False
    assert len(rig.sent) == 1
    assert "Model 'm' version 1 is not ready: 'm_0_0': is_ready did not return within 0 s" in caplog.text
    rig.probe._budget_s = 20
    late = asyncio.ensure_future(rig.probe.ask(rig.sent.append))
    await asyncio.sleep(0)
    rig.answer(1, ready=True)
    assert await late is True


async def test_one_who_gives_up_asking_leaves_the_question_to_the_others() -> None:
    rig = Rig()
    impatient, patient = (asyncio.ensure_future(rig.probe.ask(rig.sent.append)) for _ in range(2))
    await asyncio.sleep(0)
    impatient.cancel()
    await asyncio.sleep(0)
    rig.answer(1, ready=True)
    assert await patient is True


async def test_the_end_of_the_worker_is_a_no_and_an_answer_after_it_means_nothing() -> None:
    rig = Rig()
    asking = asyncio.ensure_future(rig.probe.ask(rig.sent.append))
    await asyncio.sleep(0)
    rig.probe.lost()
    rig.probe.lost()
    assert await asking is False
    rig.answer(1, ready=True)
    rig.answer(7, ready=True)


async def test_a_reason_is_an_error_in_the_log_and_a_plain_no_is_none(caplog: pytest.LogCaptureFixture) -> None:
    rig = Rig()
    for number, reason in ((1, ""), (2, "ValueError: cold")):
        asking = asyncio.ensure_future(rig.probe.ask(rig.sent.append))
        await asyncio.sleep(0)
        rig.answer(number, ready=False, reason=reason)
        assert await asking is False
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert record.getMessage() == "Model 'm' version 1 is not ready: 'm_0_0': ValueError: cold"


async def test_an_answer_without_a_word_breaks_the_channel() -> None:
    with pytest.raises(FrameError, match="probe 1 is answered without a word"):
        Rig().answer(1, ready=1)
