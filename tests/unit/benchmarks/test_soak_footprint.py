"""What processes hold is read from /proc, and only growth is complained of."""

from __future__ import annotations

import mmap
import os
import socket
import subprocess
import threading
from dataclasses import replace
from typing import Any

import psutil
import pytest
from soak_footprint import GENERATIONS, Held, Kin, footprint, growth, kin, kin_growth

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


def test_a_memfd_counts_while_it_is_mapped_though_its_descriptor_is_closed() -> None:
    before = own()
    descriptor = os.memfd_create("held")
    os.ftruncate(descriptor, 4096)
    with mmap.mmap(descriptor, 4096):
        os.close(descriptor)
        after = own()
    assert after.memfds - before.memfds == 1
    assert own().memfds == before.memfds


def test_processes_are_counted_by_generation_and_those_far_below_as_workers() -> None:
    # A shell whose child's child sleeps: server, helper, worker; and one more generation that counts as a worker.
    script = 'sh -c \'sh -c "sh -c \\"echo ready; read end\\"; :"; :\'; :'
    with subprocess.Popen(["sh", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        tree = [process.pid, *(child.pid for child in psutil.Process(process.pid).children(recursive=True))]
        found = kin(tree)
        process.communicate(b"\n")
    assert [found[name].processes for name in GENERATIONS] == [1, 1, 2]
    assert found["server"].files == 3
    assert found["workers"].rss_mib > found["server"].rss_mib


def test_less_of_a_generation_and_a_little_more_memory_are_no_growth() -> None:
    had, has = Kin(2, 10, 1, 2, 6, 100.0), Kin(1, 9, 0, 1, 5, 104.9)
    assert kin_growth({"workers": had}, {"workers": has}, rss_share=0.05) == []


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"processes": 3}, "workers: 2 processes before, 3 after"),
        ({"files": 11}, "workers: 10 files before, 11 after"),
        ({"memfds": 2}, "workers: 1 memfds before, 2 after"),
        ({"sockets": 3}, "workers: 2 sockets before, 3 after"),
        ({"threads": 7}, "workers: 6 threads before, 7 after"),
        ({"rss_mib": 105.1}, "workers: 100.0 MiB resident before, 105.1 after"),
    ],
)
def test_growth_of_a_generation_is_said(change: dict[str, Any], sentence: str) -> None:
    had = Kin(2, 10, 1, 2, 6, 100.0)
    assert kin_growth({"workers": had}, {"workers": replace(had, **change)}, rss_share=0.05) == [sentence]
