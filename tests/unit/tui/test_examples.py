"""A form begins with values that the model takes, and reads what a person writes."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from infer.backends.api.datatypes import BY_WIRE_NAME
from infer.tui import examples, inference
from infer.tui.failure import ClientError

if TYPE_CHECKING:
    from pathlib import Path

DATATYPES = sorted(BY_WIRE_NAME)


def spec(datatype: str, *shape: int) -> dict[str, Any]:
    return {"name": "X", "datatype": datatype, "shape": list(shape)}


@pytest.mark.parametrize(
    ("wanted", "text"),
    [
        (spec("INT32", -1, 4), "[[0,1,2,3]]"),
        (spec("FP32", 2), "[0.0,1.0]"),
        (spec("BOOL", 2), "[true,false]"),
        (spec("BYTES", -1, 1), '[["hello"]]'),
        (spec("FP32", -1, 3, 224, 224), "@zeros"),
        (spec("BYTES", 100), "@ones"),
        (spec("INT8"), "0"),
        (spec("INT8", 0), "[]"),
    ],
)
def test_a_field_begins_with_small_values_or_a_word(wanted: dict[str, Any], text: str) -> None:
    assert examples.example(wanted) == text


@given(st.sampled_from(DATATYPES), st.lists(st.sampled_from([-1, 1, 2, 3, 40]), min_size=1, max_size=4))
def test_every_example_and_every_word_fits_its_model(datatype: str, shape: list[int]) -> None:
    wanted = spec(datatype, *shape)
    if math.prod(examples.concrete(shape)) > 5000:
        return
    for text in (examples.example(wanted), *examples.WORDS):
        value = examples.read(wanted, text)
        array = inference.fit(inference.to_array("X", BY_WIRE_NAME[datatype], value), "X", shape)
        assert array.shape == tuple(examples.concrete(shape))
        assert array.dtype == BY_WIRE_NAME[datatype].numpy or datatype == "BYTES"


@given(st.lists(st.integers(1, 4), min_size=1, max_size=4))
def test_nested_lists_have_the_shape(shape: list[int]) -> None:
    values = list(range(math.prod(shape)))
    assert np.array(examples.fold(values, shape)).shape == tuple(shape)


def test_words_fill_with_what_they_say() -> None:
    assert examples.fill(spec("INT32", 2), "@ones").tolist() == [1, 1]
    assert examples.fill(spec("FP32", -1, 2), "@zeros").tolist() == [[0.0, 0.0]]
    random = examples.fill(spec("FP64", 50), "@random")
    assert 0 <= random.min() < random.max() < 1
    assert random.tolist() == examples.fill(spec("FP64", 50), "@random").tolist()
    assert set(examples.fill(spec("BOOL", 50), "@random").tolist()) == {True, False}


def test_a_field_is_json_text_or_a_file(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.arange(3))
    filled = [(spec("INT32", 3), " [1,2,3] "), ({**spec("BYTES", 1), "name": "T"}, "hello = you")]
    assert examples.read_all(filled) == {"X": [1, 2, 3], "T": "hello = you"}
    assert examples.read(spec("INT32", 3), f"@{tmp_path / 'a.npy'}").tolist() == [0, 1, 2]
    with pytest.raises(ClientError):
        examples.read(spec("INT32", 3), "@/no/such/file.npy")


def test_an_example_is_json_that_a_person_can_change() -> None:
    assert json.loads(examples.example(spec("UINT8", 2, 2))) == [[0, 1], [2, 3]]
