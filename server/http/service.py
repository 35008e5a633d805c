"""The HTTP door as a whole: its socket, its connections, its life."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING

from uvicorn.config import Config
from uvicorn.server import ServerState

from ...backends.api.errors import Unavailable
from .app import Door, make_app
from .codec import Codec
from .inference import Inference
from .limits import Limits
from .protocol import DoorProtocol

if TYPE_CHECKING:
    from ..engine import Engine

log = logging.getLogger("infer.http")


@dataclass(frozen=True, slots=True)
class HttpSettings(Limits):
    """What the door is told, the limits of its connections among it.

    Sizes are in bytes, times in seconds; port 0 takes a free one.
    ``codec_command`` becomes the codec process, to which JSON over ``codec_threshold`` bytes goes; without a command
    it is decoded in place. ``stop_grace_s`` is how long :meth:`HttpService.stop` waits for answers to be written.
    """

    host: str = "0.0.0.0"  # noqa: S104  Triton's default
    port: int = 8000
    reuse_port: bool = False
    backlog: int = 1024
    stop_grace_s: float = 1.0
    codec_command: tuple[str, ...] = ()
    codec_threshold: int = 256 << 10


class HttpService:
    """Serves the engine over HTTP. All methods belong to the serving loop, ``address`` to any thread."""

    def __init__(self, engine: Engine, settings: HttpSettings) -> None:
        self._settings = settings
        self._state = ServerState()
        self._codec = Codec(settings.codec_command, settings.codec_threshold)
        inference = Inference(engine, self._codec, settings.max_input_size)
        self._door = Door(inference, make_app(engine, settings.max_input_size))
        self._server: asyncio.Server | None = None
        self._address: tuple[str, int] | None = None

    @property
    def address(self) -> tuple[str, int]:
        """Host and port that are listened on. Raises RuntimeError before :meth:`start`."""
        if self._address is None:
            msg = "the HTTP service has not been started"
            raise RuntimeError(msg)
        return self._address

    @property
    def codec(self) -> Codec:
        """The JSON codec, for its state."""
        return self._codec

    @property
    def connection_count(self) -> int:
        """Open connections."""
        return len(self._state.connections)

    async def start(self) -> None:
        """Bind and serve. Raises Unavailable, naming the address, where it cannot be had."""
        settings = self._settings
        config = Config(
            self._door,  # type: ignore[arg-type]
            interface="asgi3",
            http=DoorProtocol,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            date_header=False,
        )
        config.load()
        config.loaded_app = self._door  # type: ignore[assignment]  no middleware, whatever the log level
        loop = asyncio.get_running_loop()
        listener = self._bind()
        self._server = await loop.create_server(
            lambda: DoorProtocol(config, self._state, settings, loop), sock=listener, backlog=settings.backlog
        )
        host, port = listener.getsockname()[:2]
        self._address = (host, port)

    def _bind(self) -> socket.socket:
        settings = self._settings
        host = settings.host.removeprefix("ipv6:").strip("[]")
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = socket.socket(family, socket.SOCK_STREAM)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            # Accepted sockets inherit it.
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if settings.reuse_port:
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            listener.bind((host, settings.port))
            listener.settimeout(0)
        except OSError as exc:
            listener.close()
            msg = (
                f"cannot listen on {settings.host}:{settings.port} for HTTP: {exc.strerror or exc}; "
                "stop what uses it, or choose another with --http-port"
            )
            raise Unavailable(msg) from exc
        return listener

    async def stop_accepting(self) -> None:
        """Close the listening socket and idle connections; the others close behind their answers."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for connection in list(self._state.connections):
            connection.shutdown()

    async def stop(self) -> None:
        """Stop; answers that are still due get a moment to be written, then connections are cut."""
        await self.stop_accepting()
        await self._wait_for_tasks()
        for connection in list(self._state.connections):
            connection.transport.abort()
        tasks = list(self._state.tasks)
        for task in tasks:
            task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.gather(*tasks, return_exceptions=True)
        await self._codec.stop()

    async def _wait_for_tasks(self) -> None:
        tasks = list(self._state.tasks)
        if tasks:
            await asyncio.wait(tasks, timeout=self._settings.stop_grace_s)
