"""A guard keeps what goes wrong within its call."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from infer.server.grpc.transport.guard import Guard
from infer.server.grpc.transport.status import Abort, StatusCode


@pytest.fixture
def call() -> Any:
    """A call that notes how it ended."""
    ended: list[Any] = []
    return SimpleNamespace(ended=ended, abort=lambda *end: ended.append(end), fail=lambda *fault: ended.append(fault))


def test_what_goes_well_is_left_alone(call: Any) -> None:
    with Guard(call):
        pass
    assert call.ended == []


def test_a_status_ends_the_call_so(call: Any) -> None:
    with Guard(call):
        raise Abort(StatusCode.NOT_FOUND, "gone")
    assert call.ended == [(StatusCode.NOT_FOUND, "gone")]


def test_a_fault_fails_the_call(call: Any) -> None:
    fault = ZeroDivisionError("ours")
    with Guard(call):
        raise fault
    assert call.ended == [(fault, "failed")]


@pytest.mark.parametrize("passing", [asyncio.CancelledError, KeyboardInterrupt])
def test_what_is_no_fault_passes(call: Any, passing: type[BaseException]) -> None:
    with pytest.raises(passing), Guard(call):
        raise passing
    assert call.ended == []
