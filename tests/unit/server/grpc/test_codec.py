"""A message is read in Triton's order and refused in Triton's words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from infer.backends.api.errors import Code, InferError, InvalidArgument, NotFound
from infer.server.grpc import codec
from infer.server.grpc.facts import ModelFacts

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture
def read(engine: Any) -> Callable[[Any], codec.Decoded]:
    """Reads a message for the sum model."""
    facts = ModelFacts(engine.find("simple"), ("simple", None))

    def read(request: Any) -> codec.Decoded:
        return codec.read_request(request, [memoryview(raw) for raw in request.raw_input_contents], facts)

    return read


def refusal(read: Any, request: Any) -> InferError:
    with pytest.raises(InferError) as caught:
        read(request)
    return caught.value


@pytest.mark.parametrize(
    ("text", "version"), [("", None), ("1", 1), ("+3", 3), ("007", 7), (str(2**63 - 1), 2**63 - 1)]
)
def test_a_version_is_read(text: str, version: int | None) -> None:
    assert codec.read_version(text) == version


@pytest.mark.parametrize("text", ["abc", "1.5", "1a", " 1", str(2**63), "9" * 5000])
def test_what_is_no_version_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument, match="failed to get model version from specified version string"):
        codec.read_version(text)


def test_a_negative_version_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="invalid model version specified '-1'"):
        codec.read_version("-1")


def test_a_whole_request_is_read(read: Any, make: Any, parametrise: Any) -> None:
    request = make.simple(id="7", model_version="1", outputs=[{"name": "OUTPUT1"}, {"name": "OUTPUT0"}])
    parametrise(request, {"priority": ("int64_param", 2), "mine": ("string_param", "x")})
    parametrise(request.outputs[0], {"classification": ("int64_param", 3)})
    decoded = read(request)
    assert decoded.request.request_id == "7"
    assert decoded.version == "1"
    assert (decoded.request.priority, decoded.request.parameters) == (2, {"mine": "x"})
    assert decoded.classes == {"OUTPUT1": 3, "OUTPUT0": 0}
    assert decoded.request.requested_outputs == ("OUTPUT1", "OUTPUT0")
    assert decoded.request.inputs["INPUT0"].as_numpy().tolist() == [list(range(16))]
    assert not decoded.empty_final


def test_raw_contents_are_views_of_what_was_received(read: Any, make: Any) -> None:
    assert isinstance(read(make.simple()).request.inputs["INPUT0"].buffer, memoryview)


def test_raw_contents_too_many_are_left_alone(read: Any, make: Any) -> None:
    request = make.simple()
    request.raw_input_contents.append(b"more")
    assert list(read(request).request.inputs) == ["INPUT0", "INPUT1"]


def test_typed_contents_are_read(read: Any, make: Any) -> None:
    inputs = [make.tensor(name, "INT32", 1, 16, int_contents=range(16)) for name in ("INPUT0", "INPUT1")]
    assert read(make(inputs=inputs)).request.inputs["INPUT1"].as_numpy().tolist() == [list(range(16))]


def test_no_data_for_an_input_is_refused(read: Any, make: Any) -> None:
    request = make.simple()
    del request.raw_input_contents[1]
    assert str(refusal(read, request)) == "unable to find data for input tensor 'INPUT1' for model 'simple' in request."


def test_typed_and_raw_contents_together_are_refused(read: Any, make: Any) -> None:
    request = make.simple()
    request.inputs[1].contents.int_contents.append(1)
    assert str(refusal(read, request)) == (
        "contents field must not be specified when using raw_input_contents for 'INPUT1' for model 'simple'"
    )


@pytest.mark.parametrize(
    ("change", "phrase"),
    [
        (lambda r: r.inputs[0].shape.__setitem__(0, -1), "All input dimensions should be specified for input 'INPUT0'"),
        (lambda r: setattr(r.inputs[0], "datatype", "int32"), "input 'INPUT0' data-type is '<invalid>', but model"),
        (lambda r: setattr(r.inputs[1], "name", "INPUT0"), "[request id: 7] input 'INPUT0' already exists in request"),
        (lambda r: [r.outputs.add(name="A") for _ in range(2)], "[request id: 7] output 'A' already exists in request"),
    ],
)
def test_what_is_said_of_tensors_is_checked(read: Any, make: Any, change: Any, phrase: str) -> None:
    request = make.simple(id="7")
    change(request)
    error = refusal(read, request)
    assert phrase in str(error)
    assert error.code is Code.INVALID_ARG


@pytest.mark.parametrize(
    ("value", "phrase"),
    [
        (("int64_param", 0), "invalid value for 'classification' parameter, expected >= 0"),
        (("int64_param", -1), "invalid value for 'classification' parameter, expected >= 0"),
        (("string_param", "x"), "invalid value type for 'classification' parameter, expected int64_param"),
        (("uint64_param", 3), "invalid value type for 'classification' parameter, expected int64_param"),
    ],
)
def test_a_number_of_classes_that_is_none_is_refused(
    read: Any, make: Any, parametrise: Any, value: Any, phrase: str
) -> None:
    request = make.simple(outputs=[{"name": "OUTPUT0"}])
    parametrise(request.outputs[0], {"classification": value})
    assert phrase in str(refusal(read, request))


REGION = ("string_param", "r")
SIZE = ("int64_param", 64)


@pytest.mark.parametrize(
    ("values", "phrase"),
    [
        (
            {"shared_memory_region": ("int64_param", 1)},
            "'shared_memory_region' parameter for tensor 'INPUT0', expected string",
        ),
        ({"shared_memory_region": REGION}, "'shared_memory_byte_size' must be specified along with"),
        ({"shared_memory_byte_size": SIZE}, "'shared_memory_byte_size' can not be specified without"),
        ({"shared_memory_offset": SIZE}, "'shared_memory_offset' can not be specified without"),
        ({"shared_memory_region": REGION, "shared_memory_byte_size": REGION}, "expected int64_param"),
        ({"shared_memory_region": REGION, "shared_memory_offset": REGION}, "expected int64_param"),
    ],
)
def test_half_of_a_shared_memory_region_is_refused(
    read: Any, make: Any, parametrise: Any, values: Any, phrase: str
) -> None:
    request = make.simple()
    parametrise(request.inputs[0], values)
    error = refusal(read, request)
    assert phrase in str(error)
    assert error.code is Code.INVALID_ARG


def test_a_region_that_nobody_registered_is_not_found(read: Any, make: Any, parametrise: Any) -> None:
    whole = {"shared_memory_region": REGION, "shared_memory_byte_size": SIZE}
    request = make.simple(outputs=[{"name": "OUTPUT0"}])
    parametrise(request.outputs[0], whole)
    assert isinstance(refusal(read, request), NotFound)
    request = make.simple()
    parametrise(request.inputs[0], whole)
    assert str(refusal(read, request)) == "Unable to find shared memory region: 'r'"


def test_a_region_takes_no_contents_and_no_classes(read: Any, make: Any, parametrise: Any) -> None:
    whole = {"shared_memory_region": REGION, "shared_memory_byte_size": SIZE}
    request = make(inputs=[make.tensor("INPUT0", "INT32", 1, 16, int_contents=[1])])
    parametrise(request.inputs[0], whole)
    assert "unexpected 'content' provided when using shared memory" in str(refusal(read, request))
    request = make.simple(outputs=[{"name": "OUTPUT0"}])
    parametrise(request.outputs[0], {**whole, "classification": ("int64_param", 1)})
    assert "output can't set both 'shared_memory_region' and 'classification'" in str(refusal(read, request))
