"""The server's view of the zygote and of worker processes: spawning, output, death, the end."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import signal
import socket
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..api.errors import InstanceDied, LoadFailed
from .channel import CLOSED, Channel
from .output import OutputReader, log_line, log_output
from .worker import frames
from .worker.frames import Frame, Kind

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..api.backend import BackendContext
    from .environments.environment import Environment

_log = logging.getLogger("infer.python")
# A model makes and drops arrays of the same few sizes for every request. glibc would return each to the kernel and take
# it back page by page; so it keeps up to 64 MiB and maps only what is larger than 32 MiB.
_KEEP_MEMORY = {"MALLOC_TRIM_THRESHOLD_": str(64 << 20), "MALLOC_MMAP_THRESHOLD_": str(32 << 20)}
_BLAS_OFF = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
_TAIL_BYTES = 2000
_CLOSED_ALIVE = (
    "It closed its channel to the server while it ran on, so the server ended it: "
    "does the model close descriptors that are not its own?"
)
_STAT_FLAGS = 6
"""Which of the fields behind a process's name in /proc/PID/stat holds its flags."""
_PF_EXITING = 0x4
"""From Linux's sched.h."""
ZYGOTE_WORD_S = 0.2
"""How long the zygote may take to say how a worker ended."""


class WorkerProcess:
    """One worker.

    ``on_frame(frame, channel)`` gets its frames, ``on_loss()`` is called when it takes nothing more, and
    ``on_death(reason)`` once when it is gone and it is known how.
    """

    killable = True

    def __init__(
        self, loop: asyncio.AbstractEventLoop, name: str, labels: dict[str, Any], ends: tuple[socket.socket, int, int]
    ) -> None:
        self.name = name
        self.pid = 0
        self.on_frame: Callable[[Frame, Channel], None] = _ignore
        self.on_loss: Callable[[], None] = _ignore
        self.on_death: Callable[[str], None] = _ignore
        self.lost = False
        """Whether the process is over, though how may not be known yet."""
        self.gone = asyncio.Event()
        self._loop = loop
        self._labels = labels
        self._pidfd = -1
        self._forks: set[Channel] = set()
        self._reason = ""
        self._burial: asyncio.TimerHandle | None = None
        sock, out, err = ends
        self.channel = Channel(loop, sock, lambda frame: self._route(frame, self.channel), self._broken)
        self._out = OutputReader(loop, out, lambda line: log_output(logging.INFO, name, line, labels))
        self._err = OutputReader(loop, err, lambda line: log_output(logging.WARNING, name, line, labels))

    def watch(self, pid: int, pidfd: int) -> None:
        """The zygote has forked it."""
        self.pid = pid
        self._pidfd = pidfd
        self._loop.add_reader(pidfd, self._died)

    def kill(self, reason: str) -> None:
        """End it by force; ``on_death`` follows."""
        self._reason = self._reason or reason
        if self._pidfd >= 0:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
        elif not self.gone.is_set() and self._burial is None:
            self._bury()

    def _adopt_fork(self, frame: Frame) -> None:
        """A fork of the model asks for a channel of its own."""
        sock = socket.socket(fileno=frame.descriptors.pop(0))
        for descriptor in frame.descriptors:
            os.close(descriptor)

        def ended(_: str) -> None:
            self._forks.discard(channel)

        channel = Channel(self._loop, sock, lambda sent: self._route(sent, channel), ended)
        self._forks.add(channel)

    @property
    def last_words(self) -> str:
        """The last lines of its stderr, in one."""
        return " | ".join(self._err.tail)[-_TAIL_BYTES:]

    def _route(self, frame: Frame, source: Channel) -> None:
        if frame.kind == Kind.HELLO and frame.descriptors:
            self._adopt_fork(frame)
        elif frame.kind == Kind.LOG:
            log_line(json.loads(frame.payload), self._labels)
        else:
            self.on_frame(frame, source)

    def _broken(self, reason: str) -> None:
        """The channel is over. A process that still runs has nothing left to do."""
        if self._pidfd >= 0:
            if reason == CLOSED:
                # The end of a process closes it too: then the zygote says what that end was.
                reason = "" if _is_ending(self.pid) else _CLOSED_ALIVE
            self.kill(reason)

    def ended(self, code: int) -> None:
        """The zygote has reaped it: an exit status, or the negative number of the signal that killed it."""
        self._reason = self._reason or _ending(code)
        if self._burial is not None:
            self._bury()

    def _died(self) -> None:
        """The process is over. How it ended the zygote says in a moment; without its word this goes on all the same."""
        self._forget_pidfd()
        self.lost = True
        self.on_loss()
        if self._reason:
            self._bury()
        elif self._burial is None:
            self._burial = self._loop.call_later(ZYGOTE_WORD_S, self._bury)

    def _forget_pidfd(self) -> None:
        pidfd, self._pidfd = self._pidfd, -1
        if pidfd >= 0:
            self._loop.remove_reader(pidfd)
            os.close(pidfd)

    def _bury(self) -> None:
        if self._burial is not None:
            self._burial.cancel()
        self.channel.drain()
        self.channel.close()
        for channel in list(self._forks):
            channel.close()
        self._forks.clear()
        self._out.close()
        self._err.close()
        if not self.gone.is_set():
            self.gone.set()
            words = self.last_words
            reason = f"Stub process '{self.name}' is not healthy."
            reason += f" {self._reason}" if self._reason else ""
            self.on_death(f"{reason} Last words: {words}" if words else reason)


