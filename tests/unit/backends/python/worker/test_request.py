"""What constructors of ``pb_utils`` take, as the C++ binding of Triton has it, and what they say to the rest."""

from __future__ import annotations

import copy
import json
import pickle
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from infer.backends.python.worker import triton_python_backend_utils as pb_utils
from infer.backends.python.worker.parcels import Signatures

if TYPE_CHECKING:
    from collections.abc import Callable

Raises = pb_utils.TritonModelException
TENSOR = pb_utils.Tensor("x", np.ones(1, np.float32))


def request(**more: Any) -> pb_utils.InferenceRequest:
    arguments: dict[str, Any] = {"inputs": [], "requested_output_names": [], "model_name": "m", **more}
    return pb_utils.InferenceRequest(**arguments)


def test_the_arguments_of_a_request_may_come_by_position_in_tritons_order() -> None:
    memory = pb_utils.PreferredMemory(pb_utils.TRITONSERVER_MEMORY_GPU, 0)
    trace = pb_utils.InferenceTrace()
    made = pb_utils.InferenceRequest("id", "seq", [TENSOR], ["OUT"], "m", 3, 1, 9, memory, trace, {"a": 1})
    assert (made.request_id(), made.correlation_id(), made.flags(), made.timeout()) == ("id", "seq", 1, 9)
    assert made.inputs() == [TENSOR]
    assert made.requested_output_names() == {"OUT"}
    assert made.trace() is trace
    assert json.loads(made.parameters()) == {"a": 1}
    entry = made.entry(1, Signatures())
    assert entry.layout.head == ("m", 3, ("OUT",))


