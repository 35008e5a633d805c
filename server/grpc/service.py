"""The gRPC door as a whole: its port, its handlers, its life."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING, Any

import grpc
from google.protobuf.message import DecodeError
from grpc import aio
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection

from ...backends.api.errors import InvalidArgument, Unavailable, Unsupported
from . import codec
from .context import guarded
from .inference import Inference
from .messages import SERVICE, message
from .options import channel_options, compression, credentials
from .requests import RequestReader
from .servicer import ANSWERED, NOT_OFFERED, Servicer
from .stream import InferStream

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ..engine import Engine
    from .context import Context
    from .options import GrpcSettings

HEALTH = "grpc.health.v1.Health"
_FOR_EVER_S = 1e6


class GrpcService:
    """Serves the engine over gRPC. All methods belong to the serving loop, ``address`` to any thread."""

    def __init__(self, engine: Engine, settings: GrpcSettings) -> None:
        self._engine = engine
        self._settings = settings
        self._compression = compression(settings)
        self._streams: set[InferStream] = set()
        self._server: Any = None
        self._stopping: asyncio.Task[None] | None = None
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
        server: Any = aio.server(options=channel_options(self._settings))
        server.add_generic_rpc_handlers(self._handlers())
        reflection.enable_server_reflection((SERVICE, HEALTH, reflection.SERVICE_NAME), server)
        host = self._settings.host.removeprefix("ipv6:").strip("[]")
        port = self._bind(server, host)
        await server.start()
        self._server = server
        self._address = (host, port)

    def _bind(self, server: Any, host: str) -> int:  # noqa: ANN401  a grpc.aio.Server
        settings = self._settings
        address = f"[{host}]:{settings.port}" if ":" in host else f"{host}:{settings.port}"
        secret = credentials(settings.tls) if settings.tls is not None else None
        try:
            port = server.add_secure_port(address, secret) if secret else server.add_insecure_port(address)
        except RuntimeError:
            port = 0
        if not port:
            raise self._no_port(host)
        return port

    def _no_port(self, host: str) -> Unavailable | InvalidArgument:
        """Why there is no port: grpc only says that there is none, so it is asked for once more."""
        settings = self._settings
        reason = bind_error(host, settings.port)
        if reason is None and settings.tls is not None:
            return InvalidArgument(
                f"cannot serve gRPC over TLS: {settings.tls.certificate} and {settings.tls.key} are no PEM certificate "
                "and its key; check --grpc-server-cert, --grpc-server-key and --grpc-root-cert"
            )
        return Unavailable(
            f"cannot listen on {settings.host}:{settings.port} for gRPC: {reason or 'Address already in use'}; "
            "stop what uses it, or choose another with --grpc-port"
        )

    def _handlers(self) -> tuple[Any, ...]:
        """One handler a call; messages come and go as bytes."""
        reader = RequestReader(self._engine)
        loop = asyncio.get_running_loop()
        unary, streaming = grpc.unary_unary_rpc_method_handler, grpc.stream_stream_rpc_method_handler
        inference = Inference(self._engine, reader, loop)
        methods: dict[str, Any] = {
            "ModelInfer": unary(guarded("ModelInfer", self._compressed(inference.infer, streamed=False))),
            "ModelStreamInfer": streaming(
                guarded("ModelStreamInfer", self._compressed(self._streamer(reader, loop), streamed=True))
            ),
        }
        servicer = Servicer(self._engine)
        for name in ANSWERED:
            methods[name] = unary(guarded(name, answering(servicer, name)))
        for name, instead in NOT_OFFERED.items():
            methods[name] = unary(guarded(name, not_offered(name, instead)))
        health: dict[str, Any] = {"Check": unary(guarded("Check", self._check_health))}
        return (
            grpc.method_handlers_generic_handler(SERVICE, methods),
            grpc.method_handlers_generic_handler(HEALTH, health),
        )

    def _streamer(
        self, reader: RequestReader, loop: asyncio.AbstractEventLoop
    ) -> Callable[[Any, Context], Awaitable[None]]:
        async def serve(_requests: Any, context: Context) -> None:  # noqa: ANN401  grpc's iterator, not used
            stream = InferStream(self._engine, reader, context, loop)
            self._streams.add(stream)
            try:
                await stream.run()
            finally:
                self._streams.discard(stream)

        return serve

    def _compressed(
        self, handler: Callable[[Any, Context], Awaitable[Any]], *, streamed: bool
    ) -> Callable[[Any, Context], Awaitable[Any]]:
        """The handler, its replies compressed where that is asked for."""
        algorithm = self._compression
        if algorithm is None:
            return handler

        async def call(request: Any, context: Context) -> Any:  # noqa: ANN401  bytes
            context.set_compression(algorithm)
            if streamed:
                return await handler(request, context)
            reply = await handler(request, context)
            # The algorithm is named in the initial metadata, which grpc sends without it beside a unary reply.
            await context.send_initial_metadata(())
            return reply

        return call

    async def _check_health(self, _request: bytes, _context: Context) -> bytes:
        """``grpc.health.v1``: the whole server's state, whatever service is asked for."""
        status = health_pb2.HealthCheckResponse
        return status(status=status.SERVING if self._engine.ready else status.NOT_SERVING).SerializeToString()

    async def stop_accepting(self) -> None:
        """Take no new calls and connections; calls under way go on."""
        if self._server is not None and self._stopping is None:
            self._stopping = asyncio.get_running_loop().create_task(self._server.stop(_FOR_EVER_S))
            # Up to the first wait of grpc, behind which the port is closed.
            await asyncio.sleep(0)

    async def stop(self) -> None:
        """Stop; answers that are still due get a moment to be written, then calls are cut."""
        server, self._server = self._server, None
        if server is None:
            return
        for stream in tuple(self._streams):
            stream.close()
        await server.stop(self._settings.stop_grace_s)
        if self._stopping is not None:
            await self._stopping


def answering(servicer: Servicer, name: str) -> Callable[[Any, Context], Awaitable[bytes]]:
    """The handler of a call that the servicer answers."""
    request_class, answer = message(f"{name}Request"), getattr(servicer, name)

    async def call(data: bytes, _context: Context) -> bytes:
        try:
            request = request_class.FromString(data)
        except DecodeError as exc:
            raise codec.unreadable() from exc
        return (await answer(request)).SerializeToString()

    return call


def not_offered(name: str, instead: str) -> Callable[[Any, Context], Awaitable[bytes]]:
    """The handler of a call that this server knows of and does not answer."""

    async def call(_data: bytes, _context: Context) -> bytes:
        msg = f"{name} is not supported by this server yet; {instead}"
        raise Unsupported(msg)

    return call


def bind_error(host: str, port: int) -> str | None:
    """What the system says about listening on an address, or None where nothing stands against it."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as exc:
            return exc.strerror or str(exc)
    return None
