"""What processes hold is read from /proc, and only growth is complained of."""

from __future__ import annotations

import os
import socket
import subprocess
import threading

import pytest
from soak_footprint import Held, footprint, growth

SOME = Held(files=10, memfds=1, sockets=2, threads=3, rss_mib=100.0)


def own() -> Held:
    return footprint([os.getpid()])[os.getpid()]


def test_descriptors_and_threads_of_a_process_are_counted() -> None:
    before = own()
    release = threading.Event()
    thread = threading.Thread(target=release.wait)
    memory = os.memfd_create("held")
    thread.start()
    try:
        with socket.socket():
            after = own()
    finally:
        release.set()
        thread.join()
        os.close(memory)
    assert after.files - before.files == 2
    assert (after.memfds - before.memfds, after.sockets - before.sockets) == (1, 1)
    assert after.threads - before.threads == 1
    assert after.rss_mib > 1


def test_a_process_that_has_ended_is_left_out() -> None:
    with subprocess.Popen(["true"]) as process:
        process.wait()
    assert footprint([process.pid]) == {}


def test_less_than_before_and_a_little_memory_are_no_growth() -> None:
    assert growth({1: SOME}, {1: Held(9, 0, 1, 2, 110.0)}, rss_limit_mib=32) == []


@pytest.mark.parametrize(
    ("after", "sentence"),
    [
        ({1: Held(11, 1, 2, 3, 100.0)}, "process 1: 10 files before, 11 after"),
        ({1: Held(10, 2, 2, 3, 100.0)}, "process 1: 1 memfds before, 2 after"),
        ({1: Held(10, 1, 3, 3, 100.0)}, "process 1: 2 sockets before, 3 after"),
        ({1: Held(10, 1, 2, 4, 100.0)}, "process 1: 3 threads before, 4 after"),
        ({1: Held(10, 1, 2, 3, 133.0)}, "process 1: 100 MiB resident before, 133 after"),
        ({}, "processes ended: [1]"),
        ({1: SOME, 2: SOME}, "processes were added: [2]"),
    ],
)
def test_growth_is_said(after: dict[int, Held], sentence: str) -> None:
    assert growth({1: SOME}, after, rss_limit_mib=32) == [sentence]
