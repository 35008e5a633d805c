"""What users are told of worker processes: who they are, what holds a load up, what memory they have, how they end."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import psutil
import pytest

from infer.backends.api.backend import BackendContext, InstanceSpec, InstanceState
from infer.backends.api.errors import BackendFailure, Code, InvalidArgument, LoadFailed
from infer.backends.api.model_config import InstanceKind
from infer.backends.python import waiting
from infer.backends.python.backend import PythonBackend
from infer.backends.python.worker import triton_python_backend_utils

if TYPE_CHECKING:
    from collections.abc import Callable

    Rig = Any

CWD = str(Path.cwd())
UTILITIES = str(Path(triton_python_backend_utils.__file__).parent)
MIB = 1 << 20
LIMIT_S = 20
ALLOCATE = """
class TritonPythonModel:
    def execute(self, requests):
        sizes = [int(by_name(request, "IN").as_numpy()[0]) for request in requests]
        kept = [np.ones(size, np.uint8) for size in sizes]
        return [Response([T("OUT", np.array([each.size], np.int32))]) for each in kept]
"""
PLAIN = """
class TritonPythonModel:
    def execute(self, requests):
        return [Response([T("OUT", np.zeros(1, np.int32))]) for _ in requests]
"""


def ints(*values: int) -> np.ndarray[Any, Any]:
    return np.array(values, dtype=np.int32)


def touch(path: Path) -> None:
    path.touch()


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[waiting.Waiting]:
    """The waits for workers that began, the latest last."""
    begun: list[waiting.Waiting] = []
    enter = waiting.Waiting.__aenter__

    async def entered(self: waiting.Waiting) -> waiting.Waiting:
        begun.append(self)
        return await enter(self)

    monkeypatch.setattr(waiting.Waiting, "__aenter__", entered)
    return begun


async def over_once(waits: list[waiting.Waiting], phase: str, words: str) -> None:
    """Let the time of a wait be up as soon as the worker is in this phase and has said so."""
    while not waits or waits[-1].phase != phase or words not in waits[-1].last_words():  # noqa: ASYNC110  tells nobody
        await asyncio.sleep(0.01)
    left = waits[-1]._scope.when() - asyncio.get_running_loop().time()
    assert 0 < left <= LIMIT_S
    waits[-1]._scope.reschedule(0)


def bounded(rig: Rig, seconds: float) -> None:
    """Give every step of a load so long."""
    old = rig.backend.context
    context = BackendContext(
        old.loop, old.run_blocking, old.caller, old.options, old.worker_command, load_timeout_s=seconds
    )
    rig.backend = PythonBackend(context)


# -- time-outs ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "phase"),
    [
        ("print('about to hang', file=sys.stderr); threading.Event().wait()", "importing its model file"),
        (
            """
class TritonPythonModel:
    def initialize(self, args):
        print('about to hang', file=sys.stderr)
        threading.Event().wait()
""",
            "in initialize",
        ),
    ],
)
async def test_a_load_that_hangs_is_ended_in_time_with_the_phase_and_the_last_words(
    rig: Rig, waits: list[waiting.Waiting], source: str, phase: str
) -> None:
    bounded(rig, LIMIT_S)
    loading = asyncio.ensure_future(rig.load("hangs", source))
    await over_once(waits, phase, "about to hang")
    with pytest.raises(LoadFailed) as raised:
        await loading
    sentence = f"instance 'hangs_0_0' was not ready within {LIMIT_S} s (--model-load-timeout); it was {phase}."
    assert str(raised.value) == f"{sentence} Last words: about to hang"
    assert rig.instances[-1].pid == 0


async def test_an_auto_completion_that_hangs_is_ended_in_time(rig: Rig, waits: list[waiting.Waiting]) -> None:
    bounded(rig, LIMIT_S)
    source = """
class TritonPythonModel:
    @staticmethod
    def auto_complete_config(config):
        threading.Event().wait()
"""
    completing = asyncio.ensure_future(rig.backend.auto_complete(rig.config("auto"), rig.write("auto", source)))
    await over_once(waits, "in auto_complete_config", "")
    with pytest.raises(LoadFailed, match=r"model 'auto' version 1 was not .* it was in auto_complete_config$"):
        await completing
    await rig.backend.stop()


async def test_a_load_that_takes_long_is_told_with_its_phase_while_it_lasts(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(waiting, "FIRST_NOTICE_S", 0.01)
    source = """
