"""One table of requests through the real engine: every backend gives the same answers, or a listed difference.

Each backend serves the same identity models, one that batches and one that does not, with an input and an output of
every datatype (BF16 has models of its own: ONNX Runtime takes no graph with it and text from Python). A request is
sent to all of them; what comes back is compared byte for byte.
"""

from __future__ import annotations

import sys
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from onnx import TensorProto, helper, save

from infer.backends.api.datatypes import Datatype, encode_bytes
from infer.backends.api.errors import Code, InferError
from infer.backends.api.request import InferenceRequest
from infer.backends.api.tensor import Tensor
from infer.server.engine import Engine, EngineSettings
from infer.server.lifecycle.loader import LoaderSettings
from infer.server.loop import ServingLoop

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from infer.backends.api.response import InferenceResponse

LIMIT_S = 30
BACKENDS = ("identity", "onnxruntime", "python", "pytorch")
MODELS = ("batched", "plain")
WITH_BF16 = ("identity", "onnxruntime", "pytorch")
TEXT_OF_TWO_DIMENSIONS = ("identity", "onnxruntime", "python")
FAILING = ("onnxruntime", "python", "pytorch")
MAX_BATCH_SIZE = 4
ZYGOTE = (sys.executable, "-P", "-m", "infer", "_zygote")

ELEMENTS = {
    Datatype.BOOL: TensorProto.BOOL,
    Datatype.UINT8: TensorProto.UINT8,
    Datatype.UINT16: TensorProto.UINT16,
    Datatype.UINT32: TensorProto.UINT32,
    Datatype.UINT64: TensorProto.UINT64,
    Datatype.INT8: TensorProto.INT8,
    Datatype.INT16: TensorProto.INT16,
    Datatype.INT32: TensorProto.INT32,
    Datatype.INT64: TensorProto.INT64,
    Datatype.FP16: TensorProto.FLOAT16,
    Datatype.FP32: TensorProto.FLOAT,
    Datatype.FP64: TensorProto.DOUBLE,
    Datatype.BYTES: TensorProto.STRING,
    Datatype.BF16: TensorProto.BFLOAT16,
}
PAIRS = [datatype for datatype in Datatype if datatype is not Datatype.BF16]
PYTHON_MODEL = '''
"""Gives every input back, whatever it is."""

import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        return [
            pb_utils.InferenceResponse([
                pb_utils.Tensor(tensor.name().replace("INPUT", "OUTPUT"), tensor.as_numpy())
                for tensor in request.inputs()
                if tensor.name().replace("INPUT", "OUTPUT") in request.requested_output_names()
            ])
            for request in requests
        ]
'''

LOOKUP = """
backend: "BACKEND"
input [{ name: "IN" data_type: TYPE_INT64 dims: [-1] }]
output [{ name: "OUT" data_type: TYPE_FP32 dims: [-1] }]
instance_group [{ kind: KIND_CPU count: 1 }]
"""
FAILING_MODEL = """
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        table = np.arange(3, dtype=np.float32)
        return [
            pb_utils.InferenceResponse([
                pb_utils.Tensor("OUT", table[pb_utils.get_input_tensor_by_name(request, "IN").as_numpy()])
            ])
            for request in requests
        ]
"""


def config(backend: str, datatypes: list[Datatype], *, batching: bool) -> str:
    """The configuration of an identity model with a pair of tensors of each datatype."""
    dims = "[-1]" if batching else "[-1, -1]"
    lines = [f'backend: "{backend}"', f"max_batch_size: {MAX_BATCH_SIZE if batching else 0}"]
    for datatype in datatypes:
        for side in ("INPUT", "OUTPUT"):
            entry = f'name: "{side}_{datatype}" data_type: {datatype.config_name} dims: {dims}'
            lines.append(f"{side.lower()} [{{ {entry} }}]")
    lines.append("instance_group [{ kind: KIND_CPU count: 1 }]")
    return "\n".join(lines)


