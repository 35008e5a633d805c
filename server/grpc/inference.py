"""``ModelInfer``: one request, one response. The hot path: bytes in, bytes out, and nothing awaited."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from ...backends.api.errors import InferError
from .errors import abort
from .expansion import expanded, is_heavy
from .reply import UNARY
from .transport.guard import Guard
from .transport.methods import start_task

if TYPE_CHECKING:
    from ...backends.api.response import InferenceResponse
    from ..engine import Engine
    from .codec import Decoded
    from .requests import RequestReader
    from .transport.call import Call


class Inference:
    """Answers the calls of ModelInfer."""

    def __init__(self, engine: Engine, reader: RequestReader) -> None:
        self._engine = engine
        self._reader = reader

    def answer(self, call: Call, data: bytes | bytearray) -> None:
        """Hand the request in; its response ends the call, and the end of the call cancels it."""
        if is_heavy(data):
            start_task(call, functools.partial(self._answer_heavy, call, data))
        else:
            self._answer(call, data)

    async def _answer_heavy(self, call: Call, data: bytes | bytearray) -> None:
        self._answer(call, await expanded(data, call.connection.loop))

    def _answer(self, call: Call, data: bytes | bytearray) -> None:
        engine = self._engine
        try:
            decoded = self._reader.read(data)
        except InferError as error:
            engine.refuse(error)
            _fail(call, error)
            return

        def on_response(response: InferenceResponse) -> None:
            try:
                if response.final and not call.over:
                    _reply(call, decoded, response)
            finally:
                response.release()

        try:
            ticket = engine.infer(decoded.request, on_response, decoded.facts.model)
        except InferError as error:
            _fail(call, error)
            return
        if not call.over:
            call.on_cancel = ticket.cancel


def _reply(call: Call, decoded: Decoded, response: InferenceResponse) -> None:
    if response.error is not None:
        _fail(call, response.error)
        return
    writer = decoded.facts.writer
    # A fault of ours must not reach the scheduler that delivers the response.
    with Guard(call):
        try:
            call.reply(writer.write(response, decoded.request.request_id, decoded.classes, UNARY, decoded.replies))
        except InferError as error:
            _fail(call, error)


def _fail(call: Call, error: InferError) -> None:
    end = abort(error)
    call.end(end.status, end.details)
