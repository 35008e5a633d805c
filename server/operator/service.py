"""The operator's door: the metrics port and the control socket, a WSGI application on waitress, on its own threads.

One thread (``operator-door``) owns the sockets, a few (``operator-0`` …) answer. They read frozen snapshots and ask the
serving loop only to change things.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from waitress.server import create_server
from waitress.task import ThreadedTaskDispatcher
from waitress.wasyncore import close_all

from ...backends.api.errors import Unavailable
from ..observe.gpu import GpuSampler
from ..observe.host import HostProbe
from ..observe.log_ring import LogRing
from ..observe.metrics import ServerMetrics
from .app import Parts, create_app
from .control import OVER_SOCKET, Control, Gate
from .control_socket import ControlSocket
from .model_rows import worker_memory
from .overview import Addresses, Sources

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

    from ..engine import Engine
    from ..observe.gpu import GpuReading

_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class OperatorSettings:
    """Where the door listens and what it measures. Port 0 takes a free one; times are in seconds.

    ``threads`` answer requests, and at most ``threads - 2`` of them wait for a load or an unload. Those are taken over
    ``control_socket`` (None: there is none), and over the port from who shows ``control_key`` ("": from nobody).
    ``name`` and ``log_file`` are for the overview.
    """

    host: str = "127.0.0.1"
    port: int = 8002
    host_metrics: bool = True
    gpu_metrics: bool = True
    metrics_interval_s: float = 2.0
    threads: int = 6
    control_timeout_s: float = 600.0
    max_body_bytes: int = 64 << 20
    control_socket: Path | None = None
    control_key: str = field(default="", repr=False)
    name: str = ""
    log_file: str = ""


class OperatorService:
    """The door of one server. ``start`` and ``stop`` belong to one thread, not the serving loop's."""

    def __init__(
        self,
        engine: Engine,
        settings: OperatorSettings,
        *,
        ring: LogRing | None = None,
        doors: Callable[[], Addresses] = Addresses,
    ) -> None:
        """Nothing is opened before ``start``.

        ``ring`` keeps the newest log records, ``doors`` says where the other doors listen.
        """
        self._settings = settings
        self._control = Control(engine.loop, slots=max(1, settings.threads - 2), timeout_s=settings.control_timeout_s)
        self._gpus = GpuSampler(settings.metrics_interval_s)
        self._host = HostProbe(settings.metrics_interval_s) if settings.host_metrics else None
        self._doors = doors
        self.metrics = ServerMetrics(
            engine.statistics,
            host=self._host,
            gpus=(lambda: self._gpus.readings) if settings.gpu_metrics else None,
            refusals=lambda: engine.refusals,
            memory=lambda: worker_memory(engine.rows()),
            custom=engine.custom_metrics,
        )
        ring = ring or LogRing()
        gate = Gate(settings.control_key)
        self._app = create_app(engine, Parts(self.metrics, self._control, gate, self._sources(ring), ring))
        self._address: tuple[str, int] | None = None
        self._server: Any = None  # waitress has no types
        self._dispatcher: Any = None
        self._thread: threading.Thread | None = None
        self._socket: ControlSocket | None = None

    @property
    def address(self) -> tuple[str, int]:
        """Host and port that it listens on. Raises RuntimeError before ``start``."""
        if self._address is None:
            raise RuntimeError("the operator's door is not open: call start() first")
        return self._address

    def start(self) -> None:
        """Listen and answer.

        Raises Unavailable, naming address and port or the socket's path, where that is not possible.
        """
        settings = self._settings
        listener = _listen(settings.host, settings.port)
        try:
            if settings.control_socket is not None:
                self._socket = ControlSocket(settings.control_socket)
        except Unavailable:
            listener.close()
            raise
        self._address = listener.getsockname()[:2]
        self._dispatcher = _Dispatcher()
        self._dispatcher.set_thread_count(settings.threads)
        self._server = self._serve(self._app, listener, {})
        if self._socket is not None:
            # Both are watched by one thread and answered by one pool.
            self._serve(_over_socket(self._app), self._socket.listener, self._server._map)  # noqa: SLF001  waitress gives it no other name
        self._thread = threading.Thread(target=self._server.run, name="operator-door", daemon=True)
        self._thread.start()
        if settings.gpu_metrics:
            self._gpus.start()

    def _serve(self, app: WSGIApplication, listener: socket.socket, watched: dict[int, Any]) -> Any:  # noqa: ANN401  waitress has no types
        return create_server(
            app,
            watched,
            sockets=[listener],
            _dispatcher=self._dispatcher,
            ident=None,
            max_request_body_size=self._settings.max_body_bytes,
            # Nothing here believes a proxy's headers, so there is none to be taken away.
            clear_untrusted_proxy_headers=False,
        )

    def _sources(self, ring: LogRing) -> Sources:
        settings, host = self._settings, self._host
        return Sources(
            name=settings.name,
            log_file=settings.log_file,
            addresses=lambda: replace(self._doors(), operator=self._address),
            host=host.read if host is not None else lambda: None,
            gpus=self._read_gpus,
            log_last=lambda: ring.last,
        )

    def _read_gpus(self) -> tuple[tuple[GpuReading, ...], str]:
        if not self._settings.gpu_metrics:
            return (), "GPUs are not measured: the server runs with --allow-gpu-metrics=false"
        return self._gpus.readings, self._gpus.reason

    def stop(self) -> None:
        """Answer what is being answered, close everything and join the threads. Idempotent."""
        self._control.close()
        self._gpus.stop()
        if self._thread is None:
            return
        self._dispatcher.shutdown()
        self._dispatcher.join()
        watched: dict[int, Any] = self._server._map  # noqa: SLF001  waitress gives it no other name
        left: dict[int, Any] = {}

        def forget() -> None:
            left.update(watched)
            watched.clear()

        # The thread ends when it has nothing left to watch. What wakes it is closed after that, not while it is used.
        self._server.trigger.pull_trigger(forget)
        self._thread.join()
        self._thread = None
        close_all(left)
        if self._socket is not None:
            self._socket.remove()


def _over_socket(app: WSGIApplication) -> WSGIApplication:
    """The application for requests that come over the control socket."""

    def marked(environment: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        environment[OVER_SOCKET] = True
        return app(environment, start_response)

    return marked


class _Dispatcher(ThreadedTaskDispatcher):
    """Waitress's pool, with threads that are named for what they do and can be joined."""

    def __init__(self) -> None:
        super().__init__()
        self._started: list[threading.Thread] = []

    def start_new_thread(self, target: Callable[[int], object], thread_no: int) -> None:
        """Start one thread of the pool."""
        thread = threading.Thread(target=target, name=f"operator-{thread_no}", args=(thread_no,), daemon=True)
        self._started.append(thread)
        thread.start()

    def join(self, timeout_s: float = 5.0) -> None:
        """Wait until the threads ended, after ``shutdown``; one that does not is told of and left."""
        for thread in self._started:
            thread.join(timeout_s)
            if thread.is_alive():
                _logger.warning("thread %s of the operator's door does not end", thread.name)


def _listen(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with contextlib.ExitStack() as stack:
            listener = stack.enter_context(socket.socket(family, kind, protocol))
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            stack.pop_all()
    except OSError as error:
        reason = error.strerror or str(error)
        message = (
            f"metrics port {port} on '{host}' cannot be opened: {reason}; "
            "choose another with --metrics-port, or --allow-metrics=false for none"
        )
        raise Unavailable(message) from error
    return listener
