"""However a handler ends, its call ends in a status, and a client that is gone is a cancel."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
import pytest
from grpc import aio

from infer.backends.api.errors import NotFound
from infer.server.grpc.context import guarded


class Aborted(aio.AbortError):
    """What ends a call that a handler aborted."""


class FakeContext:
    """Notes with which status a call was ended."""

    def __init__(self) -> None:
        self.ended: tuple[grpc.StatusCode, str] | None = None

    async def abort(self, code: grpc.StatusCode, details: str = "") -> None:
        self.ended = (code, details)
        raise Aborted


async def ended_by(error: BaseException) -> tuple[FakeContext, type[BaseException]]:
    async def handler(_request: bytes, _context: Any) -> bytes:
        raise error

    context = FakeContext()
    with pytest.raises(BaseException) as caught:  # noqa: PT011  the kind of it is what is tested
        await guarded("M", handler)(b"", context)  # type: ignore[arg-type]
    return context, caught.type


async def test_an_answer_passes() -> None:
    async def handler(request: bytes, _context: Any) -> bytes:
        return request + b"!"

    assert await guarded("M", handler)(b"x", FakeContext()) == b"x!"  # type: ignore[arg-type]


async def test_a_failure_is_a_status() -> None:
    context, kind = await ended_by(NotFound("no"))
    assert context.ended == (grpc.StatusCode.NOT_FOUND, "no")
    assert kind is Aborted


async def test_a_fault_is_internal_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    context, _ = await ended_by(ZeroDivisionError("a fault"))
    assert context.ended == (grpc.StatusCode.INTERNAL, "internal server error; the server's log has the details")
    assert "M failed" in caplog.text


@pytest.mark.parametrize(
    "error", [aio.UsageError("over"), aio.InternalError("over"), asyncio.CancelledError()], ids=repr
)
async def test_a_call_that_is_over_is_a_cancel_whatever_its_shape(error: BaseException) -> None:
    context, kind = await ended_by(error)
    assert context.ended is None
    assert kind is asyncio.CancelledError


async def test_an_abort_passes() -> None:
    context, kind = await ended_by(Aborted())
    assert context.ended is None
    assert kind is Aborted
