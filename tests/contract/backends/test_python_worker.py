"""Python models in real worker processes: what they are given, what becomes of what they return or raise."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from infer.backends.api.datatypes import Datatype
from infer.backends.api.errors import BackendFailure, Code, InvalidArgument, LoadFailed
from infer.backends.api.request import InferenceRequest
from infer.backends.api.tensor import Tensor

if TYPE_CHECKING:
    from collections.abc import Callable

    Rig = Any

IN_BOTH_MODES = True
ADD = """
class TritonPythonModel:
    def execute(self, requests):
        return [Response([T("OUT", by_name(request, "IN").as_numpy() + 1)]) for request in requests]
"""
ECHO = """
class TritonPythonModel:
    def execute(self, requests):
        return [Response(request.inputs(), parameters={"seen": request.parameters()}) for request in requests]
"""


def ints(*values: int) -> np.ndarray[Any, Any]:
    return np.array(values, dtype=np.int32)


async def test_a_model_answers_with_what_it_computed(rig: Rig) -> None:
    instance = await rig.load("add", ADD)
    response = await rig.infer(instance, IN=ints(1, 2, 3))
    assert response.final
    assert response.outputs["OUT"].as_numpy().tolist() == [2, 3, 4]


async def test_every_request_of_a_batch_gets_its_own_answer_and_the_phases_are_stamped_in_order(rig: Rig) -> None:
    instance = await rig.load("add", ADD)
    executions, done = rig.execute(instance, *[rig.request(IN=ints(n)) for n in range(5)])
    batch = await done
    answers = [(await each.end())[0].outputs["OUT"].as_numpy().tolist() for each in executions]
    assert answers == [[1], [2], [3], [4], [5]]
    stamps = [batch.compute_start, batch.compute_input_end, batch.compute_output_start, batch.compute_end]
    assert stamps == sorted(stamps)
    assert stamps[0] > 0


@pytest.mark.parametrize("elements", [0, 16, 16_384, 16_385, 1_000_000])
async def test_tensors_of_every_size_arrive_whole_in_frames_and_in_slabs(rig: Rig, elements: int) -> None:
    instance = await rig.load("add", ADD)
    for start in range(3):
        array = np.arange(start, start + elements, dtype=np.int32)
        response = await rig.infer(instance, IN=array)
        np.testing.assert_array_equal(response.outputs["OUT"].as_numpy(), array + 1)
        del response


async def test_every_datatype_passes_through_a_model_unchanged(rig: Rig) -> None:
    instance = await rig.load("echo", ECHO, outputs=[str(each) for each in Datatype])
    inputs: dict[str, Tensor] = {}
    for datatype in Datatype:
        if datatype is Datatype.BYTES:
            inputs["BYTES"] = Tensor.from_numpy(np.array([b"", b"\x00\xff", "é".encode()], dtype=np.object_))
        else:
            inputs[str(datatype)] = Tensor(datatype, (2, 3), bytes(range(6 * datatype.itemsize)))
    inputs["BOOL"] = Tensor(Datatype.BOOL, (2,), b"\x00\x01")
    executions, done = rig.execute(instance, InferenceRequest("echo", inputs))
    await done
    (response,) = await executions[0].end()
    assert {name: (t.datatype, t.shape, bytes(t.view)) for name, t in response.outputs.items()} == {
        name: (t.datatype, t.shape, bytes(t.view)) for name, t in inputs.items()
    }


async def test_a_model_sees_everything_a_request_says(rig: Rig) -> None:
    source = """
class TritonPythonModel:
    def execute(self, requests):
        (r,) = requests
        seen = [r.request_id(), r.correlation_id(), r.flags(), r.timeout(), json.loads(r.parameters()),
                sorted(r.requested_output_names()), [i.name() for i in r.inputs()], r.inputs()[0].shape(),
                r.inputs()[0].triton_dtype(), r.inputs()[0].is_cpu(), r.is_cancelled()]
        return [Response([T("OUT", np.array([json.dumps(seen)], dtype=np.object_)), T("OTHER", np.zeros(1))])]