class TritonPythonModel:
    def initialize(self, args):
        while not os.path.exists(os.path.join(args["model_repository"], "go")):
            time.sleep(0.01)
    def execute(self, requests): ...
"""
    files = rig.write("slow", source)
    loading = asyncio.ensure_future(rig.load("slow", source))
    while "it is in initialize" not in caplog.text:  # noqa: ASYNC110  the log tells nobody
        await asyncio.sleep(0.01)
    assert "instance 'slow_0_0' is not ready after" in caplog.text
    touch(files.model_dir / "go")
    instance = await loading
    assert instance.pid


# -- memory -------------------------------------------------------------------------------------------------------


async def test_a_worker_that_wants_more_than_its_limit_answers_with_an_error_and_lives_on(rig: Rig) -> None:
    limit = {"WORKER_MEMORY_LIMIT_BYTES": {"string_value": str(600 * MIB)}}
    instance = await rig.load("bounded", ALLOCATE, parameters=limit)
    pid = instance.pid
    error = await rig.error(instance, IN=ints(1000 * MIB))
    assert isinstance(error, BackendFailure)
    assert "MemoryError: Unable to allocate 1000. MiB" in error.message
    assert (await rig.infer(instance, IN=ints(MIB))).outputs["OUT"].as_numpy().tolist() == [MIB]
    assert instance.pid == pid


async def test_the_limit_of_the_backend_holds_for_models_that_have_none(
    rig_with_options: Callable[[dict[str, str]], Rig],
) -> None:
    rig = rig_with_options({"worker-memory-limit-bytes": str(600 * MIB)})
    try:
        limited = await rig.load("limited", ALLOCATE)
        assert "MemoryError" in (await rig.error(limited, IN=ints(1000 * MIB))).message
        more = {"WORKER_MEMORY_LIMIT_BYTES": {"string_value": "0"}}
        free = await rig.load("free", ALLOCATE, parameters=more)
        assert (await rig.infer(free, IN=ints(1000 * MIB))).outputs["OUT"].as_numpy().tolist() == [1000 * MIB]
    finally:
        await rig.close()


@pytest.mark.parametrize("text", ["lots", "1", "-5", "1.5e9"])
async def test_a_limit_that_is_no_sound_number_of_bytes_is_named(rig: Rig, text: str) -> None:
    limit = {"WORKER_MEMORY_LIMIT_BYTES": {"string_value": text}}
    with pytest.raises(InvalidArgument, match=r"WORKER_MEMORY_LIMIT_BYTES=.* of model 'bad' is not a whole number"):
        await rig.load("bad", PLAIN, parameters=limit)


async def test_a_worker_whose_model_closes_its_descriptors_is_not_told_to_lack_memory(rig: Rig) -> None:
    source = """
import threading
class TritonPythonModel:
    def execute(self, requests):
        os.closerange(3, 1000)
        threading.Event().wait()
"""
    instance = await rig.load("closes", source)
    error = await rig.error(instance, IN=ints(1))
    assert "It closed its channel to the server while it ran on" in str(error)
    assert "memory" not in str(error)


async def test_a_worker_killed_for_want_of_memory_says_so_with_its_last_words_and_comes_back(rig: Rig) -> None:
    source = """
class TritonPythonModel:
    def execute(self, requests):
        if by_name(requests[0], "IN").as_numpy()[0]:
            print("allocating too much", file=sys.stderr)
            os.kill(os.getpid(), 9)   # as the kernel does
        return [Response([T("OUT", np.zeros(1, np.int32))]) for _ in requests]
