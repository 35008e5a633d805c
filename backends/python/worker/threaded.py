"""The worker as a thread of the server. Each instance runs a copy of this folder of its own (see ``space``)."""

from __future__ import annotations

import functools
import os
from typing import TYPE_CHECKING, Any, Protocol

from . import c_python_backend_utils, frames, handed, parcels, triton_python_backend_utils
from .border import Border
from .channel import Channel
from .exchange import Exchange
from .frames import Frame, Kind
from .loading import import_privately
from .runtime import RUNTIME, credit_frame
from .serving import Worker

if TYPE_CHECKING:
    import queue
    from collections.abc import Callable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from .parcels import Entry, Parcel
    from .space import Space

_LOOP_END_S = 2.0
_GONE = "the server has let go of this instance"


class ServerEnd(Protocol):
    """The server's end of a channel that stays in its process."""

    inbox: queue.SimpleQueue[Frame | None]
    """Frames for the model; None at the end, which either side may put."""

    def connect(self, take: Callable[[Frame], None], end: Callable[[], None]) -> None:
        """Have other frames taken, on the serving loop, and the end told."""
        ...

    def arrive(self, frame: Frame) -> None:
        """Take a frame of the worker's. Any thread."""
        ...


class DirectChannel(Channel):
    """The worker's end of it.

    What concerns requests and calls is taken where it is sent, on the serving loop, so nothing here has to read.
    """

    OUTLIVES_A_FORK = False

    def __init__(self, server: ServerEnd, on_frame: Callable[[Frame], None], on_end: Callable[[str], None]) -> None:
        Exchange.__init__(self, _nothing)
        self.pool = handed.plain_pool()
        self.pid = os.getpid()
        self._server = server
        self._inbox = server.inbox  # pyright: ignore[reportIncompatibleVariableOverride, reportAttributeAccessIssue]
        self.always_read = False
        self._ended = False
        self._fault: BaseException | None = None
        self._on_end = on_end
        server.connect(on_frame, self.hang_up)

    def start(self) -> None:
        """Nothing has to be started."""

    def next_frame(self) -> Frame:
        """Wait for a frame for the model. Raises BrokenPipeError at the end, or what it was broken off with."""
        frame = self._inbox.get()
        if self._fault is not None:
            raise self._fault
        if frame is None or self._ended:
            raise BrokenPipeError(_GONE)
        return frame

    def break_off(self, fault: BaseException) -> None:
        """Have the model's thread end with this. Any thread."""
        if not self._ended:
            self._fault = fault
            self._server.inbox.put(None)

    def take_waiting(self) -> None:
        """Whatever was sent has arrived."""

    def expect(self, waiter: object) -> None:  # noqa: ARG002  the interface
        """Something is about to wait. Raises BrokenPipeError where nothing comes any more."""
        if self._ended:
            raise BrokenPipeError(_GONE)

    def expect_no_more(self, waiter: object) -> None:
        """It has got what it waited for."""

    def read_until(self, arrived: Callable[[], bool], waiter: object) -> None:  # noqa: ARG002  the interface
        """What is waited for is taken on the serving loop."""
        self.expect(waiter)

    def attend(self) -> None:
        """Whatever was sent has arrived. Raises BrokenPipeError where nothing comes any more."""
        if self._ended:
            raise BrokenPipeError(_GONE)

    def send(self, frame: bytes, descriptors: Sequence[int] = ()) -> None:
        """Send one frame. Raises BrokenPipeError after the end."""
        self._arrive(handed.opened(frame, descriptors))

    def send_parcel(
        self,
        kind: int,
        frame_id: int,
        entries: Sequence[Entry],
        *,
        flags: int = 0,
        stamps: tuple[int, int, int, int] = parcels.NO_STAMPS,
    ) -> None:
        """Send requests or responses. Raises BrokenPipeError after the end."""
        self._arrive(handed.hand_over(kind, frame_id, entries, flags=flags, stamps=stamps))

    def open_parcel(self, payload: bytearray) -> tuple[Parcel, bytearray | NDArray[np.uint8]]:
        """A received parcel and the memory its tensors are in."""
        return handed.parcel_of(payload) or super().open_parcel(payload)

    def post(self, frame: bytes) -> None:
        """Send a frame from a finaliser."""
        if not self._ended:
            self._server.arrive(handed.opened(frame, ()))

    def flush(self) -> None:
        """Nothing waits."""

    def _arrive(self, frame: Frame) -> None:
        if self._ended:
            raise BrokenPipeError(_GONE)
        self._server.arrive(frame)

    def hang_up(self) -> None:
        """Nothing goes either way any more. Any thread."""
        if not self._ended:
            self._ended = True
            self._on_end(_GONE)


class ThreadWorker(Worker):
    """One model instance on a thread of the server."""

    def __init__(self, server: ServerEnd, space: Space) -> None:
        self._space = space
        self._channel: DirectChannel
        super().__init__(functools.partial(DirectChannel, server))

    def run(self) -> None:
        """Serve until the server says FINALIZE, or closes the channel."""
        try:
            super().run()
        finally:
            # First, while what ends it still holds the requests: they fail with that, not for having been dropped.
            self._channel.hang_up()
            self._end_loop()
            with Border() as border:
                self._space.run_exits()
            if border.failure:
                self._space.printer.print(border.failure)
            self._model = None

    def _publish(self) -> None:
        self._space.publish("triton_python_backend_utils", triton_python_backend_utils)
        self._space.publish("c_python_backend_utils", c_python_backend_utils)

    def _import(self, content: dict[str, Any]) -> Any:  # noqa: ANN401  the model's class
        return import_privately(
            self._space, content["model_path"], content["model_dir"], content["program"], bare=content["bare"]
        )

    def _adopt(self) -> None:
        RUNTIME.adopt(self._channel, own_process=False)

    def _came_up(self) -> None:
        """What the import has left behind is the server's to collect, when it suits its other models."""

    def _end_loop(self) -> None:
        """Stop the coroutines that are left, and their loop; one that never comes back is left behind."""
        if self._loop is not None:
            self._loop.stop()

    def _on_end(self, reason: str, error: BaseException | None = None) -> None:
        """Let everything go that waits for the server, as nothing can end it by force."""
        self._channel.break_off(error or RuntimeError(reason))
        for request_id in list(RUNTIME.answers):
            RUNTIME.on_frame(Frame(Kind.CANCEL, 0, request_id, bytearray(), []))
            credit = bytearray(credit_frame(request_id, frames.WINDOW)[frames.HEADER.size :])
            RUNTIME.on_frame(Frame(Kind.CREDIT, 0, request_id, credit, []))
        RUNTIME.end()


def serve(server: ServerEnd, space: Space) -> None:
    """Be the worker of one instance, on the thread that calls it."""
    ThreadWorker(server, space).run()


def _nothing(_: int) -> None:
    """No memory has to be given back."""
