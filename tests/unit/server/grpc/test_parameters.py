"""Each parameter key takes the protobuf types that Triton's takes, and a refusal says which."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from infer.backends.api.errors import InvalidArgument, Unsupported
from infer.server.grpc import parameters
from infer.server.grpc.messages import message

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture
def given(parametrise: Callable[..., Any]) -> Callable[[dict[str, Any]], Any]:
    """The map of parameters of a request."""
    return lambda values: parametrise(message("ModelInferRequest")(), values).parameters


def test_reserved_and_custom_keys_part(given: Any) -> None:
    values = {
        "sequence_id": ("int64_param", 9),
        "sequence_start": ("bool_param", True),
        "sequence_end": ("bool_param", True),
        "priority": ("uint64_param", 2),
        "timeout": ("int64_param", 5),
        "triton_enable_empty_final_response": ("bool_param", True),
        "a": ("bool_param", True),
        "b": ("int64_param", -1),
        "c": ("string_param", "x"),
        "d": ("double_param", 1.5),
        "binary_data_output": ("string_param", "means nothing here"),
    }
    result, empty_final = parameters.read(given(values))
    assert (result.correlation_id, result.flags, result.priority, result.timeout_us) == (9, 3, 2, 5)
    assert empty_final
    assert result.custom == {"a": True, "b": -1, "c": "x", "d": 1.5, "binary_data_output": "means nothing here"}


def test_nothing_given_says_nothing(given: Any) -> None:
    result, empty_final = parameters.read(given({}))
    assert (result.correlation_id, result.custom, empty_final) == (0, {}, False)


def test_a_sequence_may_have_a_name_and_a_negative_number(given: Any) -> None:
    assert parameters.read(given({"sequence_id": ("string_param", "s")}))[0].correlation_id == "s"
    assert parameters.read(given({"sequence_id": ("int64_param", -1)}))[0].correlation_id == 2**64 - 1


@pytest.mark.parametrize(
    ("key", "value", "phrase"),
    [
        ("sequence_id", ("double_param", 1.5), "'sequence_id' parameter, expected int64_param or string_param."),
        ("sequence_id", ("bool_param", True), "'sequence_id' parameter, expected int64_param or string_param."),
        ("sequence_id", ("uint64_param", 1), "'sequence_id' parameter, expected int64_param or string_param."),
        ("sequence_start", ("string_param", "x"), "invalid value type for 'sequence_start' parameter, expected bool"),
        ("sequence_end", ("int64_param", 1), "invalid value type for 'sequence_end' parameter, expected bool"),
        ("priority", ("string_param", "x"), "'priority' parameter, expected int64_param or uint64_param."),
        ("priority", ("int64_param", -1), "invalid value for 'priority', expected value >= 0."),
        ("timeout", ("string_param", "x"), "invalid value type for 'timeout' parameter, expected int64_param."),
        ("timeout", ("uint64_param", 1), "invalid value type for 'timeout' parameter, expected int64_param."),
        ("timeout", ("int64_param", -1), "invalid value for 'timeout', expected value >= 0."),
        ("triton_enable_empty_final_response", ("string_param", "x"), "expected bool_param."),
        ("triton_x", ("int64_param", 1), "parameter keys starting with 'triton_' are reserved for Triton usage"),
        ("triton_final_response", ("bool_param", True), "are reserved for Triton usage"),
        ("mine", ("uint64_param", 1), "invalid value type for 'mine' parameter"),
        ("mine", None, "invalid value type for 'mine' parameter"),
        ("priority", None, "invalid value type for 'priority' parameter"),
    ],
)
def test_another_type_is_refused_with_the_right_one(given: Any, key: str, value: Any, phrase: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        parameters.read(given({key: value}))
    assert phrase in str(caught.value)


def test_a_long_sequence_name_is_refused(given: Any) -> None:
    parameters.read(given({"sequence_id": ("string_param", "s" * 128)}))
    with pytest.raises(Unsupported, match="129 characters long"):
        parameters.read(given({"sequence_id": ("string_param", "s" * 129)}))


@pytest.mark.parametrize(
    ("value", "field"),
    [
        (True, "bool_param"),
        ("x", "string_param"),
        (1.5, "double_param"),
        (-(2**63), "int64_param"),
        (2**63, "uint64_param"),
        (2**70, "double_param"),
    ],
)
def test_a_response_parameter_goes_out_in_the_field_of_its_type(value: Any, field: str) -> None:
    target = message("ModelInferResponse")()
    parameters.write(target.parameters, {"k": value})
    assert target.parameters["k"].WhichOneof("parameter_choice") == field
    assert getattr(target.parameters["k"], field) == value


def test_bytes_that_are_no_text_become_question_marks() -> None:
    assert parameters.clean("a\udcff") == "a?"
