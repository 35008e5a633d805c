"""What there is once a process: the channel in use, the phase of the model, the requests that are open."""

from __future__ import annotations

import contextvars
import itertools
import os
import signal
import socket
import struct
import threading
from typing import TYPE_CHECKING, Any

from . import frames
from .channel import Channel
from .errors import TritonModelException
from .frames import Frame, Kind

if TYPE_CHECKING:
    import weakref
    from collections.abc import Callable

    from .answer import Answer

_COUNT = struct.Struct("<I")
_ENDING = (signal.SIGTERM, signal.SIGINT)


BATCH: contextvars.ContextVar[int] = contextvars.ContextVar("infer_batch", default=0)
"""The batch whose execution the code that runs belongs to; 0 for a thread of the model's own."""


class Runtime:
    """The state of one worker process.

    A fork that the model makes of it (multiprocessing) inherits everything and owns nothing: the first call it makes
    gets it a channel of its own, passed to the server over the inherited one.
    """

    def __init__(self) -> None:
        self.answers: dict[int, weakref.ref[Answer]] = {}
        self.early_cancels: set[int] = set()
        """Cancelled requests whose EXECUTE frame waits to be read; emptied when it is."""
        self.calls: dict[int, Callable[[bytearray], None]] = {}
        """Who takes the replies to a call or the answer to a question, by id; empty at the end of the channel."""
        self.serving = False
        """Whether the model is initialised and not finalising."""
        self.busy_thread = 0
        """The thread that executes: while it waits for a call, so does all that this instance executes. 0 for none."""
        self.finalizing = False
        self.on_probe: Callable[[int], None] | None = None
        """Takes the id of a PROBE frame, where the model has ``is_ready``; must not wait for anything."""
        self.model_dir = ""
        self.call_ids = itertools.count(1)
        self._channel: Channel | None = None
        self._worker_pid = 0
        self._lock = threading.Lock()
        self._masks = threading.local()

    def adopt(self, channel: Channel, *, own_process: bool = True) -> None:
        """This process is the worker and this is its channel; or the worker is one thread of it."""
        self._channel = channel
        self._worker_pid = os.getpid()
        if own_process:
            os.register_at_fork(before=self._before_fork, after_in_parent=self._forked, after_in_child=self._after_fork)

    def is_worker(self) -> bool:
        """Whether this process is the worker itself, not a fork of it."""
        return os.getpid() == self._worker_pid

    def leave(self) -> None:
        """The worker ends: what becomes of its requests, the server sees by that, and says why."""
        self._worker_pid = 0

    @property
    def connected(self) -> bool:
        """Whether there is a server to talk to."""
        return self._channel is not None

    def channel(self) -> Channel:
        """The channel of this very process. Raises TritonModelException where there is none."""
        channel = self._channel
        if channel is None:
            msg = "there is no server to talk to in this phase"
            raise TritonModelException(msg)
        if channel.pid != os.getpid():
            if not channel.OUTLIVES_A_FORK:
                msg = (
                    "a process that a model with EXECUTION_MODE thread has forked cannot reach the server; "
                    "give the model a process of its own (EXECUTION_MODE process)"
                )
                raise TritonModelException(msg)
            with self._lock:
                if self._channel is channel:
                    self._channel = self._reopen(channel)
                channel = self._channel
        return channel  # pyright: ignore[reportReturnType]

    def _reopen(self, inherited: Channel) -> Channel:
        """Ask for a channel of this process's own. One packet is atomic, so no lock of the parent's is needed."""
        own, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with other:
            hello = frames.pack_json(Kind.HELLO, os.getpid(), {"protocol": frames.PROTOCOL}, descriptors=1)
            inherited.sock.sendmsg([hello], frames.rights([other.fileno()]))
        self.calls.clear()
        channel = Channel(own, self.on_frame, self._on_fork_end)
        channel.start()
        return channel

    def on_frame(self, frame: Frame) -> None:
        """Take a frame that concerns requests or calls. Reader thread."""
        kind = frame.kind
        if kind == Kind.CALL_REPLY or kind == Kind.ANSWER:  # noqa: PLR1714  PERF: no tuple on the way of every reply
            deliver = self.calls.get(frame.id)
            if deliver is not None:
                deliver(frame.payload)
        elif kind == Kind.PROBE:
            if self.on_probe is not None:
                self.on_probe(frame.id)
        elif kind in (Kind.CANCEL, Kind.CREDIT):
            if kind == Kind.CANCEL:
                # Noted before it is looked up, as the model loop looks up what it has registered: one of both sees it.
                self.early_cancels.add(frame.id)
            reference = self.answers.get(frame.id)
            answer = reference() if reference is not None else None
            if answer is None:
                return
            if kind == Kind.CANCEL:
                answer.cancel()
            else:
                answer.add_credit(_COUNT.unpack(frame.payload)[0])

    def _on_fork_end(self, _: str) -> None:
        self.end()

    def end(self) -> None:
        """The server is gone: no call gets any further, and none can be made."""
        self.serving = False
        for deliver in list(self.calls.values()):
            deliver(bytearray())

    def _before_fork(self) -> None:
        # A pool may end a child that has only just been forked: what comes before the child has handlers of its own
        # waits for them, or the worker's handler, which swallows it, would have it lost.
        self._masks.before = signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)

    def _forked(self) -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, self._masks.before)

    def _after_fork(self) -> None:
        self._lock = threading.Lock()
        self.busy_thread = 0
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        self._forked()


def credit_frame(frame_id: int, count: int, *, flags: int = 0) -> bytes:
    """A CREDIT frame."""
    return frames.pack(Kind.CREDIT, frame_id, _COUNT.pack(count), flags=flags)


RUNTIME = Runtime()


def request_extras(**fields: Any) -> dict[str, Any]:  # noqa: ANN401  JSON
    """The rarer fields of a request, those that are set."""
    return {key: value for key, value in fields.items() if value}