"""
    instance = await rig.load("facts", source, outputs=["OUT", "OTHER"])
    request = InferenceRequest(
        "facts",
        {"B": Tensor.from_numpy(ints(1)), "A": Tensor.from_numpy(ints(2))},
        request_id="ré",
        requested_outputs=("OUT",),
        parameters={"s": "x", "i": 2**40, "b": True, "f": 0.5},
        correlation_id="seq",
        flags=3,
        timeout_us=77,
    )
    executions, done = rig.execute(instance, request)
    await done
    (response,) = await executions[0].end()
    assert list(response.outputs) == ["OUT"]
    seen = json.loads(response.outputs["OUT"].as_numpy()[0])
    parameters = {"s": "x", "i": 2**40, "b": True, "f": 0.5}
    assert seen == ["ré", "seq", 3, 77, parameters, ["OUT"], ["B", "A"], [1], 8, True, False]


async def test_response_parameters_reach_the_server(rig: Rig) -> None:
    source = """
class TritonPythonModel:
    def execute(self, requests):
        return [Response([T("OUT", np.zeros(1, np.int32))], parameters={"s": "x", "i": 3, "b": True})]
"""
    instance = await rig.load("parameters", source)
    response = await rig.infer(instance, IN=ints(1))
    assert response.parameters == {"s": "x", "i": 3, "b": True}


async def test_outputs_that_nobody_asked_for_are_left_out(rig: Rig) -> None:
    source = """
class TritonPythonModel:
    def execute(self, requests):
        return [Response([T("OUT", np.zeros(1, np.int32)), T("SECRET", np.zeros(1, np.int32))])]
"""
    instance = await rig.load("secret", source)
    assert list((await rig.infer(instance, IN=ints(1))).outputs) == ["OUT"]


async def test_an_exception_fails_the_batch_with_class_text_file_and_line_and_the_instance_goes_on(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    source = """
class TritonPythonModel:
    def execute(self, requests):
        if by_name(requests[0], "IN").as_numpy()[0] < 0:
            raise ValueError("no negatives")
        return [Response([T("OUT", np.zeros(1, np.int32))]) for _ in requests]
"""
    instance = await rig.load("picky", source)
    error = await rig.error(instance, IN=ints(-1))
    assert isinstance(error, BackendFailure)
    assert error.message.startswith("Failed to process the request(s) for model 'picky_0_0', message: ValueError: no n")
    assert "picky/1/model.py(10): execute" in error.message
    assert any("no negatives" in record.message for record in caplog.records)
    assert (await rig.infer(instance, IN=ints(1))).error is None


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        ("[]", "InferenceRequest(s) size is:1, and InferenceResponse(s) size is:0"),
        ("(Response([]),)", "Expected a list in the execute return, found type 'tuple'"),
        ("[3]", "Expected an 'InferenceResponse' object in the execute function return list, found type 'int'"),
    ],
)
async def test_what_execute_must_not_return_fails_the_request(rig: Rig, returned: str, message: str) -> None:
    source = f"""
class TritonPythonModel:
    def execute(self, requests):
        return {returned}
"""
    instance = await rig.load("wrong", source)
    assert message in (await rig.error(instance, IN=ints(1))).message


async def test_a_request_the_model_drops_without_an_answer_still_ends(rig: Rig) -> None:
    source = """
class TritonPythonModel:
    def execute(self, requests):
        return [None for _ in requests]
"""
    instance = await rig.load("silent", source)
    assert "without sending its final response" in (await rig.error(instance, IN=ints(1))).message


async def test_an_error_answer_keeps_its_code_and_spares_its_neighbours(rig: Rig) -> None:
    source = """
class TritonPythonModel:
    def execute(self, requests):
        return [Response(error=pb_utils.TritonError("not here", pb_utils.TritonError.NOT_FOUND)),
                Response([T("OUT", np.ones(1, np.int32))])]
"""
    instance = await rig.load("mixed", source)
    (first, second), done = rig.execute(instance, rig.request(IN=ints(1)), rig.request(IN=ints(2)))
    await done
    (refused,) = await first.end()
    assert refused.error is not None
    assert (refused.error.code, refused.error.message) == (Code.NOT_FOUND, "not here")
    assert (await second.end())[0].error is None


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
async def test_a_one_to_one_model_may_answer_through_its_sender_also_later(rig: Rig) -> None:
    source = """
class TritonPythonModel:
    def execute(self, requests):
        first, second = requests
        first.get_response_sender().send(Response([T("OUT", np.array([1], np.int32))]))
        sender = second.get_response_sender()
        def later():
            sender.send(Response([T("OUT", np.array([2], np.int32))]))
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
        threading.Thread(target=later).start()
        return [None, None]
