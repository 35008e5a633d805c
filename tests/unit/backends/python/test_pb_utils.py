"""``triton_python_backend_utils``: what models may do with it, and which mistakes raise what."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from infer.backends.python.worker import triton_python_backend_utils as pb_utils
from infer.backends.python.worker.errors import TritonErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable

Raises = pb_utils.TritonModelException
ONE = np.ones(1, np.float32)


def request(**more: Any) -> pb_utils.InferenceRequest:
    arguments: dict[str, Any] = {"inputs": [], "requested_output_names": [], "model_name": "m", **more}
    return pb_utils.InferenceRequest(**arguments)


# -- Tensor -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dtype", "number"),
    [(bool, 1), ("u1", 2), ("u8", 5), ("i1", 6), ("i8", 9), ("f2", 10), ("f4", 11), ("f8", 12), ("S5", 13), ("O", 13)],
)
def test_a_tensor_tells_name_shape_type_and_array(dtype: Any, number: int) -> None:
    array = np.zeros((2, 3), dtype)
    tensor = pb_utils.Tensor("x", array)
    assert (tensor.name(), tensor.shape(), tensor.triton_dtype(), tensor.is_cpu()) == ("x", [2, 3], number, True)
    assert tensor.as_numpy() is array


def test_an_array_in_another_order_is_copied_into_c_order() -> None:
    array = np.arange(6).reshape(2, 3).T
    tensor = pb_utils.Tensor("x", array)
    assert tensor.as_numpy().flags.c_contiguous
    assert tensor.as_numpy().tolist() == array.tolist()


def test_a_big_endian_array_is_turned_round() -> None:
    tensor = pb_utils.Tensor("x", np.array([1, 2], dtype=">i4"))
    assert tensor.wire()[0] == ("x", "INT32", (2,), 8)
    assert bytes(tensor.wire()[1]) == b"\x01\0\0\0\x02\0\0\0"


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: pb_utils.Tensor(None, ONE), TypeError),
        (lambda: pb_utils.Tensor("x", None), TypeError),
        (lambda: pb_utils.Tensor("", None), TypeError),
        (lambda: pb_utils.Tensor("x", [1]), TypeError),
        (lambda: pb_utils.Tensor("x", 1.0), TypeError),
        (lambda: pb_utils.Tensor("", ONE), Raises),
        (lambda: pb_utils.Tensor("x", np.array(["text"])), Raises),
        (lambda: pb_utils.Tensor("x", np.zeros(1, complex)), Raises),
        (lambda: pb_utils.Tensor("x", np.array(["text"]).astype(">U4")), Raises),
        (lambda: pb_utils.Tensor("x", np.array(["text"], np.dtypes.StringDType())), Raises),
        (lambda: pb_utils.Tensor("x", np.array(["\ud800"], object)).wire(), Raises),
        (lambda: pb_utils.Tensor.from_dlpack("x", None), Raises),
        (lambda: pb_utils.Tensor.from_dlpack("", ONE), Raises),
        (lambda: pb_utils.Tensor.from_dlpack("x", np.zeros((2, 3)).T), Raises),
        (lambda: pb_utils.InferenceResponse(None), TypeError),
        (lambda: pb_utils.InferenceResponse([None]), Raises),
        (lambda: pb_utils.InferenceResponse(error="text"), TypeError),
        (lambda: pb_utils.InferenceResponse(parameters=[]), Raises),
        (lambda: pb_utils.InferenceResponse(parameters={1: "x"}), Raises),
        (lambda: pb_utils.InferenceResponse(parameters={"x": [1]}), Raises),
        (lambda: pb_utils.TritonError(None), TypeError),
        (lambda: pb_utils.TritonError("x", None), TypeError),
        (lambda: pb_utils.Logger.log("x", 1), TypeError),
        (lambda: pb_utils.Logger.log("x", None), TypeError),
        (lambda: pb_utils.Logger.log_info(None), TypeError),
        (lambda: pb_utils.PreferredMemory(None), TypeError),
        (lambda: request(inputs=[None]), Raises),
        (lambda: request(requested_output_names=[""]), Raises),
        (lambda: request(requested_output_names=[None]), TypeError),
        (lambda: request(parameters={"x": None}), Raises),
        (lambda: request().exec(), Raises),
        (lambda: request().get_response_sender(), Raises),
        (lambda: pb_utils.triton_string_to_numpy("TYPE_BF16"), KeyError),
        *[
            (lambda name=name: request(**{name: None}), TypeError)
            for name in [
                "request_id",
                "correlation_id",
                "inputs",
                "requested_output_names",
                "model_name",
                "model_version",
                "flags",
                "timeout",
                "preferred_memory",
                "trace",
            ]
        ],
    ],
)
def test_a_mistake_raises_what_it_raises_in_triton(make: Callable[[], Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        make()


def test_the_type_in_a_parameter_error_is_named() -> None:
    with pytest.raises(Raises, match="Expect parameters keys to have type str, found type <class 'int'>"):
        request(parameters={1: 2})
    with pytest.raises(Raises, match="Expect parameters values to have type bool/int/str, found type <class 'list'>"):
        request(parameters={"x": []})


def test_dlpack_works_in_both_directions_without_a_copy() -> None:
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    tensor = pb_utils.Tensor("x", array)
    assert np.shares_memory(np.from_dlpack(tensor), array)
    assert tensor.__dlpack_device__() == (1, 0)
    for source in (array, tensor.to_dlpack()):
        again = pb_utils.Tensor.from_dlpack("y", source)
        assert np.shares_memory(again.as_numpy(), array)
        assert (again.name(), again.shape()) == ("y", [2, 3])
    with pytest.raises(Raises, match="DLPack does not have support for string tensors"):
        pb_utils.Tensor("x", np.array([b"a"], dtype=np.object_)).to_dlpack()


# -- requests, responses, errors ----------------------------------------------------------------------------------


def test_a_request_tells_what_it_was_made_of() -> None:
    tensor = pb_utils.Tensor("x", ONE)
    made = request(
        request_id="r", correlation_id="c", inputs=[tensor], requested_output_names=["a", "b"], flags=1, timeout=5,
        parameters={"k": True, "n": 1, "s": "t"},
    )  # fmt: skip
    assert (made.request_id(), made.correlation_id(), made.flags(), made.timeout()) == ("r", "c", 1, 5)
    assert made.requested_output_names() == {"a", "b"}
    assert json.loads(made.parameters()) == {"k": True, "n": 1, "s": "t"}
    assert made.inputs() == [tensor]
    assert not made.is_cancelled()
    assert made.trace().get_context() is None
    made.set_flags(2)
    assert made.flags() == 2
    assert pb_utils.get_input_tensor_by_name(made, "x") is tensor
    assert pb_utils.get_input_tensor_by_name(made, "y") is None


def test_text_may_be_given_as_an_element_of_a_bytes_tensor() -> None:
    made = request(request_id=b"r", model_name="größe".encode(), requested_output_names=[b"a", "b"])
    assert (made.request_id(), made.model_name()) == ("r", "größe")
    assert made.requested_output_names() == {"a", "b"}
    assert pb_utils.Tensor(b"x", ONE).name() == "x"
    assert pb_utils.TritonError(b"bad").message() == "bad"
    with pytest.raises(TypeError, match="argument 'model_name' is not UTF-8"):
        request(model_name=b"\xff")


def test_a_response_tells_what_it_was_made_of() -> None:
    tensor = pb_utils.Tensor("x", ONE)
    made = pb_utils.InferenceResponse([tensor], parameters={"a": 1})
    assert (made.output_tensors(), made.has_error(), made.error()) == ([tensor], False, None)
    assert json.loads(made.parameters()) == {"a": 1}
    assert pb_utils.get_output_tensor_by_name(made, "x") is tensor
    assert pb_utils.get_output_tensor_by_name(made, "y") is None
    assert pb_utils.InferenceResponse().parameters() == "{}"
    failed = pb_utils.InferenceResponse([tensor], pb_utils.TritonError("bad"))
    assert (failed.output_tensors(), failed.has_error()) == ([], True)


def test_error_codes_are_tritons() -> None:
    names = [
        "UNKNOWN",
        "INTERNAL",
        "NOT_FOUND",
        "INVALID_ARG",
        "UNAVAILABLE",
        "UNSUPPORTED",
        "ALREADY_EXISTS",
        "CANCELLED",
    ]
    assert [getattr(pb_utils.TritonError, name) for name in names] == list(range(8))
    error = pb_utils.TritonError(message="m", code=pb_utils.TritonError.NOT_FOUND)
    assert (error.message(), error.code(), str(error)) == ("m", TritonErrorCode.NOT_FOUND, "m")
    assert pb_utils.TritonError("m").code() == pb_utils.TritonError.INTERNAL


# -- free functions -----------------------------------------------------------------------------------------------


def test_byte_tensors_are_serialised_as_the_wire_has_them() -> None:
    array = np.array([b"a", "é", b""], dtype=np.object_)
    wire = pb_utils.serialize_byte_tensor(array)
    assert wire == b"\1\0\0\0a\2\0\0\0\xc3\xa9\0\0\0\0"
    assert pb_utils.deserialize_bytes_tensor(wire).tolist() == [b"a", b"\xc3\xa9", b""]
    assert pb_utils.serialize_byte_tensor(np.array([], dtype=np.object_)) == ()
    assert pb_utils.serialize_byte_tensor(ONE) is None
    for broken in (wire[:-1], wire[:2], b"\xff\xff\xff\xff"):
        with pytest.raises(ValueError, match="cut off"):
            pb_utils.deserialize_bytes_tensor(broken)


def test_types_are_translated_by_name_and_number() -> None:
    assert pb_utils.triton_string_to_numpy("TYPE_FP16") is np.float16
    assert pb_utils.triton_string_to_numpy("TYPE_BOOL") is bool
    assert pb_utils.triton_string_to_numpy("TYPE_STRING") is np.object_
    assert [pb_utils.triton_to_numpy_type(number) for number in (0, 1, 12, 13, 14)] == [
        None,
        np.bool_,
        np.float64,
        np.object_,
        None,
    ]
    kinds = (np.bool_, np.float64, np.object_, np.bytes_, str)
    assert [pb_utils.numpy_to_triton_type(kind) for kind in kinds] == [1, 12, 13, 13, None]


def test_entries_of_a_configuration_are_found_by_name() -> None:
    config = {"input": [{"name": "a"}], "output": [{"name": "b"}], "model_transaction_policy": {"decoupled": True}}
    assert pb_utils.get_input_config_by_name(config, "a") == {"name": "a"}
    assert pb_utils.get_input_config_by_name(config, "b") is None
    assert pb_utils.get_output_config_by_name(config, "b") == {"name": "b"}
    assert pb_utils.using_decoupled_model_transaction_policy(config)
    assert not pb_utils.using_decoupled_model_transaction_policy({})


# -- ModelConfig --------------------------------------------------------------------------------------------------

ENTRY = {"name": "x", "data_type": "TYPE_INT8", "dims": [1]}


def test_a_model_config_is_completed_in_place() -> None:
    config = pb_utils.ModelConfig('{"name": "m", "max_batch_size": 2, "input": [{"name": "x", "dims": []}]}')
    config.set_max_batch_size(4)
    config.add_input(ENTRY)
    config.add_output(ENTRY)
    config.set_dynamic_batching()
    config.set_model_transaction_policy({"decoupled": False})
    assert config.as_dict() == {
        "name": "m",
        "max_batch_size": 4,
        "input": [ENTRY],
        "output": [ENTRY],
        "dynamic_batching": {},
        "model_transaction_policy": {"decoupled": False},
    }


@pytest.mark.parametrize(
    ("method", "argument"),
    [
        ("set_max_batch_size", 1),
        ("add_input", {**ENTRY, "data_type": "TYPE_INT16"}),
        ("add_input", {**ENTRY, "dims": [2]}),
        ("add_input", {**ENTRY, "optional": False}),
        ("add_input", {**ENTRY, "colour": "red"}),
        ("add_input", {"name": "y", "dims": [1]}),
        ("add_output", {**ENTRY, "optional": True}),
        ("set_model_transaction_policy", {"decoupled": False}),
        ("set_model_transaction_policy", {"coupled": True}),
    ],
)
def test_a_completion_that_contradicts_the_configuration_is_a_value_error(method: str, argument: Any) -> None:
    document = {
        "max_batch_size": 2,
        "input": [{**ENTRY, "optional": True}],
        "model_transaction_policy": {"decoupled": True},
        "sequence_batching": {},
    }
    config = pb_utils.ModelConfig(json.dumps(document))
    with pytest.raises(ValueError):  # noqa: PT011  the interface says no more
        getattr(config, method)(argument)
    with pytest.raises(ValueError, match="sequence_batching"):
        config.set_dynamic_batching()


def test_a_line_without_a_server_goes_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    pb_utils.Logger.log_warn("careful")
    pb_utils.Logger.log("fine", pb_utils.Logger.VERBOSE)
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith("W")
    assert "test_pb_utils.py:" in first
    assert first.endswith("] careful")
    assert second.startswith("I")
