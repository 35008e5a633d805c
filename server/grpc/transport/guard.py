"""What goes wrong in one call stays that call's: its connection, and the calls beside it, go on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .status import Abort

if TYPE_CHECKING:
    from types import TracebackType

    from .call import Call


class Guard:
    """A status that is raised ends the call, a fault of ours is logged and ends it as INTERNAL."""

    __slots__ = ("_call", "_what")

    def __init__(self, call: Call, what: str = "failed") -> None:
        self._call = call
        self._what = what

    def __enter__(self) -> None:
        return

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        if isinstance(error, Abort):
            self._call.abort(error.status, error.details)
        elif isinstance(error, Exception):
            self._call.fail(error, self._what)
        else:
            return False
        return True