def onnx_identity(datatypes: list[Datatype]) -> Any:
    """A graph of Identity nodes, one a datatype; both dimensions are free."""

    def info(side: str, datatype: Datatype) -> Any:
        return helper.make_tensor_value_info(f"{side}_{datatype}", ELEMENTS[datatype], ["rows", f"size_{datatype}"])

    nodes = [helper.make_node("Identity", [f"INPUT_{each}"], [f"OUTPUT_{each}"]) for each in datatypes]
    inputs = [info("INPUT", each) for each in datatypes]
    return model_of(nodes, inputs, [info("OUTPUT", each) for each in datatypes])


def onnx_lookup() -> Any:
    """OUT = table[IN], which fails for an index that is not in the table."""
    table = helper.make_tensor("table", TensorProto.FLOAT, [3], [0.0, 1.0, 2.0])
    nodes = [helper.make_node("Gather", ["table", "IN"], ["OUT"])]
    inputs = [helper.make_tensor_value_info("IN", TensorProto.INT64, ["n"])]
    return model_of(nodes, inputs, [helper.make_tensor_value_info("OUT", TensorProto.FLOAT, ["n"])], [table])


def model_of(nodes: list[Any], inputs: list[Any], outputs: list[Any], constants: list[Any] | None = None) -> Any:
    graph = helper.make_graph(nodes, "g", inputs, outputs, constants or [])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def torch_identity(datatypes: list[Datatype]) -> Any:
    """A TorchScript module that returns its arguments; text is a list of strings."""
    kinds = {f"INPUT_{each}": "List[str]" if each is Datatype.BYTES else "torch.Tensor" for each in datatypes}
    arguments = ", ".join(f"{name}: {kind}" for name, kind in kinds.items())
    result = f"({', '.join(kinds)},)"
    returned = f"Tuple[{', '.join(kinds.values())}]"
    return torch_module(f"def forward(self, {arguments}) -> {returned}:\n    return {result}")


def torch_module(source: str) -> Any:
    """A module with this forward(); each is of a class of its own, since a class has one forward()."""
    module: Any = torch.jit.script(type("Module", (torch.nn.Module,), {})())
    module.define(f"{source}\n")
    return module


def write_models(repository: Path) -> None:
    for backend in BACKENDS:
        for model in MODELS:
            for name, datatypes in ((model, pairs_of(backend, model)), (f"{model}_bf16", [Datatype.BF16])):
                version = repository / f"{backend}_{name}" / "1"
                version.mkdir(parents=True)
                (version.parent / "config.pbtxt").write_text(config(backend, datatypes, batching=model == "batched"))
                write_code(version, backend, onnx_identity(datatypes), PYTHON_MODEL, torch_identity(datatypes))
    lookup = torch_module("def forward(self, IN):\n    return torch.arange(3, dtype=torch.float32)[IN]")
    for backend in FAILING:
        version = repository / f"{backend}_lookup" / "1"
        version.mkdir(parents=True)
        (version.parent / "config.pbtxt").write_text(LOOKUP.replace("BACKEND", backend))
        write_code(version, backend, onnx_lookup(), FAILING_MODEL, lookup)


def write_code(version: Path, backend: str, graph: Any, source: str, script: Any) -> None:
    if backend == "onnxruntime":
        save(graph, version / "model.onnx")
    elif backend == "python":
        (version / "model.py").write_text(source)
    elif backend == "pytorch":
        script.save(version / "model.pt")


def pairs_of(backend: str, model: str) -> list[Datatype]:
    """The datatypes of a model; a PyTorch one has text in one dimension beside the batch's, so none without a batch."""
    takes_text = model == "batched" or backend in TEXT_OF_TWO_DIMENSIONS
    return [datatype for datatype in PAIRS if takes_text or datatype is not Datatype.BYTES]


def backends_of(model: str) -> tuple[str, ...]:
    """The backends whose model of that name has an input of every datatype."""
    return tuple(backend for backend in BACKENDS if model != "plain" or backend in TEXT_OF_TWO_DIMENSIONS)


@dataclass(frozen=True)
class Outcome:
    """What came of a request: its outputs as (datatype, shape, bytes), or its error; no model is named in it."""

    outputs: Mapping[str, tuple[str, tuple[int, ...], bytes]] = field(default_factory=dict)
    code: Code | None = None
    message: str = ""