"""
    instance = await rig.load("sender", source)
    executions, done = rig.execute(instance, rig.request(IN=ints(1)), rig.request(IN=ints(2)))
    await asyncio.wait_for(done, 20)
    answers = [await each.end() for each in executions]
    assert [[r.outputs["OUT"].as_numpy().tolist() for r in each] for each in answers] == [[[1]], [[2]]]


async def test_a_coroutine_execute_is_awaited(rig: Rig) -> None:
    source = """
import asyncio
class TritonPythonModel:
    async def execute(self, requests):
        await asyncio.sleep(0)
        return [Response([T("OUT", by_name(r, "IN").as_numpy() * 2)]) for r in requests]
"""
    instance = await rig.load("coroutine", source)
    assert (await rig.infer(instance, IN=ints(4))).outputs["OUT"].as_numpy().tolist() == [8]


async def test_a_model_with_a_coroutine_overlaps_as_deep_as_the_option_says(
    rig: Rig, rig_with_options: Callable[[dict[str, str]], Rig]
) -> None:
    source = """
    class TritonPythonModel:
        async def execute(self, requests):
            return [Response([T("OUT", by_name(request, "IN").as_numpy())]) for request in requests]
    """
    plain = await rig.load("plain", source.replace("async ", ""))
    assert (plain.overlaps, plain.depth) == (False, 8)
    for options, depth in (({}, 64), ({"coroutine-depth": "1"}, 1), ({"coroutine-depth": "500"}, 500)):
        other = rig_with_options(options)
        try:
            instance = await other.load("coroutine", source)
            assert (instance.overlaps, instance.depth) == (True, depth)
        finally:
            await other.close()


async def test_a_view_that_a_model_keeps_never_shows_another_request(rig: Rig) -> None:
    source = """
class TritonPythonModel:
    kept = []
    def execute(self, requests):
        self.kept.append(by_name(requests[0], "IN").as_numpy())
        self.kept[-1][0] += 1000   # private, writable memory
        firsts = np.array([view[0] for view in self.kept], np.int32)
        lasts = np.array([view[-1] for view in self.kept], np.int32)
        return [Response([T("OUT", np.concatenate([firsts, lasts]))])]
"""
    for size in (8, 100_000):
        instance = await rig.load(f"keeper{size}", source)
        for count in range(1, 6):
            response = await rig.infer(instance, IN=np.full(size, count, dtype=np.int32))
            expected = [1000 + n for n in range(1, count + 1)] + list(range(1, count + 1))
            assert response.outputs["OUT"].as_numpy().tolist() == expected


async def test_an_answer_that_the_server_keeps_never_shows_another_one(rig: Rig) -> None:
    instance = await rig.load("add", ADD)
    kept = [await rig.infer(instance, IN=np.full(50_000, n, dtype=np.int32)) for n in range(5)]
    assert [int(each.outputs["OUT"].as_numpy()[-1]) for each in kept] == [1, 2, 3, 4, 5]


async def test_initialize_gets_the_seven_strings_and_the_whole_configuration(rig: Rig, mode: str) -> None:
    source = """
class TritonPythonModel:
    def initialize(self, args):
        self.seen = {**args, "dir": pb_utils.get_model_dir(), "argv": sys.argv, "cwd": os.getcwd()}
        self.seen["types"] = sorted({type(v).__name__ for v in args.values()})
        self.seen["count"] = len(args)
    def execute(self, requests):
        return [Response([T("OUT", np.array([json.dumps(self.seen)], dtype=np.object_))])]
"""
    instance = await rig.load("args", source, max_batch_size=4)
    seen = json.loads((await rig.infer(instance, IN=ints(1))).outputs["OUT"].as_numpy()[0])
    assert (seen["count"], seen["types"]) == (7, ["str"])
    assert json.loads(seen["model_config"])["max_batch_size"] == 4
    assert seen["model_instance_kind"] == "CPU"
    assert seen["model_instance_name"] == "args_0_0"
    assert seen["model_instance_device_id"] == "0"
    assert (seen["model_repository"], seen["model_version"]) == (str(rig.folder / "args"), "1")
    assert seen["model_name"] == "args"
    assert seen["dir"] == str(rig.folder / "args" / "1")
    assert mode == "thread" or len(seen["argv"]) == 1, "a thread has the server's"


async def test_a_model_finds_its_neighbours_as_in_triton(rig: Rig, mode: str) -> None:
    source = """