"""
    instance = await rig.load("greedy", source)
    error = await rig.error(instance, IN=ints(1))
    assert "It was killed by signal 9 (SIGKILL); if nobody sent it, the kernel did for want of memory" in str(error)
    assert "Last words: allocating too much" in str(error)
    await rig.until_state(InstanceState.READY)
    await rig.infer(instance, IN=ints(0))


# -- what a model is told and what it may be called ---------------------------------------------------------------


@pytest.mark.parametrize("letter", ";|&$<>()[]{}\"'*?~#!`")
async def test_a_name_that_triton_could_not_start_a_worker_with_is_refused(rig: Rig, letter: str) -> None:
    model = await rig.backend.load(rig.config("named"), rig.write("named", PLAIN))
    with pytest.raises(InvalidArgument, match="Invalid stub name: contains invalid characters"):
        model.create_instance(InstanceSpec(f"a{letter}b_0", InstanceKind.CPU))


@pytest.mark.parametrize(("text", "good"), [("yes", True), ("no", True), ("maybe", False), ("1", False)])
async def test_inputs_on_the_cpu_only_are_asked_for_with_yes_or_no(rig: Rig, text: str, good: bool) -> None:
    given = {"FORCE_CPU_ONLY_INPUT_TENSORS": {"string_value": text}}
    files = rig.write("inputs", PLAIN)
    if good:
        await rig.backend.load(rig.config("inputs", parameters=given), files)
        return
    with pytest.raises(LoadFailed, match=f"FORCE_CPU_ONLY_INPUT_TENSORS: '{text}'") as raised:
        await rig.backend.load(rig.config("inputs", parameters=given), files)
    assert raised.value.code is Code.UNSUPPORTED


async def test_a_worker_has_the_servers_folder_variables_and_programs_name(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SET_AFTER_THE_ZYGOTE", "before")
    await rig.load("first", PLAIN)
    monkeypatch.setenv("SET_AFTER_THE_ZYGOTE", "after")
    source = """
import unittest, locale
class Case(unittest.TestCase):
    def test_it(self):
        pass
class TritonPythonModel:
    def execute(self, requests):
        result = unittest.main("model", exit=False).result
        seen = [os.environ["SET_AFTER_THE_ZYGOTE"], os.getcwd(), result.testsRun, len(sys.argv), sys.path[-3:]]
        return [Response([T("OUT", np.array([json.dumps(seen)], dtype=np.object_))])]
"""
    instance = await rig.load("looks", source)
    seen = json.loads((await rig.infer(instance, IN=ints(1))).outputs["OUT"].as_numpy()[0])
    assert seen[:4] == ["after", CWD, 1, 1]
    version, model, utilities = seen[4]
    assert (version, model) == (str(rig.folder / "looks" / "1"), str(rig.folder / "looks"))
    assert utilities == UTILITIES


@pytest.mark.parametrize("filename", ["model.txt", "model"])
async def test_a_model_file_without_its_suffix_fails_the_load(rig: Rig, filename: str) -> None:
    files = rig.write("suffix", PLAIN, filename)
    config = rig.config("suffix", default_model_filename=filename)
    model = await rig.backend.load(config, files)
    instance = model.create_instance(InstanceSpec("suffix_0", InstanceKind.CPU))
    rig.instances.append(instance)
    with pytest.raises(LoadFailed, match=r"Python model file must end in '\.py'"):
        await instance.load()


# -- the end ------------------------------------------------------------------------------------------------------


async def test_signals_to_its_group_leave_a_worker_alone_so_that_it_finalises(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    source = """
class TritonPythonModel:
    def execute(self, requests):
        return [Response([T("OUT", np.zeros(1, np.int32))]) for _ in requests]
    def finalize(self):
        print("finalised")
"""
    instance = await rig.load("stays", source)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        os.killpg(instance.pid, number)
    await rig.infer(instance, IN=ints(1))
    await instance.close()
    assert "stays_0_0: finalised" in caplog.text


async def test_a_worker_that_may_not_be_started_again_is_given_up_with_its_reason(  # CASE-03, the backend's part
    rig_with_options: Callable[[dict[str, str]], Rig],
) -> None:
    rig = rig_with_options({"restart-attempts": "0"})
    rig.backend.restart_policy = rig.backend.options.restart
    try:
        instance = await rig.load("once", PLAIN)
        psutil.Process(instance.pid).kill()
        assert "killed by signal 9" in await rig.until_state(InstanceState.FAILED)
        assert "is not healthy" in str(await rig.error(instance, IN=ints(1)))
    finally:
        await rig.close()


def named_memory() -> list[str]:
    """What of /dev/shm this process and those below it have mapped."""
    family = [psutil.Process(), *psutil.Process().children(recursive=True)]
    maps = "".join(Path(f"/proc/{each.pid}/maps").read_text() for each in family)
    return [line for line in maps.splitlines() if "/dev/shm/" in line]


async def test_workers_use_no_memory_that_has_a_name_and_could_stay_behind(rig: Rig) -> None:
    big = np.zeros(100_000, np.int32)
    instance = await rig.load("big", PLAIN)
    await rig.infer(instance, IN=big)
    psutil.Process(instance.pid).kill()
    await rig.until_state(InstanceState.READY)
    with pytest.raises(LoadFailed):
        await rig.load("broken", "raise ValueError")
    await rig.infer(instance, IN=big)
    assert named_memory() == []
