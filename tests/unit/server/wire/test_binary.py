"""The bytes behind the JSON become tensors without being copied."""

from __future__ import annotations

import pytest

from infer.backends.api.datatypes import Datatype
from infer.backends.api.errors import InvalidArgument
from infer.backends.api.model_config import ModelConfig, TensorSpec
from infer.server.lifecycle.signature import ModelSignature
from infer.server.wire import binary


def signature(*dims: int, datatype: str = "FP32", max_batch_size: int = 0, inputs: int = 1) -> ModelSignature:
    specs = tuple(TensorSpec(f"INPUT{index}", Datatype(datatype), dims) for index in range(inputs))
    return ModelSignature(ModelConfig("m", inputs=specs, max_batch_size=max_batch_size))


def test_pieces_of_the_tail_are_views_in_order() -> None:
    body = b"headaaaabbbbbb"
    tail = binary.BinaryTail(memoryview(body)[4:], "m")
    first, second = tail.take("A", 4), tail.take("B", 6)
    tail.finish()
    assert (bytes(first), bytes(second)) == (b"aaaa", b"bbbbbb")
    assert first.obj is body


def test_a_short_tail_names_the_input_and_what_is_missing() -> None:
    tail = binary.BinaryTail(memoryview(bytes(100)), "m")
    tail.take("A", 64)
    with pytest.raises(InvalidArgument) as caught:
        tail.take("B", 64)
    assert str(caught.value) == "unexpected size for input 'B', expecting 28 additional bytes for model 'm'"


def test_bytes_left_over_are_refused() -> None:
    tail = binary.BinaryTail(memoryview(bytes(3)), "m")
    tail.take("A", 2)
    with pytest.raises(InvalidArgument, match="unexpected additional input data for model 'm'"):
        tail.finish()


@pytest.mark.parametrize(
    ("dims", "max_batch_size", "nbytes", "shape"),
    [
        ((-1,), 0, 16, (4,)),
        ((-1,), 8, 16, (1, 4)),
        ((2, -1), 0, 24, (2, 3)),
        ((4,), 0, 16, (4,)),
        ((-1,), 0, 0, (0,)),
        ((-1,), 0, 7, (1,)),
        ((0, -1), 0, 8, (0, 0)),
    ],
)
def test_the_shape_of_a_raw_input_is_deduced_from_its_size(
    dims: tuple[int, ...], max_batch_size: int, nbytes: int, shape: tuple[int, ...]
) -> None:
    tensor = binary.raw_input(signature(*dims, max_batch_size=max_batch_size), memoryview(bytes(nbytes)))
    assert tensor.shape == shape
    assert tensor.byte_size == nbytes


def test_a_raw_string_gets_its_length_in_front() -> None:
    tensor = binary.raw_input(signature(1, datatype="BYTES"), memoryview(b"427"))
    assert bytes(tensor.view) == b"\x03\x00\x00\x00427"
    assert tensor.shape == (1,)


@pytest.mark.parametrize(
    ("model", "phrase"),
    [
        (signature(-1, inputs=3), "Raw request must only have 1 input (found 1) to be deduced but got 3 inputs in 'm'"),
        (signature(-1, -1), "can not be deduced"),
        (signature(2, datatype="BYTES"), "For BYTE datatype raw input 'INPUT0', the model must have input shape [1]"),
        (signature(-1, datatype="BYTES"), "For BYTE datatype raw input 'INPUT0', the model must have input shape [1]"),
    ],
)
def test_a_raw_request_that_says_too_little_is_refused(model: ModelSignature, phrase: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        binary.raw_input(model, memoryview(bytes(8)))
    assert phrase in str(caught.value)
    assert str(caught.value).startswith("[request id: <id_unknown>] ")
