"""Python models on threads of the server (EXECUTION_MODE thread): what is theirs alone, and what cannot hurt others."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import psutil
import pytest

from infer.backends.api.backend import InstanceState
from infer.backends.api.errors import InstanceDied, InvalidArgument, LoadFailed
from infer.backends.python import threads

if TYPE_CHECKING:
    from collections.abc import Callable

    from infer.backends.api.request import InferenceRequest
    from infer.backends.api.response import InferenceResponse

    Rig = Any

DECOUPLED = {"model_transaction_policy": {"decoupled": True}}
ADD = """
class TritonPythonModel:
    def execute(self, requests):
        return [Response([T("OUT", by_name(request, "IN").as_numpy() + 1)]) for request in requests]
"""
COUNT = """
import helper
calls = 0
class TritonPythonModel:
    def execute(self, requests):
        global calls
        calls += 1
        helper.seen.append(calls)
        return [Response([T("OUT", np.array([calls, len(helper.seen), helper.WHO], np.int32))]) for _ in requests]
"""
# Waits for a file, as a model may wait for anything; the test lets its thread go with it.
STUCK = """
class TritonPythonModel:
    def execute(self, requests):
        open("{folder}/executing", "w").close()
        while not os.path.exists("{folder}/go"):
            time.sleep(0.002)
        cancelled = requests[0].is_cancelled()
        return [Response([T("OUT", np.array([cancelled], np.int32))]) for _ in requests]
"""


@pytest.fixture
def mode() -> str:
    """The models of the rig run on threads."""
    return "thread"


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads are left behind at once."""
    monkeypatch.setattr(threads, "LEAVE_S", 0.05)


def ints(*values: int) -> np.ndarray[Any, Any]:
    return np.array(values, dtype=np.int32)


def value(response: InferenceResponse) -> list[Any]:
    assert response.error is None, response.error
    return response.outputs["OUT"].as_numpy().tolist()


def words(response: InferenceResponse) -> list[str]:
    return [each.decode() for each in value(response)]


async def until(true: Callable[[], bool]) -> None:
    """Wait for what a thread does."""
    for _ in range(4000):
        if true():
            return
        await asyncio.sleep(0.005)
    pytest.fail("not within 20 s")


async def joined(name: str) -> None:
    """Wait for the end of a thread that was left behind."""
    await until(lambda: all(thread.name != f"instance-{name}" for thread in threading.enumerate()))


# -- what is an instance's own ------------------------------------------------------------------------------------


async def test_it_runs_in_the_servers_process_and_none_is_started(rig: Rig) -> None:
    source = "class TritonPythonModel:\n  def execute(self, requests):\n"
    source += "    return [Response([T('OUT', np.array([os.getpid()], np.int32))]) for _ in requests]\n"
    instance = await rig.load("where", source)
    assert value(await rig.infer(instance, IN=ints(1))) == [psutil.Process().pid]
    assert instance.pid == 0
    assert rig.backend.zygote.pid == 0


async def test_four_instances_of_a_model_have_their_globals_and_their_siblings_apart(rig: Rig) -> None:
    rig.write("count", "seen, WHO = [], 7\n", "helper.py")
    await rig.load("count", COUNT, count=4)
    for number in (1, 2):
        answers = [value(await rig.infer(instance, IN=ints(1))) for instance in rig.instances]
        assert answers == [[number, number, 7]] * 4


async def test_two_models_whose_siblings_have_one_name_get_their_own_each(rig: Rig) -> None:
    for who, name in enumerate(("one", "other")):
        rig.write(name, f"seen, WHO = [], {who}\n", "helper.py")
        await rig.load(name, COUNT)
    answers = [value(await rig.infer(instance, IN=ints(1))) for instance in rig.instances]
    assert answers == [[1, 1, 0], [1, 1, 1]]
    assert "helper" not in sys.modules


async def test_a_changed_sibling_is_read_anew_by_the_next_load_and_no_bytecode_is_left(rig: Rig) -> None:
    for who in (3, 4):
        files = rig.write("count", f"seen, WHO = [], {who}\n", "helper.py")
        instance = await rig.load("count", COUNT)
        assert value(await rig.infer(instance, IN=ints(1)))[2] == who
    assert sorted(path.name for path in files.version_dir.iterdir()) == ["helper.py", "model.py"]


