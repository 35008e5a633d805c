"""Stop a server of the registry: ask it, wait until its process is gone, and kill it only where that is asked for."""

from __future__ import annotations

import os
import select
import signal
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from .failures import CommandError, ExitCode

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from .registry import Record, Registry

_TICK_S = 0.5
_KILLED_WITHIN_S = 30.0
"""A killed process is gone once the kernel has freed its memory."""


def stop(
    record: Record, registry: Registry, *, timeout_s: float, force: bool = False, waiting: Callable[[], None]
) -> bool:
    """Stop a server and wait until it is gone; False where it was gone already.

    ``waiting`` is called twice a second. Raises CommandError where the process may not be stopped, and where it is
    still there after ``timeout_s``: it goes on stopping then.
    """
    with _process(record, registry) as descriptor:
        if descriptor is None:
            return False
        _send(descriptor, signal.SIGTERM, record)
        if _is_gone_within(descriptor, timeout_s, waiting):
            return True
        if not force:
            raise CommandError(
                f"the server '{record.name}' is still there after {timeout_s:g} s",
                "it lets requests under way finish, for as long as its --exit-timeout-secs says",
                "wait longer: --timeout SECONDS   or kill it: --force",
                code=ExitCode.NOT_READY,
            )
        _send(descriptor, signal.SIGKILL, record)
        if not _is_gone_within(descriptor, _KILLED_WITHIN_S, waiting):
            raise CommandError(
                f"the server '{record.name}' was killed and is still there",
                f"process {record.pid} hangs in the kernel",
                "look for a device or a disk that does not answer",
                code=ExitCode.NOT_READY,
            )
        return True


@contextmanager
def _process(record: Record, registry: Registry) -> Generator[int | None]:
    """The server's process as a descriptor; None where it has ended.

    The descriptor comes first and the look at the lock second: who has the lock open then was that process all along,
    so that no other one that got its number is meant.
    """
    try:
        descriptor = os.pidfd_open(record.pid)
    except ProcessLookupError:
        yield None
        return
    try:
        yield descriptor if _is_alive(record, registry) else None
    finally:
        os.close(descriptor)


def _is_alive(record: Record, registry: Registry) -> bool:
    now = registry.find(record.name)
    try:
        return now is not None and now.pid == record.pid and registry.is_held_by(record.name, record.pid)
    except PermissionError as error:
        raise _not_ours(record) from error


def _send(descriptor: int, number: signal.Signals, record: Record) -> None:
    try:
        signal.pidfd_send_signal(descriptor, number)
    except ProcessLookupError:
        return
    except PermissionError as error:
        raise _not_ours(record) from error


def _not_ours(record: Record) -> CommandError:
    return CommandError(
        f"the server '{record.name}' may not be stopped by you",
        f"process {record.pid} belongs to another user",
        "ask its owner, or become that user",
        code=ExitCode.REFUSED,
    )


def _is_gone_within(descriptor: int, seconds: float, waiting: Callable[[], None]) -> bool:
    """Whether the process ends in time. Its descriptor becomes readable when it does."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    ends = time.monotonic() + seconds
    while True:
        left = max(0.0, ends - time.monotonic())
        if poll.poll(min(left, _TICK_S) * 1000):
            return True
        if left <= 0:
            return False
        waiting()
