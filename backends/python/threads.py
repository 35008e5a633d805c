"""Workers that are threads of the server: ``parameters { key: "EXECUTION_MODE" value { string_value: "thread" } }``.

The model runs as it does in a process of its own: the same worker code, the same frames, only that they are handed over
instead of packed. What is saved is the way through the kernel and back. What is given up for it:

- a crash of the model (a segmentation fault, ``os._exit``, want of memory) is a crash of the server. ``sys.exit`` and
  ``KeyboardInterrupt`` are not: they end the instance, which is started again;
- the GIL: while the model's Python runs, the server's does not, and both wait for each other's turns;
- what belongs to a process is the server's: environment, working directory, ``sys.path``, signal handlers, random
  seeds, threads of BLAS, memory and its limits. There is no interpreter of the model's own;
- an execution that takes too long cannot be ended. Its thread is left behind where it does not come back by itself, and
  so are threads that the model has started and does not end in ``finalize``;
- of what a model writes, ``print`` in its own modules goes to the log with its name; the rest to the server's output.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import gc
import json
import logging
import queue
import struct
import threading
from typing import TYPE_CHECKING, Any

from ..api.errors import InvalidArgument
from .channel import Channel
from .output import log_line, log_output
from .worker import handed
from .worker.exchange import Exchange
from .worker.frames import Frame, FrameError, Kind
from .worker.space import Space

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from ..api.model_config import ModelConfig
    from .worker.parcels import Entry, Parcel
    from .worker.slabs import Slab

_log = logging.getLogger("infer.python")
PROCESS = "process"
THREAD = "thread"
LEAVE_S = 5.0
"""How long a thread may take to come back from its model when it is to end."""
_PARAMETER = "EXECUTION_MODE"
_ENVIRONMENT = "EXECUTION_ENV_PATH"
_AT_ONCE = 32
"""Frames of one worker that are taken before others get their turn."""
_TAIL_LINES = 5


def execution_mode(config: ModelConfig) -> str:
    """Where a model's instances run: PROCESS or THREAD.

    Raises InvalidArgument for any other mode, and for a thread that wants an interpreter of its own.
    """
    mode = config.parameters.get(_PARAMETER, PROCESS)
    if mode not in (PROCESS, THREAD):
        msg = (
            f"model '{config.name}' has the parameter {_PARAMETER} '{mode}'; it may be '{PROCESS}', which is the "
            f"default, or '{THREAD}'"
        )
        raise InvalidArgument(msg)
    if mode == THREAD and config.parameters.get(_ENVIRONMENT):
        msg = (
            f"model '{config.name}' has both {_PARAMETER} '{THREAD}' and {_ENVIRONMENT}: a thread of the server runs "
            "in the server's interpreter. Leave out one of the two parameters"
        )
        raise InvalidArgument(msg)
    return mode


class DirectChannel(Channel):
    """The server's end of a channel that stays in its process. Serving loop only, but for ``arrive``."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, on_frame: Callable[[Frame], None], on_end: Callable[[str], None]
    ) -> None:
        Exchange.__init__(self, _ignore)
        self.pool = handed.plain_pool()
        self.inbox: queue.SimpleQueue[Frame | None] = queue.SimpleQueue()
        self.closed = False
        self._loop = loop
        self._on_frame = on_frame
        self._on_end = on_end
        self._take: Callable[[Frame], None] = _ignore
        self._tell_end: Callable[[], None] = _ignore
        self._arrived: collections.deque[Frame] = collections.deque()
        self._scheduled = False

    @property
    def queued(self) -> int:
        """Frames that wait to be taken by the worker's thread."""
        return self.inbox.qsize()

    def connect(self, take: Callable[[Frame], None], end: Callable[[], None]) -> None:
        """The worker is there. Its thread."""
        self._take = take
        self._tell_end = end
        if self.closed:
            end()

    def send(self, frame: bytes, descriptors: list[int] | None = None) -> None:
        """Send one frame."""
        if not self.closed:
            self._deliver(handed.opened(frame, descriptors or ()))

    def send_parcel(
        self, kind: int, frame_id: int, entries: Sequence[Entry], *, flags: int = 0, slab: Slab | None = None
    ) -> None:
        """Send requests or responses, whose tensors are copied unless they are in ``slab``."""
        if not self.closed:
            self._deliver(handed.hand_over(kind, frame_id, entries, flags=flags, slab=slab))

    def open_parcel(self, payload: bytearray) -> tuple[Parcel, bytearray | NDArray[np.uint8]]:
        """A received parcel and the memory its tensors are in. Raises FrameError."""
        pair = handed.parcel_of(payload)
        if pair is None:
            return super().open_parcel(payload)
        for item in pair[0].items:
            # Doors remember layouts; those of the worker's copy of the class would keep all of its modules.
            item.layout = self.signatures.received(item.layout.signature)
        return pair

    def arrive(self, frame: Frame) -> None:
        """Take a frame of the worker's. Any thread."""
        self._arrived.append(frame)
        if not self._scheduled:
            self._scheduled = True
            with contextlib.suppress(RuntimeError):  # a loop that is closed takes nothing
                self._loop.call_soon_threadsafe(self._readable)

    def drain(self) -> None:
        """Take the frames that have arrived."""
        while not self.closed and self._read_one():
            pass

    def close(self) -> None:
        """Nothing goes either way any more; a thread that waits for something is let go."""
        if not self.closed:
            self.closed = True
            self.inbox.put(None)
            self._tell_end()
            self._take = self._tell_end = _ignore

    def _deliver(self, frame: Frame) -> None:
        if frame.kind in _FOR_THE_MODEL:
            self.inbox.put(frame)
        else:
            self._take(frame)

    def _readable(self) -> None:
        self._scheduled = False
        for _ in range(_AT_ONCE):
            if not self._read_one():
                return
        if self._arrived and not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._readable)

    def _read_one(self) -> bool:
        if self.closed or not self._arrived:
            return False
        try:
            self._on_frame(self._arrived.popleft())
        except (FrameError, ValueError, KeyError, struct.error) as exc:
            self.close()
            self._on_end(f"the channel broke: {exc}")
        return True