def _is_ending(pid: int) -> bool:
    """Whether a process is on its way out or gone, whatever for: nothing that is sent to it changes that."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return True
    return bool(int(fields[_STAT_FLAGS]) & _PF_EXITING)


def _ending(code: int) -> str:
    """How a process ended, as a sentence."""
    if code >= 0:
        return f"It ended with exit status {code}."
    try:
        name = f" ({signal.Signals(-code).name})"
    except ValueError:
        name = ""
    hint = "; if nobody sent it, the kernel did for want of memory" if code == -signal.SIGKILL else ""
    return f"It was killed by signal {-code}{name}{hint}."


class Zygote:
    """Starts the zygote when it is first needed, again when it has died, and spawns workers from it.

    With an ``environment`` it is a process of that environment's interpreter, begun by ``command``.
    """

    def __init__(
        self, context: BackendContext, environment: Environment | None = None, command: tuple[str, ...] = ()
    ) -> None:
        self._context = context
        self._environment = environment
        self._own_command = command
        self._loop = context.loop
        self._channel: Channel | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._starting = asyncio.Lock()
        self._spawns: dict[int, asyncio.Future[tuple[int, int]]] = {}
        self._workers: dict[int, WorkerProcess] = {}
        self._last_id = 0

    @property
    def pid(self) -> int:
        """Its process id, 0 while there is none."""
        return self._process.pid if self._process is not None else 0

    async def spawn(self, name: str, labels: dict[str, Any], *, memory_limit: int = 0) -> WorkerProcess:
        """A new worker, which may allocate ``memory_limit`` bytes (0: any). Raises LoadFailed where none can be had."""
        channel = await self._ensure()
        surroundings = _surroundings(name, self._environment)
        surroundings["memory_limit"] = memory_limit
        try:
            worker, ends = self._worker(name, labels)
        except OSError as exc:
            msg = f"cannot make the channel of '{name}': {exc}"
            raise LoadFailed(msg) from exc
        self._last_id += 1
        spawn_id = self._last_id
        future: asyncio.Future[tuple[int, int]] = self._loop.create_future()
        self._spawns[spawn_id] = future
        self._workers[spawn_id] = worker
        channel.send(frames.pack_json(Kind.SPAWN, spawn_id, surroundings, descriptors=len(ends)), ends)
        try:
            worker.watch(*await future)
        except BaseException:
            self._workers.pop(spawn_id, None)
            worker.kill("it was not started")
            raise
        finally:
            self._spawns.pop(spawn_id, None)
        return worker

    async def stop(self) -> None:
        """End it, and with it every worker that is left."""
        async with self._starting:
            if self._channel is not None:
                self._channel.close()
                self._channel = None
            process, self._process = self._process, None
            if process is not None:
                await self._context.run_blocking(process.wait)

    def _worker(self, name: str, labels: dict[str, Any]) -> tuple[WorkerProcess, list[int]]:
        """A worker's ends here, and the descriptors of those that it gets: channel, stdout, stderr."""
        own, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            out_read, out_write = os.pipe()
            err_read, err_write = os.pipe()
        except OSError:
            own.close()
            other.close()
            raise
        worker = WorkerProcess(self._loop, name, labels, (own, out_read, err_read))
        return worker, [other.detach(), out_write, err_write]

    async def _ensure(self) -> Channel:
        async with self._starting:
            if self._channel is not None:
                return self._channel
            if self._process is not None:
                await self._context.run_blocking(self._process.wait)
            own, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            try:
                with other:
                    self._process = await self._context.run_blocking(self._execute, other.fileno())
            except BaseException:
                own.close()
                raise
            self._channel = Channel(self._loop, own, self._on_frame, self._on_end)
            return self._channel

    def _execute(self, descriptor: int) -> subprocess.Popen[bytes]:
        command = [*(self._own_command or self._context.worker_command), str(descriptor)]
        variables = os.environ
        if self._environment is not None:
            variables = self._environment.activated(os.environ, libraries=True)
        environment = {**_KEEP_MEMORY, **variables, **_BLAS_OFF}
        try:
            return subprocess.Popen(  # noqa: S603  our own command line
                command, stdin=subprocess.DEVNULL, pass_fds=(descriptor,), env=environment
            )
        except OSError as exc:
            msg = f"cannot start the worker zygote with {command}: {exc}"
            raise LoadFailed(msg) from exc

    def _on_frame(self, frame: Frame) -> None:
        content = json.loads(frame.payload)
        if "ended" in content:
            worker = self._workers.pop(frame.id, None)
            if worker is not None:
                worker.ended(content["ended"])
            return
        future = self._spawns.get(frame.id)
        if future is None or future.done():
            for descriptor in frame.descriptors:
                os.close(descriptor)
        elif "pid" in content:
            future.set_result((content["pid"], frame.descriptors[0]))
        else:
            future.set_exception(LoadFailed(content["error"]))

    def _on_end(self, _: str) -> None:
        _log.error("the worker zygote (pid %d) has died; it is started again when it is next needed", self.pid)
        self._channel = None
        self._workers.clear()
        for future in self._spawns.values():
            if not future.done():
                future.set_exception(InstanceDied("the worker zygote died while it spawned a worker"))


def _surroundings(name: str, environment: Environment | None) -> dict[str, Any]:
    """What a worker takes over from the server as it is now. Raises LoadFailed without a working directory."""
    variables = dict(os.environ) if environment is None else environment.activated(os.environ)
    try:
        return {"name": name, "env": variables, "cwd": str(Path.cwd())}
    except OSError as exc:
        msg = f"the server's working directory is gone: {exc}"
        raise LoadFailed(msg) from exc


def _ignore(*_: object) -> None:
    return
