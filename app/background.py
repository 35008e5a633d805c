"""Have a server of a name run in the background: the one that does, or a new one."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from .failures import CommandError, ExitCode
from .launch import launch
from .places import DEFAULT_NAME, log_file, make_private
from .registry import Registry
from .standing import look
from .up_flags import chosen_log_file, differences, for_log_file

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from .registry import Record

_ASK_EVERY_S = 0.5
_ANSWER_S = 2.0


def bring_up(
    name: str,
    args: Sequence[str],
    *,
    enough: Callable[[Record], bool],
    tell: Callable[[str], None],
    environment: Mapping[str, str] = os.environ,
) -> tuple[Record, bool]:
    """The record of a server of that name once it is ``enough``, and whether it was started here.

    ``tell`` gets what to show while it starts, and "" at the end. Raises CommandError where it does not start, and
    where one runs with other flags.
    """
    registry = Registry.of_user(environment)
    running = registry.find(name)
    if running is not None:
        check_same(args, running)
        return running, False
    make_private(registry.folder, os.getuid())
    written = chosen_log_file(args, log_file(environment, name))
    started = launch(name, for_log_file(args, written), written)
    try:
        record = started.wait(registry, enough, _Progress(name, tell).show)
    finally:
        tell("")
    if record.pid != started.process.pid:
        check_same(args, record)
    return record, record.pid == started.process.pid


def check_same(args: Sequence[str], running: Record) -> None:
    """Refuse flags that a running server does not have. Raises CommandError."""
    differing = differences(args, running)
    if differing:
        down = "infer down" if running.name == DEFAULT_NAME else f"infer down --name {running.name}"
        raise CommandError(
            f"a server named '{running.name}' is running with other flags, as process {running.pid}",
            "; ".join(differing),
            f"stop it first: {down}   or have a second one: --name NAME",
            code=ExitCode.REFUSED,
        )


class _Progress:
    """Tells now and then how far a server is."""

    def __init__(self, name: str, tell: Callable[[str], None]) -> None:
        self._name = name
        self._tell = tell
        self._next = 0.0

    def show(self, record: Record | None) -> None:
        """Called as often as one likes."""
        if time.monotonic() < self._next:
            return
        standing = look(record, _ANSWER_S) if record is not None and record.control_socket else None
        models = ""
        if standing is not None and standing.counted:
            models = f": {len(standing.counted) - len(standing.not_ready)} of {len(standing.counted)} models are ready"
        self._tell(f"starting '{self._name}'{models} …")
        self._next = time.monotonic() + _ASK_EVERY_S
