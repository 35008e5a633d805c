"""Worker processes and their zygote: what is told of a death, in which order, and what a worker's channel carries."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import signal
import socket
import subprocess
import sys
import weakref
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from infer.backends.api.backend import BackendContext
from infer.backends.api.errors import InstanceDied, LoadFailed
from infer.backends.python import process
from infer.backends.python.process import WorkerProcess, Zygote
from infer.backends.python.worker import frames
from infer.backends.python.worker.frames import Frame, Kind

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from infer.backends.python.channel import Channel

LIMIT_S = 10
NAME = "m_0_0"
LABELS = {"model": "m", "version": 1, "instance": NAME}
UNHEALTHY = f"Stub process '{NAME}' is not healthy."
ZYGOTE = (
    sys.executable,
    "-c",
    "import sys; from infer.backends.python.worker.zygote import main; main(int(sys.argv[1]))",
)


class Worker:
    """A WorkerProcess over a real process, whose end of the channel the test holds; the test is its zygote too."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        own, self.peer = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        out, self.out = os.pipe()
        err, self.err = os.pipe()
        self.process: subprocess.Popen[bytes] | None = None
        self.events: list[tuple[str, Any]] = []
        self.lost = asyncio.Event()
        self.worker = WorkerProcess(loop, NAME, LABELS, (own, out, err))
        self.worker.on_loss = self._lost
        self.worker.on_death = lambda reason: self.events.append(("death", reason))
        self.worker.on_frame = self._frame
        self.arrived = asyncio.Event()
        self.sources: list[Channel] = []

    def _lost(self) -> None:
        self.events.append(("loss", None))
        self.lost.set()

    def _frame(self, frame: Frame, source: Channel) -> None:
        self.events.append(("frame", frame.id))
        self.sources.append(source)
        self.arrived.set()

    def start(self, script: str = "read line") -> None:
        """Start the process, which ends at once or waits for its stdin's end, and have it watched."""
        self.process = subprocess.Popen(
            ["/bin/sh", "-c", script], stdin=subprocess.PIPE, stdout=self.out, stderr=self.err
        )
        self.worker.watch(self.process.pid, os.pidfd_open(self.process.pid))

    def finish(self) -> None:
        """Let the process come to its end."""
        assert self.process is not None
        assert self.process.stdin is not None
        self.process.stdin.close()

    async def until_lost(self) -> None:
        """Wait until the process is over."""
        await asyncio.wait_for(self.lost.wait(), LIMIT_S)

    async def death(self) -> str:
        """The reason of its death, once it is told."""
        await asyncio.wait_for(self.worker.gone.wait(), LIMIT_S)
        (reason,) = [what for event, what in self.events if event == "death"]
        return reason

    async def frame(self) -> None:
        """Wait for a frame of the worker."""
        await asyncio.wait_for(self.arrived.wait(), LIMIT_S)
        self.arrived.clear()

    async def close(self) -> None:
        """End what is left."""
        self.worker.kill("the test is over")
        self.worker.ended(-signal.SIGKILL)
        await asyncio.wait_for(self.worker.gone.wait(), LIMIT_S)
        self.peer.close()
        os.close(self.out)
        os.close(self.err)
        if self.process is not None:
            with contextlib.suppress(OSError):
                self.finish()
            self.process.wait(LIMIT_S)


@pytest.fixture
async def one() -> AsyncIterator[Worker]:
    """A worker that is not started yet; afterwards it holds no descriptor."""
    before = psutil.Process().num_fds()
    worker = Worker()
    yield worker
    await worker.close()
    assert psutil.Process().num_fds() == before


# -- how a worker ended -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "sentence"),
    [
        (0, "It ended with exit status 0."),
        (7, "It ended with exit status 7."),
        (-signal.SIGSEGV, "It was killed by signal 11 (SIGSEGV)."),
        (-signal.SIGKILL, "It was killed by signal 9 (SIGKILL); if nobody sent it, the kernel did for want of memory."),
        (-63, "It was killed by signal 63."),
    ],
)
def test_an_exit_status_or_a_signal_becomes_a_sentence(code: int, sentence: str) -> None:
    assert process._ending(code) == sentence


async def test_the_zygotes_word_after_the_death_is_its_reason(one: Worker) -> None:
    one.start("exit 7")
    await one.until_lost()
    assert not one.worker.gone.is_set()
    one.worker.ended(7)
    assert await one.death() == f"{UNHEALTHY} It ended with exit status 7."


async def test_the_zygotes_word_before_the_death_is_kept_for_it(one: Worker) -> None:
    one.start()
    one.worker.ended(-signal.SIGSEGV)
    assert not one.worker.gone.is_set()
    one.finish()
    assert await one.death() == f"{UNHEALTHY} It was killed by signal 11 (SIGSEGV)."