_FOR_THE_MODEL = frozenset((Kind.EXECUTE, Kind.STATE, Kind.HELLO))


class WorkerThread:
    """One worker; to an instance it looks like a process.

    ``on_frame(frame, channel)`` gets its frames, ``on_death(reason)`` is called once when it takes nothing any more.
    """

    pid = 0
    killable = False

    def __init__(self, loop: asyncio.AbstractEventLoop, name: str, labels: dict[str, Any]) -> None:
        self.name = name
        self.on_frame: Callable[[Frame, Channel], None] = _ignore
        self.on_loss: Callable[[], None] = _ignore
        self.on_death: Callable[[str], None] = _ignore
        self.lost = False
        self.gone = asyncio.Event()
        """Set when the thread is over, or left behind."""
        self._loop = loop
        self._labels = labels
        self._reason = ""
        self._tail: collections.deque[str] = collections.deque(maxlen=_TAIL_LINES)
        self._space = Space(self._write)
        self._leaving: asyncio.TimerHandle | None = None
        self._thread = threading.Thread(target=self._run, name=f"instance-{name}", daemon=True)
        self.channel = DirectChannel(loop, self._route, self.kill)

    @property
    def last_words(self) -> str:
        """The last lines that it has written as errors, in one."""
        return " | ".join(self._tail)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def kill(self, reason: str) -> None:
        """Let go of it: its requests fail at once, its thread ends as soon as it comes back from the model."""
        if self._leaving is None and not self.gone.is_set():
            self._reason = self._reason or reason
            self._leaving = self._loop.call_later(LEAVE_S, self._leave_behind)
            self._lose()

    def _lose(self) -> None:
        self.channel.close()
        if not self.lost:
            self.lost = True
            reason = f"The thread of '{self.name}' is not healthy. {self._reason}".rstrip()
            self.on_death(f"{reason} Last words: {self.last_words}" if self._tail else reason)

    def _leave_behind(self) -> None:
        _log.error("the thread of '%s' is stuck in its model and is left behind", self.name, extra=self._labels)
        self.gone.set()

    def _route(self, frame: Frame) -> None:
        if frame.kind == Kind.LOG:
            log_line(json.loads(frame.payload), self._labels)
        else:
            self.on_frame(frame, self.channel)

    def _write(self, is_error: bool, line: str) -> None:  # noqa: FBT001  called by print, on any thread
        if is_error:
            self._tail.append(line)
        log_output(logging.WARNING if is_error else logging.INFO, self.name, line, self._labels)

    # Its thread

    def _run(self) -> None:
        failure = self._space.serve(self.channel)
        with contextlib.suppress(RuntimeError):  # left behind, and by now the loop is closed too
            self._loop.call_soon_threadsafe(self._ended, failure)

    # Serving loop

    def _ended(self, failure: str) -> None:
        if self._leaving is not None:
            self._leaving.cancel()
        self._reason = self._reason or failure
        self.channel.drain()
        self._thread.join()
        left = self._space.threads()
        if left:
            _log.warning(
                "'%s' is over and has left threads behind, which should end in finalize: %s",
                self.name,
                ", ".join(left),
                extra=self._labels,
            )
        self._lose()
        try:
            self._space.close(empty=not left)
            # The worker's copy of its classes: young ones are cheap to collect, older ones wait.
            gc.collect(1)
        finally:
            self.gone.set()


class Threads:
    """Starts workers as threads."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._workers: set[WorkerThread] = set()

    async def spawn(self, name: str, labels: dict[str, Any]) -> WorkerThread:
        """A new worker."""
        self._workers = {worker for worker in self._workers if not worker.gone.is_set()}
        worker = WorkerThread(self._loop, name, labels)
        self._workers.add(worker)
        worker.start()
        return worker

    async def stop(self) -> None:
        """Wait until each is over or left behind; instances have let go of them all."""
        for worker in self._workers:
            await worker.gone.wait()
        self._workers.clear()


def _ignore(*_: object) -> None:
    return
