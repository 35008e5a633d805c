"""The life of a server process: start, wait for a signal, drain, stop, and the exit code.

The first SIGINT or SIGTERM lets requests under way finish, for ``--exit-timeout-secs`` at most; a second one while
they do stops at once. Exit codes: 0 stopped as asked; 1 could not start, or the time ran out; 130 stopped at once.
"""

from __future__ import annotations

import ctypes
import functools
import gc
import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ..backends.api.errors import InferError
from ..server.observe import logs
from . import console, listing
from .failures import ExitCode
from .registry import NameTaken
from .stop_signals import StopRequested, StopSignals

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..server.lifecycle.signature import ModelSignature
    from ..server.observe.log_ring import LogRing
    from .listing import Listing
    from .settings import ServerSettings
    from .wiring import RunningServer

_logger = logging.getLogger(__name__)
_READY = "READY"


# From glibc's malloc.h.
_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3


def serve(settings: ServerSettings, arguments: Sequence[str] = ()) -> int:
    """Serve until told to stop; the exit code of the process. Main thread.

    A server with a name is entered in the user's registry, with the ``arguments`` that it was started with.
    """
    with StopSignals() as signals:
        return _serve_with_log(settings, arguments, signals)


def log_settings(settings: ServerSettings) -> logs.LogSettings:
    """The part of the settings that the logs know."""
    return logs.LogSettings(
        log_info=settings.log_info,
        log_warning=settings.log_warning,
        log_error=settings.log_error,
        log_verbose=settings.log_verbose,
        log_format=settings.log_format,
        log_file=Path(settings.log_file) if settings.log_file else None,
        log_file_max_size=settings.log_file_max_size,
        log_file_count=settings.log_file_count,
    )


def _serve_with_log(settings: ServerSettings, arguments: Sequence[str], signals: StopSignals) -> int:
    try:
        service = logs.configure(log_settings(settings))
    except InferError as error:
        sys.stderr.write(f"error: {error}\n")
        return ExitCode.FAILED
    try:
        with listing.enter(settings, arguments) as entry:
            keep_freed_memory()
            return _serve(entry, signals, service.ring)
    except NameTaken as error:
        _logger.error("the server cannot start: %s: %s; %s", error.what, error.why, error.fix)  # noqa: TRY400  as below
        return ExitCode.FAILED
    finally:
        service.stop()


def _serve(entry: Listing, signals: StopSignals, log: LogRing) -> int:
    settings = entry.settings
    for notice in settings.notices:
        _logger.warning("%s", notice)
    server: RunningServer | None = None
    try:
        with signals.raising():
            from .wiring import build  # noqa: PLC0415  it takes long, and a signal is to end it too

            server = build(settings, log)
            failed = server.start(functools.partial(entry.opened, server))
    except InferError as error:
        _logger.error("the server cannot start: %s", error)  # noqa: TRY400  the sentence says it; a trace does not
        return ExitCode.FAILED
    except StopRequested as request:
        if server is not None:
            server.stop()
        _logger.info("%s while starting: stopped", request)
        return ExitCode.OK
    if failed and settings.exit_on_error:
        page = console.model_table(server.engine.index())
        names = ", ".join(sorted(failed))
        _logger.error("failed to load: %s; --exit-on-error=false serves the others", names, extra={"table": page})
        server.stop()
        return ExitCode.FAILED
    settle()
    _announce(server, entry)
    return _until_stopped(server, settings, signals)


def keep_freed_memory() -> None:
    """Have the C library keep what large bodies leave behind, instead of giving it back and asking for it again.

    PERF: a body of 10 MB that is mapped anew takes 2,500 page faults; without them the loop's 99th percentile of
    lag under such bodies fell from 5.0 to 4.1 ms. Called before any thread starts; where the C library has no
    ``mallopt`` nothing is changed.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, 32 << 20)
        mallopt(_M_TRIM_THRESHOLD, 64 << 20)


def settle() -> None:
    """Leave what the start has made out of the garbage collector's rounds, and have them less often.

    PERF: requests make no reference circles, so rounds find nothing; at the default threshold they took about 7 % of
    the serving loop's time, and a full one holds it for milliseconds.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)


def _until_stopped(server: RunningServer, settings: ServerSettings, signals: StopSignals) -> int:
    """Wait for a signal, drain, stop."""
    received = signals.wait()
    _logger.info("%s: finishing requests under way, for %d s at most", received.name, settings.exit_timeout_secs)
    try:
        with signals.raising():
            left = server.drain(settings.exit_timeout_secs)
    except StopRequested:
        _logger.warning("stopping now: requests under way are failed")
        server.stop()
        return ExitCode.INTERRUPTED
    server.stop()
    if left:
        _logger.error("Exit timeout expired: %d requests under way were failed", left)
        return ExitCode.FAILED
    _logger.info("stopped")
    return ExitCode.OK


def _announce(server: RunningServer, entry: Listing) -> None:
    """Print the start page, in order with the log where both go to the console."""
    settings = entry.settings
    page = console.start_page(
        server.engine.index(),
        _ready_signatures(server),
        http=server.http_address,
        operator=server.operator_address,
        grpc=server.grpc_address,
    )
    entry.started(page)
    if settings.log_info and not settings.log_file:
        _logger.info("serving", extra={"table": page})
    else:
        sys.stdout.write(f"{page}\n")
        sys.stdout.flush()


def _ready_signatures(server: RunningServer) -> dict[str, ModelSignature]:
    """The signature of every model that is ready. The engine's models belong to the serving loop."""
    names = {entry.name for entry in server.engine.index() if entry.state == _READY}

    async def collect() -> dict[str, ModelSignature]:
        return {name: server.engine.find(name).signature for name in sorted(names)}

    return server.serving_loop.run(collect())
