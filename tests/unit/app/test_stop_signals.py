"""A stop signal is never lost, whichever thread it reaches and whenever it comes."""

from __future__ import annotations

import subprocess
import sys

import pytest

SCRIPT = """
import os, signal, sys, threading
from infer.app.stop_signals import StopRequested, StopSignals

signals = StopSignals()
main = threading.main_thread().native_id

def asleep():
    with open(f"/proc/self/task/{main}/stat") as stat:
        return stat.read().rsplit(")", 1)[1].split()[0] == "S"

def another_thread_gets_it():
    while not asleep():
        pass
    signal.pthread_kill(threading.get_ident(), signal.SIGTERM)

case = sys.argv[1]
if case == "waiting":
    threading.Thread(target=another_thread_gets_it).start()
    print(signals.wait().name)
elif case == "before":
    os.kill(os.getpid(), signal.SIGINT)
    os.kill(os.getpid(), signal.SIGTERM)
    print(signals.wait().name, signals.wait().name)
else:
    if case == "kept":
        os.kill(os.getpid(), signal.SIGTERM)
    try:
        with signals.raising():
            if case == "swallowed":
                try:
                    os.kill(os.getpid(), signal.SIGTERM)
                except StopRequested:
                    print("went on", end=" ")
            elif case == "handled":
                try:
                    os.kill(os.getpid(), signal.SIGTERM)
                except Exception:
                    print("taken for a failure", end=" ")
            else:
                os.kill(os.getpid(), signal.SIGTERM)
                print("not raised", end=" ")
    except StopRequested as request:
        os.kill(os.getpid(), signal.SIGINT)
        print("raised", request)
"""


@pytest.mark.parametrize(
    ("case", "said"),
    [
        ("waiting", "SIGTERM"),
        ("before", "SIGINT SIGTERM"),
        ("raised", "raised SIGTERM"),
        ("kept", "raised SIGTERM"),
        ("handled", "raised SIGTERM"),
        ("swallowed", "went on raised SIGTERM"),
    ],
)
def test_it_is_seen(case: str, said: str) -> None:
    run = subprocess.run([sys.executable, "-c", SCRIPT, case], capture_output=True, text=True, timeout=20, check=False)
    assert (run.stdout.strip(), run.stderr) == (said, "")
