"""Zygotes for tests that are forked from a process which has imported what they need.

An interpreter that imports numpy is most of what a test of the Python backend costs; hundreds of tests have a zygote
of their own. Tests of zygotes, environments and whole servers show that one comes up by its command.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import subprocess
import sys
import threading
from typing import Any

import psutil

from infer.backends.python.process import _BLAS_OFF, _KEEP_MEMORY

PROGRAM = """
import os, signal, socket, sys
from infer.backends.python.worker import zygote
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
orders = socket.socket(fileno=int(sys.argv[1]))
while True:
    word, descriptors, *_ = socket.recv_fds(orders, 1, 1)
    if not word:
        break
    child = os.fork()
    if child == 0:
        orders.close()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        sys.exit(zygote.main(descriptors[0]))
    os.close(descriptors[0])
    orders.sendall(child.to_bytes(4, "big"))
"""


class ForkedZygote:
    """What a backend needs of the process that it has started."""

    def __init__(self, pid: int) -> None:
        self.pid = pid

    def wait(self) -> int:
        """Until it is over."""
        with contextlib.suppress(ProcessLookupError):
            pidfd = os.pidfd_open(self.pid)
            try:
                select.select([pidfd], [], [])
            finally:
                os.close(pidfd)
        return 0


class Nursery:
    """The process that zygotes are forked from."""

    def __init__(self) -> None:
        self._orders, theirs = socket.socketpair()
        self._one = threading.Lock()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-c", PROGRAM, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                env={**_KEEP_MEMORY, **os.environ, **_BLAS_OFF},
            )

    def fork(self, descriptor: int) -> Any:
        """A zygote on this end of a channel."""
        with self._one:
            socket.send_fds(self._orders, [b"z"], [descriptor])
            return ForkedZygote(int.from_bytes(self._orders.recv(4), "big"))

    def close(self) -> None:
        """End it; no zygote of it is left."""
        assert psutil.Process(self._process.pid).children() == []
        self._orders.close()
        assert self._process.wait(20) == 0