async def test_every_way_of_importing_finds_the_models_own_modules(rig: Rig) -> None:
    rig.write("ways", "from . import deep\nWHO = 'package'\n", "__init__.py")
    files = rig.write("ways", "WHO = 'late'\n", "late.py")
    package = files.version_dir / "parts"
    (package / "more").mkdir(parents=True)
    (package / "__init__.py").write_text("from . import inner\nfrom .inner import WHO\n")
    (package / "inner.py").write_text("import triton_python_backend_utils as utils\nWHO = 'inner'\n")
    (package / "more" / "deep.py").write_text("WHO = 'namespace'\n")
    (files.model_dir / "beside.py").write_text("WHO = 'beside the versions'\n")
    source = """
import importlib, pickle, dataclasses
import importlib.util
from importlib import import_module
import parts.more.deep as deep
import beside
@dataclasses.dataclass
class Point:
    x: int
class TritonPythonModel:
    def execute(self, requests):
        import late
        from parts import inner, WHO
        found = [late.WHO, inner.WHO, WHO, deep.WHO, beside.WHO, import_module("late").WHO]
        found += [importlib.import_module("parts.more.deep").WHO, import_module(".inner", parts.__name__).WHO]
        found += [str(import_module("parts") is parts), str(inner.utils is pb_utils)]
        found += [str(pickle.loads(pickle.dumps(Point(3))).x)]
        found += [str(importlib.util.find_spec("json").name), str(importlib.import_module("numpy") is np)]
        thread = threading.Thread(target=lambda: found.append(__import__("late").WHO))
        thread.start(); thread.join()
        exec("import late; found.append(late.WHO)", {"found": found})
        return [Response([T("OUT", np.array(found, dtype=np.object_))])]
import parts
"""
    instance = await rig.load("ways", source)
    assert words(await rig.infer(instance, IN=ints(1))) == [
        "late", "inner", "inner", "namespace", "beside the versions", "late", "namespace", "inner",
        "True", "True", "3", "json", "True", "late", "late",
    ]  # fmt: skip


async def test_what_the_process_has_comes_before_what_lies_beside_the_model_as_in_a_process_of_its_own(
    rig: Rig,
) -> None:
    rig.write("shadow", "WHO = 'the model'\n", "json.py")
    source = """
import json
class TritonPythonModel:
    def execute(self, requests):
        return [Response([T("OUT", np.array([hasattr(json, "dumps"), hasattr(json, "WHO")]))])]
"""
    instance = await rig.load("shadow", source)
    assert value(await rig.infer(instance, IN=ints(1))) == [True, False]


async def test_a_folder_that_the_model_puts_on_the_path_still_holds_its_own_modules(rig: Rig) -> None:
    rig.write("pathy", "seen, WHO = [], 5\n", "helper.py")
    source = f"sys.path.insert(0, os.path.dirname(__file__))\n{COUNT}\nsys.path.pop(0)\n"
    await rig.load("pathy", source, count=2)
    answers = [value(await rig.infer(instance, IN=ints(1))) for instance in rig.instances]
    assert answers == [[1, 1, 5]] * 2
    assert "helper" not in sys.modules


async def test_a_module_that_is_nowhere_is_missed_by_its_name(rig: Rig) -> None:
    with pytest.raises(LoadFailed, match="No module named 'a_module_that_nobody_has'"):
        await rig.load("m", "import a_module_that_nobody_has")


async def test_each_instance_has_the_classes_of_pb_utils_to_itself(rig: Rig) -> None:
    source = "class TritonPythonModel:\n  def execute(self, requests):\n"
    source += "    names = [pb_utils.Tensor.__module__, type(requests[0]).__module__]\n"
    source += "    return [Response([T('OUT', np.array(names, dtype=np.object_))]) for _ in requests]\n"
    await rig.load("classes", source, count=2)
    one, other = [words(await rig.infer(instance, IN=ints(1))) for instance in rig.instances]
    assert one[0].rpartition(".")[0] == one[1].rpartition(".")[0] != other[0].rpartition(".")[0]