class Bench:
    """All models of all backends behind one engine."""

    def __init__(self, engine: Engine, loop: ServingLoop) -> None:
        self.engine = engine
        self.loop = loop

    def send(self, request: InferenceRequest) -> Future[InferenceResponse]:
        """Hand a request in; a refusal is the future's exception."""
        answer: Future[InferenceResponse] = Future()

        def submit() -> None:
            try:
                self.engine.infer(request, answer.set_result)
            except InferError as exc:
                answer.set_exception(exc)

        self.loop.call_soon(submit)
        return answer

    def outcome(self, backend: str, model: str, make: Callable[[str], InferenceRequest]) -> Outcome:
        """Send what ``make(model name)`` gives and wait."""
        name = f"{backend}_{model}"
        try:
            response = self.send(make(name)).result(LIMIT_S)
        except InferError as exc:
            return Outcome(code=exc.code, message=str(exc).replace(name, "MODEL"))
        if response.error is not None:
            return Outcome(code=response.error.code, message=str(response.error).replace(name, "MODEL"))
        outputs = {
            key: (str(tensor.datatype), tensor.shape, bytes(tensor.view)) for key, tensor in response.outputs.items()
        }
        response.release()
        return Outcome(outputs)

    def outcomes(
        self, model: str, make: Callable[[str], InferenceRequest], backends: tuple[str, ...] = ()
    ) -> dict[str, Outcome]:
        """What every backend makes of it."""
        return {backend: self.outcome(backend, model, make) for backend in backends or backends_of(model)}

    def the_outcome(
        self, model: str, make: Callable[[str], InferenceRequest], backends: tuple[str, ...] = ()
    ) -> Outcome:
        """What all backends make of it alike."""
        found = self.outcomes(model, make, backends)
        first = next(iter(found.values()))
        assert found == dict.fromkeys(found, first)
        return first


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    repository = tmp_path_factory.mktemp("alike")
    write_models(repository)
    loop = ServingLoop()
    engine = Engine(EngineSettings(loader=LoaderSettings((repository,)), worker_command=ZYGOTE), loop.loop)
    loop.start()
    try:
        assert loop.run(engine.start()) == {}
        yield Bench(engine, loop)
    finally:
        loop.run(engine.stop())
        loop.stop()


