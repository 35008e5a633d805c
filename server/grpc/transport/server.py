"""The listening side: its socket, its connections, the methods that calls name, and the end of all of them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from . import frames, headers
from .connection import Connection
from .frames import ErrorCode
from .guard import Guard
from .status import StatusCode

if TYPE_CHECKING:
    import ssl
    from collections.abc import Mapping

    from .call import Call
    from .limits import ConnectionLimits
    from .methods import Method

_BACKLOG = 1024


class GrpcServer:
    """Serves methods by their paths (``/package.Service/Method``). Serving loop only."""

    def __init__(
        self, methods: Mapping[str, Method], limits: ConnectionLimits, loop: asyncio.AbstractEventLoop
    ) -> None:
        self._methods = methods
        self._limits = limits
        self._loop = loop
        self._connections: set[Connection] = set()
        self._server: asyncio.Server | None = None
        self._idle: asyncio.Future[None] | None = None

    @property
    def connection_count(self) -> int:
        """Connections that are open."""
        return len(self._connections)

    @property
    def call_count(self) -> int:
        """Calls under way."""
        return sum(len(connection.streams.calls) for connection in self._connections)

    async def start(
        self, host: str, port: int, *, reuse_port: bool = False, tls: ssl.SSLContext | None = None
    ) -> tuple[str, int]:
        """Listen; the address. Raises OSError where it cannot be had."""
        found = await self._loop.getaddrinfo(host, port, type=1)
        resolved = str(found[0][4][0])
        self._server = await self._loop.create_server(
            self._connection, resolved, port, reuse_port=reuse_port or None, ssl=tls, backlog=_BACKLOG
        )
        name = self._server.sockets[0].getsockname()
        return name[0], name[1]

    def stop_accepting(self) -> None:
        """Take no more connections, and no more calls on those that there are; calls under way go on."""
        if self._server is not None:
            self._server.close()
        for connection in tuple(self._connections):
            connection.refuse("shutdown")

    async def stop(self, grace_s: float) -> None:
        """Stop; calls under way have ``grace_s`` to end, then they are cut."""
        self.stop_accepting()
        if self._connections:
            self._idle = self._loop.create_future()
            await asyncio.wait((self._idle,), timeout=grace_s)
            for connection in tuple(self._connections):
                connection.abort()
        while self._connections:
            self._idle = self._loop.create_future()
            await self._idle
        if self._server is not None:
            await self._server.wait_closed()
            self._server = None

    def open(self, call: Call) -> None:
        """A call has begun: find its method."""
        head = call.head
        method = self._methods.get(head.path)
        if not head.is_grpc:
            call.half_closed = True
            output = call.connection.output
            output.write(
                frames.frame(frames.HEADERS, frames.END_HEADERS | frames.END_STREAM, call.id, headers.NOT_GRPC)
            )
            output.write(frames.rst_stream(call.id, ErrorCode.NO_ERROR))
            call.drop()
        elif method is None:
            call.abort(StatusCode.UNIMPLEMENTED, f"Method not found: {head.path}")
        else:
            with Guard(call):
                method(call)

    def joined(self, connection: Connection) -> None:
        """A connection is there."""
        self._connections.add(connection)

    def lost(self, connection: Connection) -> None:
        """A connection is gone."""
        self._connections.discard(connection)
        idle = self._idle
        if idle is not None and not self._connections and not idle.done():
            idle.set_result(None)

    def _connection(self) -> Connection:
        return Connection(self, self._limits, self._loop)
