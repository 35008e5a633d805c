"""Whether a thread stands still until another one does something: what a call made beside it may depend on."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import FrameType

_NO_LIMIT = (None, -1)


def is_waiting(thread: int) -> bool:
    """Whether a thread waits without a limit for a lock, condition, event, future, queue or thread of Python's.

    ``thread`` is its ident. A thread that sleeps, computes, or waits for so long at most does not.
    """
    # The one way to see another thread.
    frame = sys._current_frames().get(thread)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    return frame is not None and _waits(frame)


def _waits(frame: FrameType) -> bool:
    return frame.f_code.co_filename == threading.__file__ and frame.f_locals.get("timeout", 0) in _NO_LIMIT
