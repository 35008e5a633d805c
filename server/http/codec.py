"""The door's side of the codec process: started when first needed, started again after it has died.

``json.loads`` of a few megabytes holds the GIL for a tenth of a second, in whichever thread it runs; so large JSON is
handed to a process of its own over a socket pair, and the loop only moves bytes.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import socket
import subprocess
from typing import TYPE_CHECKING, Any, cast

import orjson

from ...backends.api.errors import Code, InferError, Internal, Unavailable
from .codec_frames import HEADER, Kind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...backends.api.tensor import Tensor
    from ..lifecycle.signature import ModelSignature

log = logging.getLogger("infer.http")

Answer = tuple[dict[str, Any], memoryview]


class Codec:
    """Decodes and encodes large JSON. All methods belong to the serving loop.

    :param command: what becomes the codec process, a descriptor number appended; empty to have none.
    :param threshold: bytes of JSON from which on it is used.
    """

    def __init__(self, command: Sequence[str], threshold: int) -> None:
        self._command = tuple(command)
        self._threshold = threshold
        self._channel: _Channel | None = None
        self._starting: asyncio.Task[_Channel] | None = None
        self._stopped = False

    def wants(self, size: int) -> bool:
        """Whether so many bytes of JSON are for the codec process."""
        return size > self._threshold and bool(self._command)

    @property
    def pid(self) -> int | None:
        """The process's id, or None while there is none."""
        return self._channel.process.pid if self._channel is not None and not self._channel.lost else None

    async def decode(
        self, text: memoryview, signature: ModelSignature, tail_size: int, limit: int
    ) -> tuple[memoryview, dict[int, memoryview]]:
        """The JSON of the equivalent binary request, and by position the bytes of the inputs that were JSON.

        Raises InferError: what is wrong with the request, or Internal where the process died over it.
        """
        inputs = {spec.name: spec.datatype.value for spec in signature.inputs.values()}
        meta = {"model": signature.name, "inputs": inputs, "tail": tail_size, "limit": limit}
        result, payload = await self._call(Kind.DECODE, meta, [text])
        start: int = result["text"]
        decoded: dict[int, memoryview] = {}
        for position, size in zip(result["positions"], result["sizes"], strict=True):
            decoded[position] = payload[start : start + size]
            start += size
        return payload[: result["text"]], decoded

    async def encode(self, outputs: Sequence[tuple[str, Tensor]]) -> list[memoryview]:
        """The JSON array of each tensor's elements. Raises InferError as :meth:`decode` does."""
        views = [tensor.view for _, tensor in outputs]
        described = [
            (name, tensor.datatype.value, view.nbytes) for (name, tensor), view in zip(outputs, views, strict=True)
        ]
        result, payload = await self._call(Kind.ENCODE, {"outputs": described}, views)
        texts: list[memoryview] = []
        start = 0
        for size in result["sizes"]:
            texts.append(payload[start : start + size])
            start += size
        return texts

    async def stop(self) -> None:
        """End the process; what it still holds fails."""
        self._stopped = True
        if self._starting is not None:
            await asyncio.wait([self._starting])
        if self._channel is not None:
            await self._channel.stop()

    async def _call(self, kind: Kind, meta: dict[str, Any], parts: Sequence[memoryview]) -> Answer:
        channel = self._channel
        if channel is None or channel.lost:
            channel = await self._start()
        return await channel.call(kind, meta, parts)

    async def _start(self) -> _Channel:
        """The one start that all who wait for it share."""
        if self._stopped:
            msg = "Server exiting"
            raise Unavailable(msg)
        if self._starting is None:
            self._starting = asyncio.get_running_loop().create_task(self._spawn())
        starting = self._starting
        try:
            return await asyncio.shield(starting)
        finally:
            if starting.done() and self._starting is starting:
                self._starting = None

    async def _spawn(self) -> _Channel:
        ours, theirs = socket.socketpair()
        ours.settimeout(0)
        with theirs:
            try:
                process = subprocess.Popen(  # noqa: ASYNC220, S603  a vfork and an exec; the command is our own
                    [*self._command, str(theirs.fileno())],
                    pass_fds=(theirs.fileno(),),
                    stdin=subprocess.DEVNULL,
                    start_new_session=True,
                )
            except OSError as exc:
                ours.close()
                msg = f"the JSON codec process could not be started: {exc}; send tensors in binary until it can"
                raise Internal(msg) from exc
        loop = asyncio.get_running_loop()
        _, channel = await loop.create_unix_connection(lambda: _Channel(process, loop), sock=ours)
        self._channel = channel
        log.debug("started the JSON codec process %d", process.pid)
        return channel


class _Channel(asyncio.Protocol):
    """The socket to one codec process, and the requests that it holds."""

    def __init__(self, process: subprocess.Popen[bytes], loop: asyncio.AbstractEventLoop) -> None:
        self.process = process
        self.lost = False
        self._loop = loop
        self._ended: asyncio.Future[None] = loop.create_future()
        self._transport: asyncio.Transport | None = None
        self._ids = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Answer]] = {}
        self._buffer = bytearray()
        self._needed = HEADER.size

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The socket is ready."""
        # uvloop's transports do not derive from asyncio's.
        self._transport = cast("asyncio.Transport", transport)

    async def call(self, kind: Kind, meta: dict[str, Any], parts: Sequence[memoryview]) -> Answer:
        """Send one frame and wait for its answer. Raises InferError."""
        if self._transport is None or self.lost:
            raise self._death()
        text = orjson.dumps(meta)
        request = next(self._ids) & 0xFFFFFFFF
        answer: asyncio.Future[Answer] = self._loop.create_future()
        self._waiting[request] = answer
        size = sum(part.nbytes for part in parts)
        self._transport.writelines([HEADER.pack(request, kind, len(text), size) + text, *parts])
        try:
            return await answer
        finally:
            self._waiting.pop(request, None)

    def data_received(self, data: bytes) -> None:
        """Gather frames; one is looked at when it is whole."""
        self._buffer += data
        while len(self._buffer) >= self._needed:
            request, kind, meta_size, size = HEADER.unpack_from(self._buffer)
            end = HEADER.size + meta_size + size
            if len(self._buffer) < end:
                self._needed = end
                return
            if len(self._buffer) == end:
                frame, self._buffer = self._buffer, bytearray()
            else:
                frame = self._buffer[:end]
                self._buffer = self._buffer[end:]
            self._needed = HEADER.size
            self._settle(request, kind, memoryview(frame)[HEADER.size :], meta_size)

    def _settle(self, request: int, kind: int, frame: memoryview, meta_size: int) -> None:
        answer = self._waiting.get(request)
        if answer is None or answer.done():
            return
        meta: dict[str, Any] = orjson.loads(frame[:meta_size])
        if kind == Kind.FAILURE:
            answer.set_exception(InferError(meta["message"], code=Code(meta["code"])))
        else:
            answer.set_result((meta, frame[meta_size:]))

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  asyncio's signature
        """The process is gone: reap it, and fail what it held."""
        self.lost = True
        # It has closed its socket, so it is dead or of no use; a killed process is reaped at once.
        self.process.kill()
        self.process.wait()
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(self._death())
        self._waiting.clear()
        if not self._ended.done():
            self._ended.set_result(None)

    def _death(self) -> Internal:
        return Internal(
            f"the JSON codec process ended (exit code {self.process.returncode}) while it held this request; "
            "it is started again for the next one"
        )

    async def stop(self) -> None:
        """Close the socket, which ends the process."""
        if self._transport is not None and not self.lost:
            self._transport.abort()
            await self._ended