import helper
relative = None
if __package__:   # "import model" below makes a second module, which has no package, as in Triton
    from . import helper as relative
class TritonPythonModel:
    def execute(self, requests):
        import model
        names = [__name__, __file__, model.__name__, str(model is not sys.modules[__name__]), helper.WHO, relative.WHO]
        return [Response([T("OUT", np.array(names, dtype=np.object_))])]
"""
    files = rig.write("home", "WHO = 'helper'\n", "helper.py")
    instance = await rig.load("home", source)
    names = [each.decode() for each in (await rig.infer(instance, IN=ints(1))).outputs["OUT"].as_numpy()]
    prefix = names[0].removesuffix("1.model")
    assert re.fullmatch({"process": "", "thread": r"infer_model_\d+\."}[mode], prefix)
    path = str(files.version_dir / "model.py")
    assert names == [f"{prefix}1.model", path, f"{prefix}model", "True", "helper", "helper"]


@pytest.mark.own_process
async def test_two_instances_are_two_processes_with_their_own_random_numbers(rig: Rig) -> None:
    source = """
import random
class TritonPythonModel:
    def execute(self, requests):
        return [Response([T("OUT", np.array([os.getpid(), random.getrandbits(60), np.random.randint(2**60)]))])]
"""
    await rig.load("dice", source, count=2)
    throws = [(await rig.infer(instance, IN=ints(1))).outputs["OUT"].as_numpy().tolist() for instance in rig.instances]
    assert all(one != other for one, other in zip(*throws, strict=True))


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("raise RuntimeError('bad import')", ["RuntimeError: bad import", "1/model.py(6): <module>"]),
        ("class Other: pass", ["does not define a class 'TritonPythonModel'"]),
        ("def broken(:", ["SyntaxError", "model.py, line 6"]),
        (
            """
class TritonPythonModel:
    def initialize(self, args):
        raise KeyError("weights")
""",
            ["KeyError: 'weights'", "model.py(9): initialize"],
        ),
    ],
)
async def test_a_model_that_does_not_come_up_says_why(rig: Rig, source: str, reason: list[str]) -> None:
    with pytest.raises(LoadFailed) as raised:
        await rig.load("bad", source)
    for each in reason:
        assert each in str(raised.value)


@pytest.mark.own_process
async def test_a_model_that_ends_its_process_while_it_comes_up_is_quoted(rig: Rig) -> None:
    source = """
class TritonPythonModel:
    def initialize(self, args):
        print("I give up", file=sys.stderr)
        os._exit(3)
"""
    with pytest.raises(LoadFailed, match=r"Stub process 'bad_0_0' is not healthy\.(?s:.*)I give up"):
        await rig.load("bad", source)


async def test_a_missing_model_file_is_named_with_its_path(rig: Rig) -> None:
    files = rig.write("gone", "", "other.py")
    path = files.version_dir / "model.py"
    with pytest.raises(LoadFailed, match="Python model file not found in") as raised:
        await rig.backend.load(rig.config("gone"), files)
    assert str(path) in str(raised.value)
    with pytest.raises(LoadFailed, match="Python model file not found in"):
        await rig.backend.auto_complete(rig.config("gone"), files)


async def test_auto_complete_takes_batch_size_tensors_policy_and_scheduler_and_nothing_else(rig: Rig) -> None:
    files = rig.write(
        "auto",
        """
        class TritonPythonModel:
            @staticmethod
            def auto_complete_config(config):
                config.set_max_batch_size(8)
                config.set_dynamic_batching()
                config.add_input({"name": "IN", "data_type": "TYPE_INT32", "dims": [-1]})
                config.add_input({"name": "MORE", "data_type": "TYPE_FP32", "dims": [3], "optional": True})
                config.add_output({"name": "OUT", "data_type": "TYPE_STRING", "dims": [1]})
                config.set_model_transaction_policy({"decoupled": True})
                config.as_dict()["name"] = "other"
                return config
        """,
    )
    completed = await rig.backend.auto_complete(rig.config("auto", outputs=()), files)
    assert (completed.name, completed.max_batch_size, completed.decoupled) == ("auto", 8, True)
    assert completed.scheduling == "dynamic_batching"
    assert [(each.name, str(each.datatype), each.dims) for each in completed.inputs] == [
        ("IN", "INT32", (-1,)),
        ("MORE", "FP32", (3,)),
    ]
    assert [each.name for each in completed.outputs] == ["OUT"]


@pytest.mark.parametrize(
    ("body", "error", "message"),
    [
        ("return None", LoadFailed, "must return a valid pb.ModelConfig object"),
        ("config.set_max_batch_size(2); return config", LoadFailed, "specified max_batch_size 4"),
        ("raise OSError('disk')", LoadFailed, "OSError: disk"),
        ("config.as_dict()['input'] = [{'name': 'x'}]; return config", InvalidArgument, "needs name, data_type"),
    ],
)
async def test_an_auto_completion_that_goes_wrong_fails_the_load_with_its_reason(
    rig: Rig, body: str, error: type[Exception], message: str
) -> None:
    source = f"""
