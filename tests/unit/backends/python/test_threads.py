"""The server's side of a worker thread: the mode that a configuration asks for, and the end of a channel."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from infer.backends.api.errors import InvalidArgument
from infer.backends.api.model_config import ModelConfig
from infer.backends.python.threads import DirectChannel, execution_mode
from infer.backends.python.worker import frames, parcels
from infer.backends.python.worker.frames import Frame, FrameError, Kind
from infer.backends.python.worker.threaded import DirectChannel as WorkerEnd

if TYPE_CHECKING:
    from collections.abc import Callable


def config(**parameters: str) -> ModelConfig:
    given = {key: {"string_value": text} for key, text in parameters.items()}
    return ModelConfig.from_document({"name": "m", "backend": "python", "parameters": given})


class Ends:
    """Both ends of a channel, and what each was given."""

    def __init__(self) -> None:
        self.server_frames: list[Frame] = []
        self.worker_frames: list[Frame] = []
        self.ended: list[str] = []
        self.take: Callable[[Frame], None] = self.server_frames.append
        loop = asyncio.get_running_loop()
        self.server = DirectChannel(loop, self._take, self.ended.append)

    def _take(self, frame: Frame) -> None:
        self.take(frame)

    def connect(self) -> WorkerEnd:
        """The worker's end."""
        return WorkerEnd(self.server, self.worker_frames.append, self.ended.append)


@pytest.fixture
async def ends() -> Ends:
    return Ends()


def entry(number: int = 1) -> parcels.Entry:
    layout = parcels.Signatures().layout((), (("x", "UINT8", (3,), 3),))
    return parcels.Entry(number, layout, [b"abc"])


@pytest.mark.parametrize(
    ("parameters", "mode"),
    [({}, "process"), ({"EXECUTION_MODE": "process", "EXECUTION_ENV_PATH": "x"}, "process"),
     ({"EXECUTION_MODE": "thread"}, "thread"), ({"EXECUTION_MODE": "thread", "EXECUTION_ENV_PATH": ""}, "thread")],
)  # fmt: skip
def test_the_mode_is_a_process_unless_the_configuration_says_otherwise(parameters: dict[str, str], mode: str) -> None:
    assert execution_mode(config(**parameters)) == mode


@pytest.mark.parametrize("mode", ["", "threads", "THREAD", "subinterpreter"])
def test_another_mode_is_refused_with_those_there_are(mode: str) -> None:
    with pytest.raises(InvalidArgument, match=f"EXECUTION_MODE '{mode}'; it may be 'process'.* or 'thread'"):
        execution_mode(config(EXECUTION_MODE=mode))


def test_a_thread_cannot_have_an_interpreter_of_its_own() -> None:
    with pytest.raises(InvalidArgument, match=r"Leave out one of the two parameters"):
        execution_mode(config(EXECUTION_MODE="thread", EXECUTION_ENV_PATH="env.tar.gz"))


async def test_frames_for_the_model_wait_for_it_and_others_are_taken_at_once(ends: Ends) -> None:
    ends.server.send(frames.pack_json(Kind.HELLO, 1, {"a": 1}))
    worker = ends.connect()
    assert ends.server.queued == 1
    assert worker.next_frame().payload == bytearray(b'{"a": 1}')
    ends.server.send(frames.pack(Kind.CANCEL, 5))
    assert [(frame.kind, frame.id) for frame in ends.worker_frames] == [(Kind.CANCEL, 5)]
    ends.server.send_parcel(Kind.EXECUTE, 2, [entry()])
    frame = worker.next_frame()
    parcel, memory = worker.open_parcel(frame.payload)
    assert (frame.id, parcel.items[0].id, bytes(memory[:3])) == (2, 1, b"abc")


async def test_frames_of_the_worker_are_taken_on_the_loop_in_order(ends: Ends) -> None:
    worker = ends.connect()

    def send() -> None:
        for number in range(100):
            worker.send(frames.pack(Kind.LOG, number))
        worker.send_parcel(Kind.FINAL, 100, [entry()], stamps=(1, 2, 3, 4))

    await asyncio.to_thread(send)
    for _ in range(1000):
        if len(ends.server_frames) == 101:
            break
        await asyncio.sleep(0.001)
    assert [frame.id for frame in ends.server_frames] == list(range(101))
    parcel, _ = ends.server.open_parcel(ends.server_frames[-1].payload)
    assert parcel.stamps == (1, 2, 3, 4)


async def test_a_layout_of_the_workers_is_replaced_by_the_servers_own(ends: Ends) -> None:
    worker = ends.connect()
    sent = entry()
    for _ in range(2):
        worker.send_parcel(Kind.RESPONSE, 0, [sent])
    ends.server.drain()
    first, second = [ends.server.open_parcel(frame.payload)[0].items[0].layout for frame in ends.server_frames]
    assert first is second
    assert first is not sent.layout
    assert first.signature == sent.layout.signature


async def test_a_packed_parcel_of_a_finaliser_is_opened_too(ends: Ends) -> None:
    worker = ends.connect()
    worker.post(parcels.pack(Kind.RESPONSE, 0, [entry(4)]))
    ends.server.drain()
    parcel, _ = ends.server.open_parcel(ends.server_frames[0].payload)
    assert parcel.items[0].id == 4


async def test_after_the_close_nothing_goes_either_way_and_both_say_so(ends: Ends) -> None:
    worker = ends.connect()
    worker.send(frames.pack(Kind.LOG, 1))
    ends.server.close()
    ends.server.close()
    assert ends.ended == ["the server has let go of this instance"]
    ends.server.send(frames.pack(Kind.CANCEL, 1))
    ends.server.send_parcel(Kind.EXECUTE, 2, [entry()])
    ends.server.drain()
    assert (ends.server_frames, ends.worker_frames) == ([], [])
    calls: list[Callable[[], Any]] = [
        worker.next_frame,
        lambda: worker.send(frames.pack(Kind.LOG, 1)),
        lambda: worker.send_parcel(Kind.RESPONSE, 0, [entry()]),
        lambda: worker.expect(worker),
    ]
    for call in calls:
        with pytest.raises(BrokenPipeError, match="let go"):
            call()
    worker.post(frames.pack(Kind.LOG, 1))
    worker.expect_no_more(worker)


async def test_a_worker_that_comes_too_late_is_told_the_end(ends: Ends) -> None:
    ends.server.close()
    worker = ends.connect()
    assert ends.ended == ["the server has let go of this instance"]
    with pytest.raises(BrokenPipeError):
        worker.next_frame()


async def test_a_frame_that_makes_no_sense_ends_the_channel_with_a_reason(ends: Ends) -> None:
    def refuse(frame: Frame) -> None:
        msg = f"frame of unknown kind {frame.kind}"
        raise FrameError(msg)

    worker = ends.connect()
    ends.take = refuse
    worker.send(frames.pack(99, 1))
    ends.server.drain()
    assert ends.server.closed
    assert ends.ended[-1] == "the channel broke: frame of unknown kind 99"