async def test_without_the_zygotes_word_the_death_is_told_all_the_same(
    one: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "ZYGOTE_WORD_S", 0.05)
    one.start("exit 7")
    await one.until_lost()
    lost = asyncio.get_running_loop().time()
    assert await one.death() == UNHEALTHY
    assert asyncio.get_running_loop().time() - lost >= 0.04


async def test_a_word_that_comes_too_late_tells_no_second_death(one: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "ZYGOTE_WORD_S", 0)
    one.start("exit 7")
    await one.death()
    one.worker.ended(7)
    one.worker.kill("It was stopped.")
    assert await one.death() == UNHEALTHY


async def test_the_loss_is_told_before_the_death_and_what_it_has_sent_before_both_are_over(one: Worker) -> None:
    one.start()
    one.peer.send(frames.pack(Kind.RESPONSE, 1))
    one.peer.send(frames.pack(Kind.RESPONSE, 2))
    one.finish()
    await one.until_lost()
    one.worker.ended(0)
    await one.death()
    assert [event for event in one.events if event[0] == "frame"] == [("frame", 1), ("frame", 2)]
    assert [event for event, _ in one.events if event != "frame"] == ["loss", "death"]
    assert one.events[-1][0] == "death"


async def test_the_reason_of_whoever_kills_it_wins_over_the_signal(one: Worker) -> None:
    one.start()
    one.worker.kill("It was stopped.")
    one.worker.kill("and again")
    one.worker.ended(-signal.SIGKILL)
    assert await one.death() == f"{UNHEALTHY} It was stopped."
    assert one.process is not None
    assert one.process.wait(LIMIT_S) == -signal.SIGKILL


async def test_the_last_words_on_stderr_are_quoted(one: Worker) -> None:
    one.start("echo said; echo one >&2; printf two >&2; exit 3")
    await one.until_lost()
    one.worker.ended(3)
    assert await one.death() == f"{UNHEALTHY} It ended with exit status 3. Last words: one | two"


async def test_a_worker_that_was_never_started_is_gone_when_it_is_killed(one: Worker) -> None:
    one.worker.kill("it was not started")
    assert await one.death() == f"{UNHEALTHY} it was not started"
    assert one.worker.channel.closed
    assert not one.lost.is_set()


# -- its channel --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("unread", [False, True], ids=["all is read", "frames are unread"])
async def test_a_worker_that_closes_its_channel_and_runs_on_is_ended_for_that(one: Worker, *, unread: bool) -> None:
    one.start()
    if unread:
        one.worker.channel.send(frames.pack(Kind.RESPONSE, 1))
    one.peer.close()
    await one.until_lost()
    one.worker.ended(-signal.SIGKILL)
    reason = await one.death()
    assert reason.startswith(f"{UNHEALTHY} It closed its channel to the server while it ran on, so the server ended it")
    assert "memory" not in reason


async def test_a_worker_whose_end_closes_its_channel_has_the_reason_of_its_end(one: Worker) -> None:
    one.start("kill -9 $$")
    assert one.process is not None
    await asyncio.to_thread(os.waitid, os.P_PID, one.process.pid, os.WEXITED | os.WNOWAIT)
    one.worker._broken("the worker closed its channel")
    await one.until_lost()
    one.worker.ended(-signal.SIGKILL)
    assert "It was killed by signal 9 (SIGKILL); if nobody sent it, the kernel did" in await one.death()


def test_a_process_that_is_gone_is_ending_and_one_that_runs_is_not() -> None:
    assert not process._is_ending(os.getpid())
    gone = subprocess.Popen(["/bin/true"])
    gone.wait(LIMIT_S)
    assert process._is_ending(gone.pid)


async def test_a_worker_that_breaks_the_format_is_ended_with_what_it_broke(one: Worker) -> None:
    one.start()
    one.peer.send(b"short")
    assert await one.death() == f"{UNHEALTHY} the channel broke: packet of 5 bytes is shorter than a header"


async def test_a_fork_gets_a_channel_of_its_own_that_ends_with_it(one: Worker) -> None:
    one.start()
    fork, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with fork, other:
        hello = frames.pack_json(Kind.HELLO, 5, {}, descriptors=1)
        one.peer.sendmsg([hello], frames.rights([other.fileno()]))
        other.close()
        fork.send(frames.pack(Kind.CALL, 1))
        await one.frame()
        one.peer.send(frames.pack(Kind.CALL, 2))
        await one.frame()
        first, second = one.sources
        assert first is not one.worker.channel
        assert second is one.worker.channel
        first.send(frames.pack(Kind.CALL_REPLY, 1))
        received = await asyncio.to_thread(fork.recv, 100)
        assert received == frames.pack(Kind.CALL_REPLY, 1)
    first.drain()
    assert first.closed
    assert not one.worker.gone.is_set()
    held = weakref.ref(first)
    del first
    one.sources.clear()
    gc.collect()
    assert held() is None, "the worker holds the channel of a fork that has ended"


