"""A server's own entry in the registry: taken before it opens a door, told once its doors are open, removed at its end.

A server that cannot have an entry serves all the same: it says so in one line, and is reached by its address only.
"""

from __future__ import annotations

import logging
import os
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Self

from .. import __version__
from ..server.addresses import host_and_port
from .failures import CommandError
from .registry import NameTaken, Record, Registry

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .registry import Registration
    from .settings import ServerSettings
    from .wiring import RunningServer

_logger = logging.getLogger(__name__)

Address = tuple[str, int]


class Listing:
    """The entry of one server; without a registration it is none, and every method does nothing."""

    def __init__(
        self, settings: ServerSettings, registration: Registration | None = None, arguments: Sequence[str] = ()
    ) -> None:
        """``settings`` are the server's, and get the control socket of the entry."""
        self._registration = registration
        self._record: Record | None = None
        self.settings = settings
        if registration is not None:
            if settings.allow_metrics:
                self.settings = replace(settings, control_socket=registration.control_socket)
            self._write(begin(settings, arguments))

    def opened(self, server: RunningServer) -> None:
        """Tell where the server is, now that its doors are open."""
        if self._record is not None:
            self._write(with_doors(self._record, self.settings, server))

    def started(self, page: str) -> None:
        """Tell that the start is over, with the page that it ends with."""
        if self._record is not None:
            self._write(replace(self._record, start_page=page))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._registration is not None:
            self._registration.release()

    def _write(self, record: Record) -> None:
        self._record = record
        if self._registration is None:
            return
        try:
            self._registration.publish(record)
        except OSError as error:
            _logger.warning("commands do not find this server by its name: its record cannot be written: %s", error)


def enter(settings: ServerSettings, arguments: Sequence[str], registry: Registry | None = None) -> Listing:
    """The entry of a server under ``settings.name``; without a name it gets none. Raises NameTaken."""
    if not settings.name:
        return Listing(settings)
    try:
        registration = (registry or Registry.of_user()).take(settings.name)
    except NameTaken:
        raise
    except CommandError as error:
        _logger.warning("only its address finds this server: %s, because %s; %s", error.what, error.why, error.fix)
        return Listing(settings)
    return Listing(settings, registration, arguments)


def begin(settings: ServerSettings, arguments: Sequence[str]) -> Record:
    """The record of this process, which has opened no door yet."""
    return Record(
        name=settings.name,
        pid=os.getpid(),
        version=__version__,
        started_at=time.time(),
        log_file=str(Path(settings.log_file).absolute()) if settings.log_file else "",
        arguments=tuple(arguments),
        folder=str(Path.cwd()),
    )


def with_doors(record: Record, settings: ServerSettings, server: RunningServer) -> Record:
    """The record of a server whose doors are open. Pure."""
    return replace(
        record,
        http=_reached(server.http_address),
        grpc=_reached(server.grpc_address),
        operator=_reached(server.operator_address),
        control_socket=str(settings.control_socket) if settings.control_socket else None,
        control_key=server.control_key if server.operator_address else "",
    )


def _reached(address: Address | None) -> str | None:
    return host_and_port(address) if address is not None else None
