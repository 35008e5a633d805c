"""Request parameters are read as the protocol says, whatever carried them."""

from __future__ import annotations

from typing import Any

import pytest

from infer.backends.api.errors import Code, InferError, Internal
from infer.backends.api.request import SEQUENCE_END, SEQUENCE_START
from infer.server.wire import parameters


def mistyped(key: str, expected: str) -> InferError:
    return Internal(f"{key} is no {expected}")


def test_reserved_keys_go_where_they_belong_and_the_rest_to_the_model() -> None:
    given = parameters.read(
        {
            "sequence_id": 42,
            "sequence_start": True,
            "sequence_end": True,
            "priority": 3,
            "timeout": 2**40,
            "binary_data_output": True,
            "text": "x",
            "count": 7,
            "flag": False,
            "ratio": 0.5,
        },
        mistyped,
    )
    assert given.correlation_id == 42
    assert given.flags == SEQUENCE_START | SEQUENCE_END
    assert (given.priority, given.timeout_us, given.binary_data_output) == (3, 2**40, True)
    assert given.custom == {"text": "x", "count": 7, "flag": False, "ratio": 0.5}


@pytest.mark.parametrize("value", ["", "abc", "x" * 128, 0, 2**64 - 1])
def test_a_sequence_id_is_a_string_or_an_unsigned_integer(value: Any) -> None:
    assert parameters.read({"sequence_id": value}, mistyped).correlation_id == value


def test_a_false_flag_sets_nothing() -> None:
    assert parameters.read({"sequence_start": False, "sequence_end": False}, mistyped).flags == 0


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("sequence_id", 1.5, "unsigned-integer"),
        ("sequence_id", True, "unsigned-integer"),
        ("sequence_id", -1, "unsigned-integer"),
        ("sequence_id", 2**64, "unsigned-integer"),
        ("sequence_start", "true", "boolean"),
        ("sequence_end", 1, "boolean"),
        ("priority", -1, "unsigned-integer"),
        ("timeout", "x", "unsigned-integer"),
        ("binary_data_output", 1, "boolean"),
    ],
)
def test_a_reserved_key_of_the_wrong_type_is_the_doors_own_error(key: str, value: Any, expected: str) -> None:
    with pytest.raises(Internal, match=f"{key} is no {expected}"):
        parameters.read({key: value}, mistyped)


@pytest.mark.parametrize(
    ("values", "code", "phrase"),
    [
        ({"triton_x": 1}, Code.INVALID_ARG, "parameter keys starting with 'triton_' are reserved for Triton usage"),
        ({"k": None}, Code.INVALID_ARG, "parameter 'k' has invalid type"),
        ({"k": [1]}, Code.INVALID_ARG, "parameter 'k' has invalid type"),
        ({"k": {"a": 1}}, Code.INVALID_ARG, "parameter 'k' has invalid type"),
        ({"sequence_id": "x" * 129}, Code.UNSUPPORTED, "129 characters long, the most is 128"),
    ],
)
def test_what_may_not_be_sent_is_refused_with_the_protocols_sentence(
    values: dict[str, Any], code: Code, phrase: str
) -> None:
    with pytest.raises(InferError, match=phrase) as caught:
        parameters.read(values, mistyped)
    assert caught.value.code is code