async def test_the_channels_of_its_forks_are_closed_with_it(one: Worker) -> None:
    one.start()
    fork, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with fork, other:
        one.peer.sendmsg([frames.pack_json(Kind.HELLO, 5, {}, descriptors=1)], frames.rights([other.fileno()]))
        other.close()
        fork.send(frames.pack(Kind.CALL, 1))
        await one.frame()
        one.worker.kill("It was stopped.")
        await one.death()
        assert one.sources[0].closed
        assert fork.recv(100) == b""


async def test_lines_of_its_logger_keep_their_level_and_their_place(
    one: Worker, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "infer.model")
    for level in ("INFO", "WARNING", "ERROR", "VERBOSE"):
        content = {"level": level, "message": f"100 % {level}", "path": "/models/m/1/model.py", "line": 12}
        one.peer.send(frames.pack_json(Kind.LOG, 0, content))
    one.peer.send(frames.pack(Kind.RESPONSE, 1))
    await one.frame()
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("INFO", "100 % INFO"),
        ("WARNING", "100 % WARNING"),
        ("ERROR", "100 % ERROR"),
    ]
    record = caplog.records[0]
    assert (record.pathname, record.lineno, record.__dict__["instance"]) == ("/models/m/1/model.py", 12, NAME)


async def test_what_it_prints_is_in_the_log_with_its_name(one: Worker, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "infer.model")
    one.start("echo to stdout; echo to stderr >&2")
    await one.until_lost()
    one.worker.ended(0)
    await one.death()
    assert {(record.levelname, record.getMessage()) for record in caplog.records} == {
        ("INFO", f"{NAME}: to stdout"),
        ("WARNING", f"{NAME}: to stderr"),
    }


# -- the zygote ---------------------------------------------------------------------------------------------------


class NoCalls:
    """A caller of which no worker here makes use."""

    def call(self, request: Any, on_response: Any, *, single: bool = False) -> Any:
        """Refuse it."""
        raise AssertionError


def context(command: tuple[str, ...]) -> BackendContext:
    loop = asyncio.get_running_loop()

    def run_blocking(function: Callable[..., Any], /, *args: Any) -> Any:
        return loop.run_in_executor(None, function, *args)

    return BackendContext(loop, run_blocking, NoCalls(), {}, command)


@pytest.fixture
async def zygote() -> AsyncIterator[Zygote]:
    """A real zygote, started when it is first needed; nothing of it is left."""
    before = psutil.Process().children(recursive=True)
    zygote = Zygote(context(ZYGOTE))
    yield zygote
    await asyncio.wait_for(zygote.stop(), LIMIT_S)
    assert zygote.pid == 0
    assert psutil.Process().children(recursive=True) == before


async def spawn(zygote: Zygote) -> tuple[WorkerProcess, asyncio.Future[str]]:
    """A worker, and the reason of its death."""
    worker = await asyncio.wait_for(zygote.spawn(NAME, LABELS), LIMIT_S)
    reason: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    worker.on_death = reason.set_result
    return worker, reason


async def test_the_zygote_says_how_each_of_its_workers_ended(zygote: Zygote) -> None:
    (killed, first), (finished, second) = await spawn(zygote), await spawn(zygote)
    assert killed.pid != finished.pid
    os.kill(killed.pid, signal.SIGKILL)
    assert "It was killed by signal 9 (SIGKILL)" in await asyncio.wait_for(first, LIMIT_S)
    finished.channel.send(frames.pack_json(Kind.HELLO, 0, {"protocol": -1}))
    assert await asyncio.wait_for(second, LIMIT_S) == f"{UNHEALTHY} It ended with exit status 0."


async def test_a_zygote_that_is_killed_takes_its_workers_along_and_another_takes_its_place(zygote: Zygote) -> None:
    _, reason = await spawn(zygote)
    killed = zygote.pid
    os.kill(killed, signal.SIGKILL)
    assert (await asyncio.wait_for(reason, LIMIT_S)).startswith(UNHEALTHY)
    worker, reason = await spawn(zygote)
    assert zygote.pid != killed
    worker.kill("It was stopped.")
    assert await asyncio.wait_for(reason, LIMIT_S) == f"{UNHEALTHY} It was stopped."


async def test_a_zygote_that_cannot_be_started_is_named_with_its_command() -> None:
    zygote = Zygote(context(("/does/not/exist",)))
    with pytest.raises(LoadFailed, match=r"cannot start the worker zygote with \['/does/not/exist', '\d+'\]"):
        await zygote.spawn(NAME, LABELS)
    await zygote.stop()


async def test_a_zygote_that_dies_while_it_spawns_fails_the_spawn(caplog: pytest.LogCaptureFixture) -> None:
    zygote = Zygote(context((sys.executable, "-c", "pass")))
    with pytest.raises(InstanceDied, match="the worker zygote died while it spawned a worker"):
        await asyncio.wait_for(zygote.spawn(NAME, LABELS), LIMIT_S)
    assert "it is started again when it is next needed" in caplog.text
    await zygote.stop()