class TritonPythonModel:
    @classmethod
    def auto_complete_config(cls, config):
        {body}
"""
    files = rig.write("auto", source)
    with pytest.raises(error, match=message):
        await rig.backend.auto_complete(rig.config("auto", max_batch_size=4), files)


async def test_a_mistake_in_auto_complete_config_names_the_models_file_and_line_not_ours(rig: Rig) -> None:
    source = """
class TritonPythonModel:
    @staticmethod
    def auto_complete_config(config):
        config.add_output({"name": "OUT", "data_type": "TYPE_INT32", "dims": [1], "optional": True})
        return config
"""
    files = rig.write("auto", source)
    with pytest.raises(LoadFailed) as raised:
        await rig.backend.auto_complete(rig.config("auto"), files)
    words, _, place = str(raised.value).partition("At:")
    assert words.startswith("ValueError: output in auto-complete-config function for model 'auto'")
    line = (files.version_dir / "model.py").read_text().splitlines().index(source.splitlines()[4]) + 1
    assert place.split() == [f"{files.version_dir / 'model.py'}({line}):", "auto_complete_config"]


async def test_what_auto_complete_config_leaves_behind_is_gone_and_it_knows_its_folder(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "infer.model")
    source = """
SEEN = []
class TritonPythonModel:
    @staticmethod
    def auto_complete_config(config):
        SEEN.append(1)
        assert pb_utils.get_model_dir() == os.path.dirname(os.path.abspath(__file__))
        pb_utils.Logger.log_error("from the completion")
        return config
    def execute(self, requests):
        return [Response([T("OUT", np.array(SEEN, np.int32))])]
"""
    files = rig.write("auto", source)
    await rig.backend.auto_complete(rig.config("auto"), files)
    assert "from the completion" in caplog.text
    instance = await rig.load("auto", source)
    assert (await rig.infer(instance, IN=ints(0))).outputs["OUT"].as_numpy().size == 0


async def test_a_model_whose_execute_has_another_name_fails_its_load_with_the_right_one(rig: Rig) -> None:
    source = """
class TritonPythonModel:
    async def async_execute(self, requests):
        return []
"""
    with pytest.raises(LoadFailed, match=r"has 'async_execute' and no 'execute'; name it 'execute\(self, requests\)'"):
        await rig.load("misnamed", source)


async def test_a_model_without_execute_loads_and_fails_its_first_request(rig: Rig) -> None:
    instance = await rig.load("idle", "class TritonPythonModel: pass")
    assert "has no attribute 'execute'" in str(await rig.error(instance, IN=ints(0)))


async def test_bfloat16_passes_through_dlpack_with_its_datatype(rig: Rig) -> None:
    source = """
class TritonPythonModel:
    def execute(self, requests):
        inputs = [request.inputs()[0] for request in requests]
        return [Response([T.from_dlpack("OUT", each), T.from_dlpack("OUT2", each.to_dlpack())]) for each in inputs]
"""
    instance = await rig.load("bf16", source, outputs=["OUT", "OUT2"])
    for count in (0, 2, 70_000):
        data = bytes.fromhex("803f") * count
        executions, done = rig.execute(instance, InferenceRequest("m", {"IN": Tensor(Datatype.BF16, (count, 1), data)}))
        await done
        (response,) = await executions[0].end()
        assert response.error is None, response.error
        found = {name: (t.datatype, t.shape, bytes(t.view)) for name, t in response.outputs.items()}
        assert found == dict.fromkeys(("OUT", "OUT2"), (Datatype.BF16, (count, 1), data))


async def test_a_view_of_an_input_stays_what_it_was_as_long_as_the_model_keeps_it(rig: Rig) -> None:
    source = """