# -- output and endings -------------------------------------------------------------------------------------------


async def test_prints_are_told_apart_by_line_stream_and_instance(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "infer.model")
    source = """
import io, contextlib
class TritonPythonModel:
    def execute(self, requests):
        print("one", 2, sep="-", end=" "); print("three\\nfour"); print(file=None)
        print("oops", file=sys.stderr, flush=True)
        with contextlib.redirect_stdout(io.StringIO()) as kept:
            print("kept")
        thread = threading.Thread(target=print, args=("from a thread",))
        thread.start(); thread.join()
        print("no end", end="")
        return [Response([T("OUT", np.array([kept.getvalue()], dtype=np.object_))])]
"""
    instance = await rig.load("talker", source)
    assert words(await rig.infer(instance, IN=ints(1))) == ["kept\n"]
    await instance.close()
    lines = [(record.levelname, record.getMessage()) for record in caplog.records if record.name == "infer.model"]
    assert lines == [
        ("INFO", "talker_0_0: one-2 three"),
        ("INFO", "talker_0_0: four"),
        ("WARNING", "talker_0_0: oops"),
        ("INFO", "talker_0_0: from a thread"),
        ("INFO", "talker_0_0: no end"),
    ]
    assert caplog.records[0].__dict__["instance"] == "talker_0_0"


async def test_what_is_registered_for_the_end_runs_when_the_instance_is_closed(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "infer.model")
    source = """
import atexit
class TritonPythonModel:
    def initialize(self, args):
        for word in ("first", "second", "never"):
            atexit.register(print, word)
        function = atexit.register(lambda: print("nor this"))
        atexit.unregister(function)
        atexit.unregister(print)
        atexit.register(self.say, "last", end="!")
        atexit.register(self.fail)
    def say(self, word, end):
        print(word + end)
    def fail(self):
        raise ValueError("too late")
    def execute(self, requests): ...
    def finalize(self):
        print("finalize")
"""
    instance = await rig.load("ender", source)
    await instance.close()
    lines = [record.getMessage() for record in caplog.records if record.name == "infer.model"]
    assert lines[:2] == ["ender_0_0: finalize", "ender_0_0: ValueError: too late"]


async def test_the_model_and_what_its_modules_hold_are_gone_with_the_instance(rig: Rig) -> None:
    source = f"""
class Weights:
    def __init__(self, name):
        self.path = "{rig.folder}/" + name
    def __del__(self):
        open(self.path, "w").close()
HELD = Weights("of the module")
class TritonPythonModel:
    def __init__(self):
        self.held = Weights("of the model")
    def execute(self, requests): ...
"""
    instance = await rig.load("heavy", source)
    await instance.close()
    assert (rig.folder / "of the model").exists()
    assert not [name for name in sys.modules if name.startswith("infer_model_")]


# -- wrong settings -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        (
            {"EXECUTION_MODE": "fiber"},
            "parameter EXECUTION_MODE 'fiber'; it may be 'process', which is the default, or",
        ),
        ({"EXECUTION_MODE": ""}, "parameter EXECUTION_MODE ''; it may be"),
        ({"EXECUTION_ENV_PATH": "env.tar.gz"}, "has both EXECUTION_MODE 'thread' and EXECUTION_ENV_PATH: a thread of"),
    ],
)
async def test_a_mode_that_cannot_be_is_refused_by_the_load(rig: Rig, parameters: dict[str, str], message: str) -> None:
    files = rig.write("m", ADD)
    given = {key: {"string_value": text} for key, text in parameters.items()}
    with pytest.raises(InvalidArgument, match=message):
        await rig.backend.load(rig.config("m", parameters=given), files)


# -- bad days -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("sys.exit(3)", "It ended with exit status 3."),
        ("sys.exit()", "It ended with exit status 0."),
        ("sys.exit('bye')", "It ended with exit status 1. SystemExit: bye at "),
    ],
)
async def test_a_model_that_ends_its_interpreter_ends_its_instance_alone_and_is_started_again(
    rig: Rig, statement: str, reason: str
) -> None:
    source = f"""
class TritonPythonModel:
    def execute(self, requests):
        if by_name(requests[0], "IN").as_numpy()[0] < 0:
            print("famous", file=sys.stderr)
            {statement}
        return [Response([T("OUT", np.ones(1, np.int32))]) for _ in requests]
"""
    instance = await rig.load("quitter", source)
    error = await rig.error(instance, IN=ints(-1))
    assert isinstance(error, InstanceDied)
    assert error.message.startswith(f"The thread of 'quitter_0_0' is not healthy. {reason}")
    assert error.message.endswith("Last words: famous")
    await rig.until_state(InstanceState.READY)
    assert value(await rig.infer(instance, IN=ints(1))) == [1]