def numbers(datatype: Datatype, shape: tuple[int, ...]) -> NDArray[Any]:
    """Values with the datatype's extremes among them; text with a NUL, none at all, and beyond ASCII."""
    count = int(np.prod(shape))
    if datatype is Datatype.BYTES:
        words = [b"", b"a\0b", "déjà vu 雪".encode(), b"x" * 300]
        array = np.empty(count, dtype=object)
        array[:] = [words[index % len(words)] for index in range(count)]
        return array.reshape(shape)
    if datatype is Datatype.BOOL:
        return (np.arange(count) % 2).astype(bool).reshape(shape)
    patterns = np.frombuffer(bytes(range(256)) * (count * datatype.itemsize // 256 + 1), np.uint8)
    # Every pattern of bits is a value of its own, NaN and infinities too.
    return patterns[: count * datatype.itemsize].view(datatype.numpy).reshape(shape)


def tensors(rows: int = 1, size: int = 2, **replaced: Tensor | None) -> dict[str, Tensor]:
    """An input of every datatype; ``replaced`` gives others by datatype, None leaves one out."""
    made = {str(datatype): Tensor.from_numpy(numbers(datatype, (rows, size))) for datatype in PAIRS}
    made.update({name: tensor for name, tensor in replaced.items() if tensor is not None})
    return {f"INPUT_{name}": tensor for name, tensor in made.items() if replaced.get(name, tensor) is not None}


def echo(inputs: Mapping[str, Tensor]) -> Outcome:
    """What an identity model makes of these inputs."""
    return Outcome(
        {
            name.replace("INPUT", "OUTPUT"): (str(tensor.datatype), tensor.shape, bytes(tensor.view))
            for name, tensor in inputs.items()
        }
    )


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("datatype", PAIRS, ids=str)
@pytest.mark.parametrize("shape", [(1, 1), (1, 257), (3, 5)], ids=str)
def test_every_datatype_comes_back_bit_for_bit(
    bench: Bench, model: str, datatype: Datatype, shape: tuple[int, ...]
) -> None:
    inputs = tensors(shape[0], **{str(datatype): Tensor.from_numpy(numbers(datatype, shape))})
    assert bench.the_outcome(model, lambda name: InferenceRequest(name, inputs)) == echo(inputs)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("datatype", PAIRS, ids=str)
def test_a_tensor_of_no_elements_comes_back_with_its_shape(bench: Bench, model: str, datatype: Datatype) -> None:
    inputs = tensors(2, **{str(datatype): Tensor.from_numpy(numbers(datatype, (2, 0)))})
    outcome = bench.the_outcome(model, lambda name: InferenceRequest(name, inputs))
    assert outcome.outputs[f"OUTPUT_{datatype}"] == (str(datatype), (2, 0), b"")


@pytest.mark.parametrize("shape", [(1, 1), (1, 257), (3, 5), (2, 0)], ids=str)
def test_numbers_come_back_bit_for_bit_from_models_that_do_not_batch(bench: Bench, shape: tuple[int, ...]) -> None:
    inputs = {name: tensor for name, tensor in tensors(*shape).items() if name != "INPUT_BYTES"}
    assert bench.outcome("pytorch", "plain", lambda name: InferenceRequest(name, inputs)) == echo(inputs)


@pytest.mark.parametrize("model", ["batched_bf16", "plain_bf16"])
@pytest.mark.parametrize("shape", [(1, 1), (3, 257), (2, 0)], ids=str)
def test_bf16_comes_back_bit_for_bit(bench: Bench, model: str, shape: tuple[int, ...]) -> None:
    inputs = {"INPUT_BF16": Tensor.from_numpy(numbers(Datatype.BF16, shape))}
    outcome = bench.the_outcome(model, lambda name: InferenceRequest(name, inputs), WITH_BF16)
    assert outcome == echo(inputs)


@pytest.mark.parametrize("rows", range(1, MAX_BATCH_SIZE + 1))
def test_every_batch_size_up_to_the_greatest_is_taken_and_counted(bench: Bench, rows: int) -> None:
    inputs = tensors(rows)
    counted = {backend: bench.engine.statistics(f"{backend}_batched")[0].inference_count for backend in BACKENDS}
    assert bench.the_outcome("batched", lambda name: InferenceRequest(name, inputs)) == echo(inputs)
    for backend in BACKENDS:
        picture = bench.engine.statistics(f"{backend}_batched")[0]
        assert picture.inference_count == counted[backend] + rows
        assert picture.batches[rows - 1].batch_size == rows


def test_a_megabyte_of_each_datatype_comes_back(bench: Bench) -> None:
    large = {
        str(datatype): Tensor.from_numpy(numbers(datatype, (1, 1 << 20))) for datatype in PAIRS if datatype.itemsize
    }
    inputs = tensors(1, **large)
    assert bench.the_outcome("plain", lambda name: InferenceRequest(name, inputs)) == echo(inputs)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(
    "asked",
    [("OUTPUT_FP32",), ("OUTPUT_BYTES", "OUTPUT_BOOL"), ("OUTPUT_UINT8", "OUTPUT_UINT8")],
    ids=["one", "two, not in the model's order", "one, twice"],
)
def test_the_outputs_that_are_asked_for_come_and_no_others(bench: Bench, model: str, asked: tuple[str, ...]) -> None:
    inputs = tensors()
    outcome = bench.the_outcome(model, lambda name: InferenceRequest(name, inputs, requested_outputs=asked))
    assert outcome.outputs == {name: found for name, found in echo(inputs).outputs.items() if name in asked}


def test_parameters_and_ids_change_nothing_in_the_outputs(bench: Bench) -> None:
    inputs = tensors()
    parameters: dict[str, Any] = {"text": "é\0", "whole": -(2**63), "yes": True, "real": 1e-300}

    def make(name: str) -> InferenceRequest:
        return InferenceRequest(
            name, inputs, request_id="7", parameters=dict(parameters), priority=3, correlation_id="s", timeout_us=10**9
        )

    assert bench.the_outcome("batched", make) == echo(inputs)


def wrong_number(name: str) -> InferenceRequest:
    return InferenceRequest(name, {})


def broken(datatype: Datatype, shape: tuple[int, ...], buffer: bytes) -> Callable[[str], InferenceRequest]:
    """A request whose input of that datatype is this tensor."""
    return lambda name: InferenceRequest(name, tensors(**{str(datatype): Tensor(datatype, shape, buffer)}))


REFUSALS: dict[str, tuple[Callable[[str], InferenceRequest], str]] = {
    "no input": (wrong_number, "expected 13 inputs but got 0 inputs for model 'MODEL'"),
    "one is missing": (
        lambda name: InferenceRequest(name, tensors(UINT8=None)),
        "missing required input(s) ['INPUT_UINT8']",
    ),
    "one is unknown": (
        lambda name: InferenceRequest(name, {**tensors(UINT8=None), "OTHER": Tensor(Datatype.UINT8, (1, 1), b"\0")}),
        "unexpected inference input 'OTHER' for model 'MODEL'",
    ),
    "another datatype": (
        lambda name: InferenceRequest(name, tensors(FP32=Tensor(Datatype.INT32, (1, 1), bytes(4)))),
        "input 'INPUT_FP32' data-type is 'INT32', but model 'MODEL' expects 'FP32'",
    ),
    "a dimension too many": (
        broken(Datatype.FP32, (1, 1, 1), bytes(4)),
        "unexpected shape for input 'INPUT_FP32' for model 'MODEL'. Expected [-1,-1], got [1,1,1].",
    ),
    "too few bytes": (broken(Datatype.INT16, (1, 2), bytes(3)), "Expected 4, got 3"),
    "too many bytes": (broken(Datatype.INT16, (1, 2), bytes(5)), "Expected 4, got 5"),
    "text that is cut off": (
        broken(Datatype.BYTES, (1, 1), b"\x05\0\0\0abc"),
        "expecting string of length 5 but only 3 bytes available",
    ),
    "a length that is cut off": (broken(Datatype.BYTES, (1, 1), b"\x05\0"), "expecting 4 bytes but only 2 bytes"),
    "too few texts": (broken(Datatype.BYTES, (1, 2), encode_bytes(np.array([b"a"]))), "expected 2 string elements"),
    "too many texts": (
        broken(Datatype.BYTES, (1, 1), encode_bytes(np.array([b"a", b"b"]))),
        "unexpected number of string elements 2",
    ),
    "an output that is none": (
        lambda name: InferenceRequest(name, tensors(), requested_outputs=("OUTPUT_FP32", "OTHER")),
        "unexpected inference output 'OTHER' for model 'MODEL'",
    ),
}


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("case", REFUSALS)
def test_a_wrong_request_is_refused_in_the_same_words(bench: Bench, model: str, case: str) -> None:
    make, words = REFUSALS[case]
    outcome = bench.the_outcome(model, make)
    assert outcome.code is Code.INVALID_ARG
    assert words in outcome.message


def test_batches_that_are_too_large_or_do_not_agree_are_refused_in_the_same_words(bench: Bench) -> None:
    outcome = bench.the_outcome("batched", lambda name: InferenceRequest(name, tensors(MAX_BATCH_SIZE + 1)))
    assert outcome.message == "[request id: <id_unknown>] inference request batch-size must be <= 4 for 'MODEL'"
    two_rows = Tensor.from_numpy(np.zeros((2, 1), np.float32))
    outcome = bench.the_outcome("batched", lambda name: InferenceRequest(name, tensors(3, FP32=two_rows)))
    assert (
        outcome.message
        == "[request id: <id_unknown>] input 'INPUT_FP32' batch size does not match other inputs for 'MODEL'"
    )
    outcome = bench.the_outcome("batched", lambda name: InferenceRequest(name, tensors(0)))
    assert outcome.code is Code.INVALID_ARG


def test_a_version_that_is_none_is_refused_in_the_same_words(bench: Bench) -> None:
    outcome = bench.the_outcome("plain", lambda name: InferenceRequest(name, tensors(), model_version=7))
    assert outcome == Outcome(code=Code.NOT_FOUND, message="Request for unknown model: 'MODEL' version 7 is not found")


@pytest.mark.parametrize("backend", BACKENDS)
def test_requests_at_the_same_time_get_their_own_answers_and_all_are_counted(bench: Bench, backend: str) -> None:
    name = f"{backend}_batched"
    before = bench.engine.statistics(name)[0]
    sent: list[tuple[dict[str, Tensor], Future[InferenceResponse]]] = []
    for number in range(48):
        marked = Tensor.from_numpy(np.full((1 + number % MAX_BATCH_SIZE, 2), number, np.int32))
        inputs = tensors(1 + number % MAX_BATCH_SIZE, INT32=marked)
        sent.append((inputs, bench.send(InferenceRequest(name, inputs))))
    for inputs, answer in sent:
        response = answer.result(LIMIT_S)
        assert response.error is None
        assert bytes(response.outputs["OUTPUT_INT32"].view) == bytes(inputs["INPUT_INT32"].view)
    after = bench.engine.statistics(name)[0]
    assert after.success.count - before.success.count == 48
    assert after.inference_count - before.inference_count == sum(1 + number % MAX_BATCH_SIZE for number in range(48))
    assert after.pending == 0


# Differences, each with its reason


def test_only_onnx_and_pytorch_want_text_to_be_utf_8(bench: Bench) -> None:
    """Their strings are text; the protocol's BYTES and Python's bytes are not."""
    inputs = tensors(BYTES=Tensor.from_numpy(np.array([[b"\xff\xfe"]], dtype=object)))
    outcomes = bench.outcomes("batched", lambda name: InferenceRequest(name, inputs))
    assert outcomes["identity"] == outcomes["python"] == echo(inputs)
    for backend in ("onnxruntime", "pytorch"):
        assert outcomes[backend].code is Code.INVALID_ARG
        assert "input 'INPUT_BYTES' of model 'MODEL' is not UTF-8 text" in outcomes[backend].message


def test_only_python_models_cannot_read_bf16(bench: Bench) -> None:
    """numpy, in which they see their tensors, has no such type; the error says so."""
    inputs = {"INPUT_BF16": Tensor.from_numpy(numbers(Datatype.BF16, (1, 2)))}
    outcome = bench.outcome("python", "plain_bf16", lambda name: InferenceRequest(name, inputs))
    assert outcome.code is Code.INTERNAL
    assert "Tensor dtype is BF16 and cannot be converted to NumPy" in outcome.message


def test_only_the_identity_backend_adds_parameters_to_its_responses(bench: Bench) -> None:
    """Triton's identity backend does so, to have each kind of parameter tried."""
    answers = {each: bench.send(InferenceRequest(f"{each}_batched", tensors())).result(LIMIT_S) for each in BACKENDS}
    assert {each for each, answer in answers.items() if answer.parameters} == {"identity"}


@pytest.mark.parametrize("backend", FAILING)
def test_a_failed_execution_is_the_backends_failure_and_the_model_goes_on(bench: Bench, backend: str) -> None:
    """The words are the runtime's; the identity backend cannot fail."""
    before = bench.engine.statistics(f"{backend}_lookup")[0]

    def look_up(*indices: int) -> Callable[[str], InferenceRequest]:
        return lambda name: InferenceRequest(name, {"IN": Tensor.from_numpy(np.array(indices, np.int64))})

    outcome = bench.outcome(backend, "lookup", look_up(0, 5))
    assert outcome.code is Code.INTERNAL
    assert "5" in outcome.message
    assert "bounds" in outcome.message
    wanted = np.array([2, 0, 1], np.float32)
    assert bench.outcome(backend, "lookup", look_up(2, 0, 1)).outputs == {"OUT": ("FP32", (3,), wanted.tobytes())}
    after = bench.engine.statistics(f"{backend}_lookup")[0]
    assert after.failures["BACKEND"] - before.failures["BACKEND"] == 1
    assert after.success.count - before.success.count == 1
