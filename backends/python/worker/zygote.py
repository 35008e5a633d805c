"""The zygote: a small process with numpy imported that forks a worker for every model instance.

It is exec'd, never forked, so nothing of the server lives in it, and it has one thread, so forking it is safe. It
says who it spawned with a pidfd, which is how the server learns of deaths, and it reaps. When the server goes, its end
of the socket closes, and the zygote takes its workers with it; when the zygote goes, the kernel does.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import json
import os
import random
import resource
import select
import signal
import socket
import sys
import traceback
from typing import Any, NoReturn

import numpy as np
import numpy.random  # pyright: ignore[reportUnusedImport]  shared by all workers

from . import frames, serving
from .border import exit_status, exit_words
from .frames import Frame, FrameError, Kind

THREAD_VARIABLES = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
_PR_SET_PDEATHSIG = 1
_PR_SET_NAME = 15
_PIDFD_OPEN = 434
"""The number of the system call, the same on every architecture."""
_BLAS_SETTERS = (
    "scipy_openblas_set_num_threads64_",
    "scipy_openblas_set_num_threads",
    "openblas_set_num_threads64_",
    "openblas_set_num_threads",
)


class Zygote:
    """Takes SPAWN frames, forks, reaps."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._memory = memoryview(bytearray(frames.MAX_PACKET))
        self._poll = select.poll()
        self._poll.register(sock, select.POLLIN)
        self._children: dict[int, tuple[int, int]] = {}  # pidfd → pid, id of the spawn
        self._libc = ctypes.CDLL(None, use_errno=True)

    def run(self) -> None:
        """Serve until the server's end of the socket closes."""
        while True:
            for descriptor, _ in self._poll.poll():
                if descriptor != self._sock.fileno():
                    self._reap(descriptor)
                    continue
                frame = self._receive()
                if frame is None:
                    for pidfd in list(self._children):
                        self._reap(pidfd)
                    return
                self._spawn(frame)

    def _receive(self) -> Frame | None:
        try:
            return frames.receive(self._sock, self._memory)
        except (FrameError, OSError) as exc:
            sys.stderr.write(f"infer worker zygote: {exc}\n")
            return None

    def _spawn(self, frame: Frame) -> None:
        parent = os.getpid()
        try:
            pid = os.fork()
        except OSError as exc:
            self._sock.send(frames.pack_json(Kind.STATE, frame.id, {"error": f"cannot fork a worker: {exc}"}))
            return
        finally:
            if os.getpid() == parent:
                for descriptor in frame.descriptors:
                    os.close(descriptor)
        if pid == 0:
            self._become_worker(frame, parent)
        with contextlib.suppress(OSError):
            os.setpgid(pid, pid)
        pidfd = self._open_pidfd(pid)
        self._children[pidfd] = (pid, frame.id)
        self._poll.register(pidfd, select.POLLIN)
        reply = frames.pack_json(Kind.STATE, frame.id, {"pid": pid}, descriptors=1)
        with contextlib.suppress(OSError):
            self._sock.sendmsg([reply], frames.rights([pidfd]))

    def _open_pidfd(self, pid: int) -> int:
        """``os.pidfd_open``, which Python 3.8 does not have."""
        pidfd = self._libc.syscall(_PIDFD_OPEN, pid, 0)
        if pidfd < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        return pidfd

    def _reap(self, pidfd: int) -> None:
        pid, spawn_id = self._children.pop(pidfd)
        self._poll.unregister(pidfd)
        # Whatever the model has forked goes too. The group's number is safe to use until its leader is reaped.
        with contextlib.suppress(OSError):
            os.killpg(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        os.close(pidfd)
        code = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
        with contextlib.suppress(OSError):
            self._sock.send(frames.pack_json(Kind.STATE, spawn_id, {"ended": code}))

    def _become_worker(self, frame: Frame, parent: int) -> NoReturn:
        status = 1
        try:
            gc.enable()
            spawn: dict[str, Any] = json.loads(frame.payload)
            self._libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
            if os.getppid() != parent:
                os._exit(1)
            os.setpgid(0, 0)
            self._libc.prctl(_PR_SET_NAME, f"infer:{spawn['name']}".encode()[:15], 0, 0, 0)
            sock = _take_descriptors(frame.descriptors)
            _settle(spawn)
            serving.main(sock)
            status = 0
        except SystemExit as exc:
            status = exit_status(exc)
            sys.stderr.write(exit_words(exc) + "\n")
        except BaseException:  # noqa: BLE001  the last border: the traceback is the reason of death
            traceback.print_exc()
        finally:
            with contextlib.suppress(OSError, ValueError):
                sys.stderr.flush()
            os._exit(status)


def _take_descriptors(descriptors: list[int]) -> socket.socket:
    """Make the frame's descriptors channel, stdout and stderr, and close every other one."""
    channel, out, err = descriptors
    null = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((null, 0), (out, 1), (err, 2)):
        os.dup2(source, target)
    for name in os.listdir("/proc/self/fd"):
        number = int(name)
        if number > 2 and number != channel:  # noqa: PLR2004  the standard ones
            with contextlib.suppress(OSError):
                os.close(number)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True)  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
    return socket.socket(fileno=channel)


def _settle(spawn: dict[str, Any]) -> None:
    """Environment, folder, signals, seeds and threads of a worker."""
    os.environ.clear()
    os.environ.update(spawn["env"])
    os.chdir(spawn["cwd"])
    sys.argv = sys.argv[:1]
    limit = spawn.get("memory_limit", 0)
    if limit:
        # What the process allocates for itself; slabs are shared mappings and bounded where they are made.
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # A handler, not SIG_IGN, which the model's own child programs would inherit.
        signal.signal(number, _swallow)
    random.seed()
    np.random.seed()  # noqa: NPY002  models use it
    _set_blas_threads()


def _swallow(number: int, frame: object) -> None:
    """What a worker does about a signal to its whole group: nothing, the server ends it in order."""


def _set_blas_threads() -> None:
    """As many BLAS threads as the environment says, else one per usable core: the zygote itself has one."""
    wanted = next((os.environ[name] for name in THREAD_VARIABLES if os.environ.get(name, "").isdigit()), "")
    count = int(wanted) if wanted else len(os.sched_getaffinity(0))
    if count <= 1:
        return
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
        libraries = {line.split(None, 5)[5].strip() for line in maps if "openblas" in line}
    for path in libraries:
        library = ctypes.CDLL(path)
        for name in _BLAS_SETTERS:
            setter = getattr(library, name, None)
            if setter is not None:
                setter(count)
                break


def main(descriptor: int) -> int:
    """Be the zygote on a socket descriptor until the other end closes."""
    with contextlib.suppress(OSError):
        os.setsid()
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    program = os.path.dirname(os.path.realpath(sys.argv[0])) if sys.argv and sys.argv[0] else ""
    if sys.path and sys.path[0] in ("", program):
        # The folder of the command is not a place for models to import from.
        del sys.path[0]
    sock = socket.socket(fileno=descriptor)
    os.set_inheritable(descriptor, False)  # noqa: FBT003  positional only
    gc.disable()
    gc.collect()
    gc.freeze()
    Zygote(sock).run()
    return 0