async def test_a_model_that_ends_its_interpreter_while_it_comes_up_says_so(rig: Rig) -> None:
    source = "class TritonPythonModel:\n    def initialize(self, args):\n        raise SystemExit(4)\n"
    with pytest.raises(LoadFailed, match=r"The thread of 'bad_0_0' is not healthy\. It ended with exit status 4"):
        await rig.load("bad", source)


async def test_an_instance_that_cannot_be_started_again_is_given_up_with_its_reason(rig: Rig) -> None:
    source = f"""
if os.path.exists("{rig.folder}/flag"):
    raise RuntimeError("the weights are gone")
class TritonPythonModel:
    def execute(self, requests):
        sys.exit(1)
"""
    instance = await rig.load("doomed", source)
    (rig.folder / "flag").touch()
    await rig.error(instance, IN=ints(1))
    assert "the weights are gone" in await rig.until_state(InstanceState.FAILED)


async def test_a_stuck_execution_fails_at_once_when_it_is_closed_and_its_thread_is_left_behind(
    rig: Rig, impatient: None, caplog: pytest.LogCaptureFixture
) -> None:
    instance = await rig.load("stuck", STUCK.format(folder=rig.folder))
    (one, two), done = rig.execute(instance, rig.request(IN=ints(1)), rig.request(IN=ints(2)))
    await until((rig.folder / "executing").exists)
    closing = asyncio.ensure_future(instance.close())
    for execution in (one, two):
        (response,) = await execution.end()
        assert isinstance(response.error, InstanceDied)
        assert "It was stopped." in str(response.error)
    await asyncio.wait_for(done, 20)
    await asyncio.wait_for(closing, 20)
    assert "the thread of 'stuck_0_0' is stuck in its model and is left behind" in caplog.text
    (rig.folder / "go").touch()
    await joined("stuck_0_0")


async def test_an_execution_that_takes_too_long_is_cancelled_and_the_instance_used_again(rig: Rig) -> None:
    instance = await rig.load("late", STUCK.format(folder=rig.folder))
    (execution,), done = rig.execute(instance, rig.request(IN=ints(1)))
    await until((rig.folder / "executing").exists)
    instance.interrupt("did not come back within 5 s")
    (rig.folder / "go").touch()
    await asyncio.wait_for(done, 20)
    assert value((await execution.end())[0]) == [1], "the model has seen that it was cancelled"
    assert value(await rig.infer(instance, IN=ints(1))) == [0]


