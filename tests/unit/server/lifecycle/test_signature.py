"""A request is checked against the model in Triton's order and refused in Triton's words."""

from __future__ import annotations

import numpy as np
import pytest

from infer.backends.api.datatypes import Datatype
from infer.backends.api.errors import InvalidArgument
from infer.backends.api.model_config import ModelConfig, TensorSpec
from infer.backends.api.request import InferenceRequest
from infer.backends.api.tensor import Tensor
from infer.server.lifecycle.signature import ModelSignature

A = TensorSpec("A", Datatype.INT32, (16,))
B = TensorSpec("B", Datatype.INT32, (16,))
TEXT = TensorSpec("TEXT", Datatype.BYTES, (-1,))
OUT = TensorSpec("OUT", Datatype.INT32, (16,))


def signature(*inputs: TensorSpec, max_batch_size: int = 8) -> ModelSignature:
    return ModelSignature(ModelConfig("m", max_batch_size=max_batch_size, inputs=inputs, outputs=(OUT,)))


def int32(*shape: int) -> Tensor:
    return Tensor.from_numpy(np.zeros(shape, np.int32))


def raw(shape: tuple[int, ...], buffer: bytes, datatype: Datatype = Datatype.INT32) -> Tensor:
    return Tensor(datatype, shape, buffer)


def refusal(it: ModelSignature, inputs: dict[str, Tensor], **fields: object) -> str:
    with pytest.raises(InvalidArgument) as caught:
        it.check(InferenceRequest("m", inputs, **fields))
    return str(caught.value)


@pytest.mark.parametrize("rows", [1, 8])
def test_the_batch_size_is_the_leading_dimension(rows: int) -> None:
    request = InferenceRequest("m", {"A": int32(rows, 16), "B": int32(rows, 16)})
    signature(A, B).check(request)
    assert request.batch_size == rows


def test_a_model_without_a_batch_dimension_takes_its_dims_as_they_are() -> None:
    request = InferenceRequest("m", {"A": int32(16)})
    signature(A, max_batch_size=0).check(request)
    assert request.batch_size == 1


def test_an_optional_input_may_be_left_out() -> None:
    optional = TensorSpec("B", Datatype.INT32, (16,), optional=True)
    signature(A, optional).check(InferenceRequest("m", {"A": int32(1, 16)}))


def test_a_refusal_names_the_request_or_says_that_it_has_no_name() -> None:
    assert refusal(signature(A), {}).startswith("[request id: <id_unknown>] ")
    assert refusal(signature(A), {}, request_id="7").startswith("[request id: 7] ")


@pytest.mark.parametrize(
    ("inputs", "sentence"),
    [
        (
            {"A": int32(1, 16)},
            "Got input(s) ['A'], but missing required input(s) ['B']. Please provide all required input(s).",
        ),
        ({"A": int32(1, 16), "B": int32(1, 16), "C": int32(1, 16)}, "expected 2 inputs but got 3 inputs"),
        ({"A": int32(1, 16), "C": int32(1, 16)}, "unexpected inference input 'C' for model 'm'"),
        ({"A": int32(1, 16), "B": raw((), b"")}, "input 'B' has no shape but model requires batch dimension for 'm'"),
        ({"A": int32(1, 16), "B": int32(2, 16)}, "input 'B' batch size does not match other inputs for 'm'"),
        ({"A": int32(9, 16), "B": int32(9, 16)}, "inference request batch-size must be <= 8 for 'm'"),
        (
            {"A": int32(1, 16), "B": Tensor.from_numpy(np.zeros((1, 16), np.float32))},
            "inference input 'B' data-type is 'FP32', but model 'm' expects 'INT32'",
        ),
        (
            {"A": int32(1, 8), "B": int32(1, 8)},
            "unexpected shape for input 'A' for model 'm'. Expected [-1,16], got [1,8]. NOTE: Setting a non-zero",
        ),
        ({"A": int32(1, 4, 4), "B": int32(1, 16)}, "Expected [-1,16], got [1,4,4]. "),
        ({"A": int32(0, 16), "B": int32(0, 16)}, "byte size mismatch for input 'A' for model 'm'. Expected 64, got 0"),
        (
            {"A": raw((1, 16), b"\0" * 60), "B": int32(1, 16)},
            "input byte size mismatch for input 'A' for model 'm'. Expected 64, got 60",
        ),
    ],
)
def test_bad_inputs_are_refused_with_both_numbers(inputs: dict[str, Tensor], sentence: str) -> None:
    assert sentence in refusal(signature(A, B), inputs)