class TritonPythonModel:
    def initialize(self, args):
        self.kept = []
    def execute(self, requests):
        tensor = requests[0].inputs()[0]
        self.kept.append((tensor.as_numpy(), np.from_dlpack(tensor)))
        del tensor, requests
        same = all((a == a[0]).all() and (b == a).all() for a, b in self.kept)
        return [Response([T("OUT", np.array([same], np.int32))])]
"""
    instance = await rig.load("keeps", source)
    for size in (4, 100_000):
        for value in range(6):
            response = await rig.infer(instance, IN=np.full(size, value, np.int32))
            assert response.outputs["OUT"].as_numpy() == [1]


async def test_a_model_without_auto_completion_keeps_its_configuration(rig: Rig) -> None:
    config = rig.config("plain")
    assert await rig.backend.auto_complete(config, rig.write("plain", ADD)) == config


async def test_what_a_model_prints_and_logs_is_in_the_log_with_its_instance(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "infer.model")
    source = """
class TritonPythonModel:
    def execute(self, requests):
        print("to stdout")
        print("to stderr", file=sys.stderr)
        pb_utils.Logger.log_info("logged")
        pb_utils.Logger.log_verbose("chatter")
        return [Response([T("OUT", np.zeros(1, np.int32))])]
    def finalize(self):
        print("last words")
"""
    instance = await rig.load("talker", source)
    await rig.infer(instance, IN=ints(1))
    await instance.close()
    records = {record.getMessage(): record for record in caplog.records}
    assert records["talker_0_0: to stdout"].levelno == logging.INFO
    assert records["talker_0_0: to stderr"].levelno == logging.WARNING
    assert "talker_0_0: last words" in records
    assert records["chatter"].levelno == logging.DEBUG
    logged = records["logged"]
    assert (logged.filename, logged.lineno) == ("model.py", 11)
    assert logged.__dict__["instance"] == "talker_0_0"
    assert (logged.__dict__["model"], logged.__dict__["version"]) == ("talker", 1)


@pytest.mark.own_process
async def test_finalize_that_raises_or_never_ends_does_not_hold_up_the_server(
    rig_with_options: Callable[[dict[str, str]], Rig], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    source = """
class TritonPythonModel:
    def execute(self, requests): ...
    def finalize(self):
        {body}
"""
    rig = rig_with_options({"stub-timeout-seconds": "0.2"})
    await rig.load("raises", source.format(body="raise ValueError('late')"))
    await rig.load("hangs", source.format(body="threading.Event().wait()"))
    await rig.close()
    assert "ValueError: late" in caplog.text
    assert "'hangs_0_0' did not finalise within 0.2 s" in caplog.text


async def test_a_configuration_larger_than_a_packet_reaches_the_model(rig: Rig) -> None:
    source = """
class TritonPythonModel:
    def initialize(self, args):
        self.size = len(json.loads(args["model_config"])["parameters"]["blob"]["string_value"])
    def execute(self, requests):
        return [Response([T("OUT", np.array([self.size], np.int32))], parameters={"blob": "y" * 300_000})]
"""
    instance = await rig.load("wordy", source, parameters={"blob": {"string_value": "x" * 400_000}})
    response = await rig.infer(instance, IN=ints(1))
    assert response.outputs["OUT"].as_numpy().tolist() == [400_000]
    assert response.parameters == {"blob": "y" * 300_000}


async def test_a_batch_whose_description_outgrows_a_packet_is_served(rig: Rig) -> None:
    instance = await rig.load("add", ADD)
    executions, done = rig.execute(instance, *[rig.request(IN=ints(n)) for n in range(3000)])
    await asyncio.wait_for(done, 20)
    assert [(await each.end())[0].outputs["OUT"].as_numpy()[0] for each in executions] == list(range(1, 3001))


async def test_an_option_that_is_no_number_is_named(rig_with_options: Callable[[dict[str, str]], Rig]) -> None:
    with pytest.raises(InvalidArgument, match="stub-timeout-seconds=soon is not a number of seconds"):
        rig_with_options({"stub-timeout-seconds": "soon"})


@pytest.mark.parametrize("text", ["0", "-1", "many", "1.5"])
async def test_a_depth_that_is_no_count_is_named(rig_with_options: Callable[[dict[str, str]], Rig], text: str) -> None:
    with pytest.raises(
        InvalidArgument, match=f"python,coroutine-depth={text} is not a whole number of batches, at least 1"
    ):
        rig_with_options({"coroutine-depth": text})
