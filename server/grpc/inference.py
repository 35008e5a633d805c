"""``ModelInfer``: one request, one response. The hot path: bytes in, bytes out."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ...backends.api.errors import InferError
from .reply import UNARY

if TYPE_CHECKING:
    from ...backends.api.response import InferenceResponse
    from ..engine import Engine
    from .context import Context
    from .requests import RequestReader


class Inference:
    """The handler of ModelInfer."""

    def __init__(self, engine: Engine, reader: RequestReader, loop: asyncio.AbstractEventLoop) -> None:
        self._engine = engine
        self._reader = reader
        self._loop = loop

    async def infer(self, data: bytes, _context: Context) -> bytes:
        """Answer one request. Raises InferError."""
        engine = self._engine
        try:
            decoded = self._reader.read(data)
        except InferError as error:
            engine.refuse(error)
            raise
        answer: asyncio.Future[InferenceResponse] = self._loop.create_future()

        def on_response(response: InferenceResponse) -> None:
            if not response.final or answer.done():
                response.release()
            else:
                answer.set_result(response)

        facts = decoded.facts
        ticket = engine.infer(decoded.request, on_response, facts.model)
        try:
            response = await answer
        except asyncio.CancelledError:
            ticket.cancel()
            if answer.done() and not answer.cancelled():
                answer.result().release()
            raise
        try:
            if response.error is not None:
                raise response.error
            return facts.writer.write(response, decoded.request.request_id, decoded.classes, UNARY, decoded.replies)
        finally:
            response.release()
