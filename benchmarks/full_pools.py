"""The command ``infer`` with thread pools that have all of their threads from the beginning; started by the soaks.

A pool starts a thread where work comes and none is idle, up to its bound. When that happens depends on how loads
overlap, so that a server's number of threads would still grow within its bounds after a warm-up of any length. With
full pools every thread that is added later is one that somebody has left behind.
"""

from __future__ import annotations

import concurrent.futures
import runpy
import threading
from concurrent.futures.thread import ThreadPoolExecutor


class FullPool(ThreadPoolExecutor):
    """A thread pool that is full when it is made."""

    def __init__(self, max_workers: int | None = None, thread_name_prefix: str = "") -> None:
        super().__init__(max_workers, thread_name_prefix)
        together = threading.Barrier(self._max_workers)
        # Nobody passes before all are there, so each waits in a thread of its own.
        list(self.map(lambda _: together.wait(), range(self._max_workers)))


if __name__ == "__main__":
    # Before any module of the server takes the class for itself.
    vars(concurrent.futures)["ThreadPoolExecutor"] = FullPool
    runpy.run_module("infer", run_name="__main__", alter_sys=True)