async def test_a_finalize_that_never_ends_does_not_hold_up_the_server(
    rig_with_options: Callable[[dict[str, str]], Rig], impatient: None, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    rig = rig_with_options({"stub-timeout-seconds": "0.1"})
    source = "class TritonPythonModel:\n  def execute(self, requests): ...\n  def finalize(self):\n    {body}\n"
    await rig.load("raises", source.format(body="raise ValueError('late')"))
    await rig.load("hangs", source.format(body=f"while not os.path.exists('{rig.folder}/go'): time.sleep(0.002)"))
    await rig.close()
    assert "ValueError: late" in caplog.text
    assert "'hangs_0_0' did not finalise within 0.1 s" in caplog.text
    assert "the thread of 'hangs_0_0' is stuck" in caplog.text
    (rig.folder / "go").touch()
    await joined("hangs_0_0")


async def test_threads_of_a_model_that_go_on_after_its_end_are_named_and_can_send_no_more(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    source = f"""
class TritonPythonModel:
    def execute(self, requests):
        sender = requests[0].get_response_sender()
        def run():
            try:
                while True:
                    sender.send(Response([T("OUT", np.zeros(1, np.int32))]))
            except Exception as exc:
                self.error = repr(exc)
            while not os.path.exists("{rig.folder}/go"):
                time.sleep(0.002)
            with open("{rig.folder}/said", "w") as file:
                file.write(self.error)
        threading.Thread(target=run, name="endless", daemon=True).start()
"""
    instance = await rig.load("endless", source, **DECOUPLED)
    (execution,), _ = rig.execute(instance, rig.request(IN=ints(1)))
    await execution.until(3)
    await asyncio.wait_for(instance.close(), 20)
    assert (await execution.end())[-1].error is not None
    assert "'endless_0_0' is over and has left threads behind, which should end in finalize: endless" in caplog.text
    (rig.folder / "go").touch()
    await until((rig.folder / "said").exists)
    await until(lambda: "let go" in (rig.folder / "said").read_text())


async def test_a_sender_that_waits_for_credit_and_a_call_without_an_answer_end_with_the_instance(
    rig: Rig, impatient: None
) -> None:
    source = f"""
class TritonPythonModel:
    def execute(self, requests):
        if by_name(requests[0], "IN").as_numpy()[0] == 0:
            call = pb_utils.InferenceRequest(model_name="silent", inputs=[], requested_output_names=["OUT"])
            def run():
                with open("{rig.folder}/answer", "w") as file:
                    file.write(call.exec().error().message())
            threading.Thread(target=run).start()
            return
        open("{rig.folder}/executing", "w").close()
        sender = requests[0].get_response_sender()
        while not sender.is_cancelled():
            sender.send(Response([T("OUT", np.zeros(1, np.int32))]))
"""
    rig.caller.models["silent"] = lambda request, respond: None
    instance = await rig.load("waits", source, **DECOUPLED)
    rig.execute(instance, rig.request(IN=ints(0)))
    await until(lambda: bool(rig.caller.requests))
    rig.execute(instance, rig.request(IN=ints(1)))
    await until((rig.folder / "executing").exists)
    await asyncio.wait_for(instance.close(), 20)
    await joined("waits_0_0")
    await until(lambda: "closed the channel" in (rig.folder / "answer").read_text())


async def test_a_fork_of_the_model_is_told_that_it_cannot_call(rig: Rig) -> None:
    source = """
class TritonPythonModel:
    def execute(self, requests):
        read, write = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                pb_utils.InferenceRequest(model_name="m", inputs=[], requested_output_names=["OUT"]).exec()
            except BaseException as exc:
                os.write(write, str(exc).encode())
            os._exit(0)
        os.close(write)
        os.waitpid(pid, 0)
        with os.fdopen(read) as file:
            return [Response([T("OUT", np.array([file.read()], dtype=np.object_))])]
"""
    instance = await rig.load("forker", source)
    (text,) = words(await rig.infer(instance, IN=ints(1)))
    assert "a process that a model with EXECUTION_MODE thread has forked cannot reach the server" in text


async def test_a_frame_that_makes_no_sense_ends_the_instance_with_a_reason(rig: Rig) -> None:
    source = """
class TritonPythonModel:
    def execute(self, requests):
        package = type(requests[0]).__module__.rpartition(".")[0]
        channel = sys.modules[package + ".runtime"].RUNTIME.channel()
        channel.send(sys.modules[package + ".frames"].pack(99, 1))
        return []
"""
    instance = await rig.load("liar", source)
    error = await rig.error(instance, IN=ints(1))
    assert isinstance(error, InstanceDied)
    assert "the channel broke: frame of unknown kind 99" in error.message


# -- beside others ------------------------------------------------------------------------------------------------


async def test_the_loop_goes_on_while_a_model_is_imported_and_while_it_executes(rig: Rig) -> None:
    source = f"""
open("{rig.folder}/importing", "w").close()
while not os.path.exists("{rig.folder}/go"):
    time.sleep(0.002)
{ADD}
"""
    loading = asyncio.ensure_future(rig.load("slow", source))
    await until((rig.folder / "importing").exists)
    other = await rig.load("add", ADD)
    assert value(await rig.infer(other, IN=ints(1))) == [2]
    assert not loading.done()
    (rig.folder / "go").touch()
    await asyncio.wait_for(loading, 20)


async def test_models_in_threads_and_in_processes_call_each_other(rig: Rig) -> None:
    """The caller stands between: what one calls is sent to the other."""
    call = """
class TritonPythonModel:
    def execute(self, requests):
        request = pb_utils.InferenceRequest(
            model_name="next", inputs=[T("IN", by_name(requests[0], "IN").as_numpy() * 10)],
            requested_output_names=["OUT"])
        return [Response([T("OUT", pb_utils.get_output_tensor_by_name(request.exec(), "OUT").as_numpy())])]
"""
    caller = await rig.load("caller", call)
    for mode in ("process", "thread"):
        rig.mode = mode
        target = await rig.load(f"add_{mode}", ADD)

        def forward(
            request: InferenceRequest, respond: Callable[[InferenceResponse], None], target: Any = target
        ) -> None:
            (execution,), done = rig.execute(target, request)
            done.add_done_callback(lambda _: respond(execution.responses[0]))

        rig.caller.models["next"] = forward
        for size in (2, 100_000):
            array = np.full(size, 4, np.int32)
            assert set(value(await rig.infer(caller, IN=array))) == {41}


async def test_outputs_stay_as_they_were_sent_while_the_model_goes_on_writing(rig: Rig) -> None:
    source = """
class TritonPythonModel:
    def initialize(self, args):
        self.buffers = {}
    def execute(self, requests):
        array = by_name(requests[0], "IN").as_numpy()
        buffer = self.buffers.setdefault(array.size, np.zeros(array.size, np.int32))
        buffer += 1
        return [Response([T("OUT", buffer)])]
"""
    instance = await rig.load("reuser", source)
    for size in (4, 200_000):
        kept = [await rig.infer(instance, IN=np.zeros(size, np.int32)) for _ in range(4)]
        assert [value(each)[-1] for each in kept] == [1, 2, 3, 4]


async def test_inputs_are_the_models_to_write_into_and_the_clients_stay_as_they_were(rig: Rig) -> None:
    source = """
class TritonPythonModel:
    def execute(self, requests):
        array = by_name(requests[0], "IN").as_numpy()
        array += 5
        return [Response([T("OUT", array)])]
"""
    instance = await rig.load("writer", source)
    for size in (4, 50_000, 1_000_000):
        sent = np.zeros(size, np.int32)
        response = await rig.infer(instance, IN=sent)
        assert (value(response)[-1], int(sent.max())) == (5, 0)


@pytest.mark.slow
async def test_loading_and_unloading_200_times_leaves_nothing_behind(rig: Rig) -> None:
    source = f"import asyncio, helper\nBIG = np.ones(200_000)\n{ADD}"
    source += "    async def never(self):\n        pass\n"
    rig.write("add", "WHO = 1\n", "helper.py")
    files = rig.write("add", source)
    model = await rig.backend.load(rig.config("add"), files)
    process = psutil.Process()
    await rig.come_and_go(model, 20)
    paths = len(sys.meta_path), len(sys.path), len(sys.modules)
    before = process.num_fds(), threading.active_count(), process.memory_info().rss
    await rig.come_and_go(model, 180, at_once=4)
    assert (process.num_fds(), threading.active_count()) == before[:2]
    assert (len(sys.meta_path), len(sys.path), len(sys.modules)) == paths
    # What a large process keeps of memory that came and went is some 20 MB.
    assert process.memory_info().rss - before[2] < 48 << 20, "180 times its 1.6 MB would be 288 MB"


async def test_a_coroutine_model_leaves_no_thread_and_no_descriptor(rig: Rig) -> None:
    source = """
import asyncio
class TritonPythonModel:
    async def execute(self, requests):
        await asyncio.get_running_loop().run_in_executor(None, time.sleep, 0)
        asyncio.get_running_loop().create_task(asyncio.sleep(1000))
        return [Response([T("OUT", by_name(request, "IN").as_numpy())]) for request in requests]
"""
    await rig.load("add", ADD)
    before = threading.active_count(), psutil.Process().num_fds()
    instance = await rig.load("coroutine", source)
    assert value(await rig.infer(instance, IN=ints(6))) == [6]
    await instance.close()
    assert (threading.active_count(), psutil.Process().num_fds()) == before