@pytest.mark.parametrize(
    ("arguments", "read", "expected"),
    [
        ({"correlation_id": np.int64(5)}, "correlation_id", 5),
        ({"correlation_id": np.uint64(2**64 - 1)}, "correlation_id", 2**64 - 1),
        ({"correlation_id": True}, "correlation_id", 1),
        ({"flags": np.uint8(3)}, "flags", 3),
        ({"flags": True}, "flags", 1),
        ({"timeout": np.int32(7)}, "timeout", 7),
        ({"timeout": 2**64 - 1}, "timeout", 2**64 - 1),
        ({"inputs": (TENSOR,)}, "inputs", [TENSOR]),
        ({"requested_output_names": ("a", "b")}, "requested_output_names", {"a", "b"}),
        ({"requested_output_names": {"a"}}, "requested_output_names", {"a"}),
        ({"parameters": {}}, "parameters", "{}"),
        ({"parameters": None}, "parameters", "{}"),
        ({"parameters": {"f": 0.5}}, "parameters", '{"f": 0.5}'),
    ],
)
def test_numbers_of_numpy_and_other_sequences_are_taken(arguments: dict[str, Any], read: str, expected: Any) -> None:
    found = getattr(request(**arguments), read)()
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: request(correlation_id=-1), TypeError, "'correlation_id': expected 0 to 18446744073709551615, got -1"),
        (lambda: request(correlation_id=1.0), TypeError, "'correlation_id'"),
        (lambda: request(correlation_id=2**64), TypeError, "'correlation_id'"),
        (lambda: request(correlation_id=b"x"), TypeError, "'correlation_id'"),
        (lambda: request(flags=-1), TypeError, "'flags'"),
        (lambda: request(flags=2**32), TypeError, "'flags'"),
        (lambda: request(flags="1"), TypeError, "'flags'"),
        (lambda: request(timeout=-1), TypeError, "'timeout'"),
        (lambda: request(timeout=0.5), TypeError, "'timeout': expected int, got float"),
        (lambda: request(model_version=2**63), TypeError, "'model_version'"),
        (lambda: request(model_version="1"), TypeError, "'model_version': expected int, got str"),
        (lambda: request(model_name=1), TypeError, "'model_name'"),
        (lambda: request(inputs=TENSOR), TypeError, "'inputs'"),
        (lambda: request(inputs=[np.ones(1)]), TypeError, "'inputs': expected a list of Tensor, found a ndarray"),
        (lambda: request(inputs=[None]), Raises, "'inputs' must not contain None"),
        (lambda: request(requested_output_names="OUT"), TypeError, "'requested_output_names'"),
        (lambda: request(requested_output_names=[1]), TypeError, "'requested_output_names'"),
        (lambda: request(preferred_memory=pb_utils.MemoryType.TRITONSERVER_MEMORY_CPU), TypeError, "'preferred_memory"),
        (lambda: request(trace="x"), TypeError, "'trace'"),
        (lambda: request(priority=1), TypeError, "priority"),
        (lambda: request().set_flags(None), TypeError, "'flags'"),
        (lambda: request().set_flags(-1), TypeError, "'flags'"),
        (lambda: request(parameters=[]), Raises, "got <class 'list'>"),
        (lambda: request(parameters={"x": 2**63}), Raises, "'x' is 9223372036854775808; an integer must fit in 64"),
        (lambda: request(parameters={"x": np.int64(1)}), Raises, "found type <class 'numpy.int64'>"),
        (lambda: request(parameters={"x": "\ud800"}), Raises, "is not UTF-8 text"),
        (lambda: request(parameters={"\ud800": 1}), Raises, "is not UTF-8 text"),
        (pb_utils.InferenceRequest, TypeError, "'inputs'"),
        (lambda: pb_utils.InferenceRequest(inputs=[], model_name="m"), TypeError, "'requested_output_names'"),
        (lambda: pb_utils.InferenceRequest(inputs=[], requested_output_names=[]), TypeError, "'model_name'"),
        (
            lambda: pb_utils.InferenceResponse([1]),
            TypeError,
            "'output_tensors': expected a list of Tensor, found a int",
        ),
        (lambda: pb_utils.InferenceResponse([None]), Raises, "'output_tensors' must not contain None"),
        (lambda: pb_utils.InferenceResponse(TENSOR), TypeError, "'output_tensors'"),
        (lambda: pb_utils.InferenceResponse(parameters={"f": 0.5}), Raises, "bool/int/str, found type <class 'float'>"),
        (lambda: pb_utils.InferenceResponse(parameters={"n": None}), Raises, "found type <class 'NoneType'>"),
        (lambda: pb_utils.InferenceResponse(parameters={"n": 2**63}), Raises, "must fit in 64 bits"),
        (lambda: pb_utils.InferenceResponse(parameters="x"), Raises, ", got <class 'str'>"),
        (lambda: pb_utils.TritonError("x", 3), TypeError, "'code'"),
        (lambda: pb_utils.PreferredMemory(pb_utils.TRITONSERVER_MEMORY_CPU, -1), TypeError, "'preferred_device_id'"),
        (lambda: pb_utils.PreferredMemory(pb_utils.TRITONSERVER_MEMORY_CPU, None), TypeError, "'preferred_device_id'"),
        (lambda: pb_utils.InferenceTrace("x"), TypeError, "argument"),
    ],
)
def test_a_wrong_argument_is_named(make: Callable[[], Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        make()


def test_what_was_given_to_a_request_or_response_may_change_afterwards() -> None:
    inputs, parameters = [TENSOR], {"a": 1}
    made = request(inputs=inputs, parameters=parameters)
    answered = pb_utils.InferenceResponse([TENSOR], parameters=parameters)
    inputs.clear()
    parameters["a"] = 2
    assert made.inputs() == [TENSOR]
    assert json.loads(made.parameters()) == json.loads(answered.parameters()) == {"a": 1}


def test_objects_are_told_apart_by_what_they_are_and_can_be_keys() -> None:
    same = [request(), request(), TENSOR, pb_utils.Tensor("x", TENSOR.as_numpy()), pb_utils.InferenceResponse()]
    assert len(set(same)) == 5
    assert same[0] != same[1]
    assert pb_utils.TritonError.CANCELLED in {pb_utils.TritonError.CANCELLED: 1}
    assert pb_utils.TritonError("x", pb_utils.TritonError.CANCELLED).code() == pb_utils.TritonError.CANCELLED


def test_what_a_model_made_itself_can_be_copied_and_pickled() -> None:
    made = request(inputs=[TENSOR], request_id="r", parameters={"a": True})
    for again in (pickle.loads(pickle.dumps(made)), copy.copy(made), copy.deepcopy(made)):
        assert again.request_id() == "r"
        assert again.inputs()[0].as_numpy().tolist() == [1]
    error = pickle.loads(pickle.dumps(pb_utils.TritonError("bad", pb_utils.TritonError.NOT_FOUND)))
    assert (error.message(), error.code()) == ("bad", pb_utils.TritonError.NOT_FOUND)


def test_a_request_that_was_received_cannot_be_pickled_and_says_what_to_send() -> None:
    received = request()
    received._answer = object()  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(TypeError, match="cannot be pickled; send the arrays of its inputs"):
        pickle.dumps(received)


def test_functions_that_need_a_server_say_where_they_work() -> None:
    with pytest.raises(Raises, match="not available in auto_complete_config: call it in initialize or execute"):
        pb_utils.load_model("m")
    with pytest.raises(Raises, match="custom metrics are not available in auto_complete_config"):
        pb_utils.MetricFamily("n", "", pb_utils.MetricFamily.COUNTER)
    with pytest.raises(TypeError, match="MetricFamily"):
        pb_utils.MetricFamily("n", "", "COUNTER")
