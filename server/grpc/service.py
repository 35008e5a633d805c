"""The gRPC door as a whole: its port, its methods, its life."""

from __future__ import annotations

import asyncio
import functools
import os
from typing import TYPE_CHECKING, Any

from google.protobuf.message import DecodeError

from ...backends.api.errors import InferError, Unavailable, Unsupported
from . import codec, reflection
from .errors import abort
from .inference import Inference
from .messages import SERVICE, message
from .options import compression, limits, tls_context
from .requests import RequestReader
from .servicer import ANSWERED, NOT_OFFERED, Servicer
from .stream import InferStream
from .transport.methods import direct, streaming, unary
from .transport.server import GrpcServer

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ..engine import Engine
    from .options import GrpcSettings
    from .transport.call import Call
    from .transport.methods import Context, Method


class GrpcService:
    """Serves the engine over gRPC. All methods belong to the serving loop, ``address`` to any thread."""

    def __init__(self, engine: Engine, settings: GrpcSettings) -> None:
        self._engine = engine
        self._settings = settings
        self._streams: set[InferStream] = set()
        self._server: GrpcServer | None = None
        self._address: tuple[str, int] | None = None

    @property
    def address(self) -> tuple[str, int]:
        """Host and port that are listened on. Raises RuntimeError before :meth:`start`."""
        if self._address is None:
            msg = "the gRPC service has not been started"
            raise RuntimeError(msg)
        return self._address

    @property
    def stream_count(self) -> int:
        """Calls of ModelStreamInfer under way."""
        return len(self._streams)

    async def start(self) -> None:
        """Bind and serve.

        Raises Unavailable, naming the address, where it cannot be had, and InvalidArgument for TLS files that cannot
        be used.
        """
        settings = self._settings
        host = settings.host.removeprefix("ipv6:").strip("[]")
        context = tls_context(settings.tls) if settings.tls is not None else None
        loop = asyncio.get_running_loop()
        server = GrpcServer(self._methods(loop), limits(settings), loop)
        try:
            _, port = await server.start(host, settings.port, reuse_port=settings.reuse_port, tls=context)
        except OSError as exc:
            msg = (
                f"cannot listen on {settings.host}:{settings.port} for gRPC: {_reason(exc)}; "
                "stop what uses it, or choose another with --grpc-port"
            )
            raise Unavailable(msg) from exc
        self._server = server
        self._address = (host, port)

    def _methods(self, loop: asyncio.AbstractEventLoop) -> dict[str, Method]:
        """One method a path; messages come and go as bytes."""
        reader = RequestReader(self._engine)
        inference = Inference(self._engine, reader)

        async def stream(context: Context) -> None:
            served = InferStream(self._engine, reader, context, loop)
            self._streams.add(served)
            try:
                await served.run()
            except InferError as error:
                raise abort(error) from error
            finally:
                self._streams.discard(served)

        methods = {
            _path(SERVICE, "ModelInfer"): self._compressed(direct(inference.answer)),
            _path(SERVICE, "ModelStreamInfer"): self._compressed(streaming(stream)),
            _path(reflection.HEALTH, "Check"): unary(self._check_health),
        }
        servicer = Servicer(self._engine)
        for name in ANSWERED:
            methods[_path(SERVICE, name)] = unary(answering(servicer, name))
        for name, instead in NOT_OFFERED.items():
            methods[_path(SERVICE, name)] = unary(not_offered(name, instead))
        for service in reflection.REFLECTION:
            methods[_path(service, "ServerReflectionInfo")] = streaming(reflection.serve)
        return methods

    def _compressed(self, method: Method) -> Method:
        """The method, its replies compressed where that is asked for and the client can read them."""
        chosen = compression(self._settings)
        if chosen is None:
            return method

        def open_call(call: Call) -> None:
            if chosen.encoding in call.head.accepted:
                call.compress(chosen)
            method(call)

        return open_call

    async def _check_health(self, _request: bytes | bytearray) -> bytes:
        """``grpc.health.v1``: the whole server's state, whatever service is asked for."""
        return reflection.SERVING if self._engine.ready else reflection.NOT_SERVING

    async def stop_accepting(self) -> None:
        """Take no new calls and connections; calls under way go on."""
        if self._server is not None:
            self._server.stop_accepting()

    async def stop(self) -> None:
        """Stop; answers that are still due get a moment to be written, then calls are cut."""
        server, self._server = self._server, None
        if server is None:
            return
        for stream in tuple(self._streams):
            stream.close()
        await server.stop(self._settings.stop_grace_s)


def answering(servicer: Servicer, name: str) -> Callable[[bytes | bytearray], Awaitable[bytes]]:
    """What answers the calls that the servicer has a method for."""
    request_class, answer = message(f"{name}Request"), getattr(servicer, name)

    @translated
    async def call(data: bytes | bytearray) -> bytes:
        try:
            request: Any = request_class.FromString(bytes(data))
        except DecodeError as exc:
            raise codec.unreadable() from exc
        return (await answer(request)).SerializeToString()

    return call


def not_offered(name: str, instead: str) -> Callable[[bytes | bytearray], Awaitable[bytes]]:
    """What answers the calls that this server knows of and does not serve."""

    @translated
    async def call(_data: bytes | bytearray) -> bytes:
        msg = f"{name} is not supported by this server yet; {instead}"
        raise Unsupported(msg)

    return call


def translated(
    answer: Callable[[bytes | bytearray], Awaitable[bytes]],
) -> Callable[[bytes | bytearray], Awaitable[bytes]]:
    """The same, a failure of ours turned into a status."""

    @functools.wraps(answer)
    async def call(data: bytes | bytearray) -> bytes:
        try:
            return await answer(data)
        except InferError as error:
            raise abort(error) from error

    return call


def _path(service: str, method: str) -> str:
    return f"/{service}/{method}"


def _reason(exc: OSError) -> str:
    """What the system says; the loop puts the address before it, which the sentence names already."""
    return os.strerror(exc.errno) if exc.errno and exc.errno > 0 else str(exc.strerror or exc)
