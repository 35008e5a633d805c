"""The border to the model's code: where its exceptions end and become sentences."""

from __future__ import annotations

import contextlib
import os
import sys
import time
import traceback
from typing import TYPE_CHECKING, ClassVar, NoReturn

from .loading import ModelLoadError

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

_PLACES = 32
"""How many places an answer names: an endless recursion has a thousand of them."""


class Border:
    """``with Border() as border:`` runs the model's code; ``border.failure`` says what it raised, "" for nothing.

    The one place where a foreign exception is caught. It is not kept: its traceback holds the model's tensors. As with
    Triton it need not be an ``Exception``; only ``SystemExit``, by which the model ends its process, passes. A process
    that the model's code has forked ends here: it is nobody's worker, and would take the place of the one that waits
    for it.
    """

    __slots__ = ("_pid", "failed_at", "failure")

    passes: ClassVar[tuple[type[BaseException], ...]] = (SystemExit,)

    def __init__(self) -> None:
        self.failure = ""
        self.failed_at = 0
        """When (monotonic ns); finding the words takes longer than many a model."""
        self._pid = 0

    def __enter__(self) -> Self:
        self._pid = os.getpid()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if os.getpid() != self._pid:
            _end_fork(error)
        if error is None or isinstance(error, self.passes):
            return False
        self.failed_at = time.monotonic_ns()
        self.failure = _printable(str(error)) if isinstance(error, ModelLoadError) else describe(error)
        return True


class LastBorder(Border):
    """The border around a whole worker that has no process to end: nothing passes it."""

    __slots__ = ()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if isinstance(error, SystemExit):
            self.failure = f"It ended with exit status {exit_status(error)}. {exit_words(error)}"
        elif error is not None:
            self.failure = f"It ended with {describe(error)}"
        return True


def _end_fork(error: BaseException | None) -> NoReturn:
    """End a process that the model's code has forked and that leaves this code, as a program of its own would end."""
    status = exit_status(error) if isinstance(error, SystemExit) else int(error is not None)
    with contextlib.suppress(OSError, ValueError):
        if error is not None and not isinstance(error, SystemExit):
            sys.stderr.write(f"process {os.getpid()}, which the model has forked, ends with {describe(error)}\n")
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(status)


def describe(error: BaseException) -> str:
    """Class, text and, innermost first, the places in the model's code that an exception passed."""
    text = f"{type(error).__name__}: {_text(error)}"
    places = _places(error)
    if len(places) > _PLACES:
        half = _PLACES // 2
        places[half:-half] = [f"  … {len(places) - 2 * half} more"]
    return _printable("\n".join([text, "", "At:", *places]) if places else text)


def exit_status(error: SystemExit) -> int:
    """The status that a program ends with which raises it, as the interpreter has it."""
    if error.code is None:
        return 0
    return error.code & 0xFF if isinstance(error.code, int) else 1


def exit_words(error: SystemExit) -> str:
    """A line that says what ended the interpreter, and where."""
    places = _places(error)
    where = f" at{places[0][1:]}" if places else ""
    return _printable(f"SystemExit: {_text(error)}{where}")


def _places(error: BaseException) -> list[str]:
    places = [
        f"  {frame.filename}({frame.lineno}): {frame.name}"
        for frame in reversed(traceback.extract_tb(error.__traceback__))
        if not frame.filename.startswith((_HERE, "<frozen importlib"))
    ]
    if isinstance(error, SyntaxError) and error.filename:
        # No frame stands where the interpreter could not read on.
        places.insert(0, f"  {error.filename}({error.lineno})")
    return places


def _text(error: BaseException) -> str:
    """The text of an exception, which the model's own code may make: it may fail in turn."""
    try:
        return str(error)
    except BaseException as exc:  # noqa: BLE001  the border is here, too
        return f"<its __str__ raised {type(exc).__name__}>"


def _printable(text: str) -> str:
    """Text that can be sent: a half of a surrogate pair, which is no character, is spelled out."""
    return text if text.isascii() else text.encode(errors="backslashreplace").decode()


_HERE = os.path.dirname(describe.__code__.co_filename) + os.sep
"""This folder as tracebacks name it; in a frozen program that is not where the file is."""