def test_the_expected_number_is_a_range_where_inputs_are_optional() -> None:
    optional = TensorSpec("C", Datatype.INT32, (16,), optional=True)
    sentence = refusal(signature(A, B, optional), {"A": int32(1, 16)})
    assert "expected number of inputs between 2 and 3 but got 1 inputs" in sentence
    assert "missing required input(s) ['B']" in sentence


def test_a_required_input_is_missed_also_when_the_number_is_right() -> None:
    optional = TensorSpec("C", Datatype.INT32, (16,), optional=True)
    inputs = {"A": int32(1, 16), "C": int32(1, 16)}
    assert "missing required input(s) ['B']" in refusal(signature(A, B, optional), inputs)


def test_an_unknown_output_is_refused_before_anything_else() -> None:
    assert "unexpected inference output 'X' for model 'm'" in refusal(signature(A), {}, requested_outputs=("X",))


def test_a_model_that_does_not_batch_gets_no_note_about_batches() -> None:
    sentence = refusal(signature(A, max_batch_size=0), {"A": int32(1, 16)})
    assert sentence.endswith("Expected [16], got [1,16]. ")


@pytest.mark.parametrize(
    ("buffer", "sentence"),
    [
        (b"\1\0\0\0a", "expected 2 string elements for inference input 'TEXT' for model 'm', got 1"),
        (b"\1\0\0\0a" * 3, "unexpected number of string elements 3 for inference input 'TEXT'"),
        (b"\1\0\0\0a\2\0", "incomplete string length indicator for inference input 'TEXT'"),
        (b"\1\0\0\0a\x2c\1\0\0abc", "expecting string of length 300 but only 3 bytes available"),
        (b"", "expected 2 string elements for inference input 'TEXT' for model 'm', got 0"),
        (b"\xff\xff\xff\xff", "expecting string of length 4294967295 but only 0 bytes available"),
    ],
)
def test_the_framing_of_bytes_is_checked(buffer: bytes, sentence: str) -> None:
    assert sentence in refusal(signature(TEXT), {"TEXT": raw((1, 2), buffer, Datatype.BYTES)})


MANY = 200
WORDS = [b"ab"] * MANY
MIXED = [b"a" * (number % 5) for number in range(MANY)]


def framed(elements: list[bytes]) -> bytes:
    return b"".join(len(element).to_bytes(4, "little") + element for element in elements)


@pytest.mark.parametrize("elements", [WORDS, MIXED, [b""] * MANY], ids=["one length", "many lengths", "no length"])
def test_many_elements_are_counted(elements: list[bytes]) -> None:
    text = TensorSpec("TEXT", Datatype.BYTES, (-1,))
    good = framed(elements)
    signature(text).check(InferenceRequest("m", {"TEXT": raw((1, MANY), good, Datatype.BYTES)}))
    for shape, buffer, sentence in (
        ((1, MANY + 1), good, f"expected {MANY + 1} string elements"),
        ((1, MANY - 1), good, f"unexpected number of string elements {MANY}"),
        ((1, MANY), good[:-1], "incomplete string"),
    ):
        assert sentence in refusal(signature(text), {"TEXT": raw(shape, buffer, Datatype.BYTES)})


def test_one_wrong_length_among_many_right_ones_is_found() -> None:
    text = TensorSpec("TEXT", Datatype.BYTES, (-1,))
    broken = bytearray(framed(WORDS))
    broken[6 * 100] = 3
    assert "string" in refusal(signature(text), {"TEXT": raw((1, MANY), bytes(broken), Datatype.BYTES)})


def test_elements_of_no_length_are_elements() -> None:
    signature(TEXT).check(InferenceRequest("m", {"TEXT": raw((1, 2), b"\0" * 8, Datatype.BYTES)}))


def test_metadata_shows_the_batch_dimension_only_where_there_is_one() -> None:
    assert signature(A).full_shape(A) == [-1, 16]
    assert signature(A, max_batch_size=0).full_shape(A) == [16]


def test_the_backend_gets_the_reshaped_input_and_the_caller_s_tensor_stays_as_it_is() -> None:
    spec = TensorSpec("A", Datatype.INT32, (-1, 2), reshape=(2, -1))
    given = int32(3, 5, 2)
    request = InferenceRequest("m", {"A": given})
    signature(spec).check(request)
    assert request.inputs["A"].shape == (3, 2, 5)
    assert request.inputs["A"].buffer is given.buffer
    assert given.shape == (3, 5, 2)
