"""What a person types, as values and arrays."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import numpy as np
import pytest

from infer.backends.api.datatypes import Datatype
from infer.tui import values
from infer.tui.failure import ClientError, Kind

if TYPE_CHECKING:
    from pathlib import Path


def test_options_are_json_or_text_or_a_file(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.arange(3))
    given = values.from_options(["A=[1,2]", "B=hello", "C=0.5", f"D=@{tmp_path / 'a.npy'}"])
    assert given["A"] == [1, 2]
    assert given["B"] == "hello"
    assert given["C"] == 0.5
    assert given["D"].tolist() == [0, 1, 2]


@pytest.mark.parametrize("option", ["A", "=1", "A=@/no/such/file.npy", "A=@/dev/null"])
def test_an_option_that_is_no_input_is_a_usage_error(option: str) -> None:
    with pytest.raises(ClientError) as caught:
        values.from_options([option])
    assert caught.value.kind is Kind.USAGE


@pytest.mark.parametrize("text", ["", "not json", "[1]"])
def test_standard_input_must_be_a_json_object(text: str) -> None:
    with pytest.raises(ClientError) as caught:
        values.from_stdin(io.StringIO(text))
    assert caught.value.kind is Kind.USAGE


def test_large_integers_stay_exact() -> None:
    assert values.to_array("A", Datatype.INT64, [2**62 + 1]).tolist() == [2**62 + 1]
    assert values.to_array("A", Datatype.UINT64, [2**64 - 1]).tolist() == [2**64 - 1]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_nobody_waits_for_a_person_to_type_json() -> None:
    with pytest.raises(ClientError) as caught:
        values.from_stdin(Terminal())
    assert caught.value.kind is Kind.USAGE


def test_a_file_of_several_arrays_is_no_input(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.zeros(1))
    with pytest.raises(ClientError, match="cannot be read"):
        values.from_options([f"A=@{tmp_path / 'a.npz'}"])


def test_texts_in_a_file_are_bytes(tmp_path: Path) -> None:
    np.save(tmp_path / "t.npy", np.array(["häh"]))
    assert values.from_options([f"T=@{tmp_path / 't.npy'}"])["T"].tolist() == ["häh".encode()]


@pytest.mark.parametrize(
    ("array", "shape", "fitted"),
    [
        (np.zeros(4), [4], (4,)),
        (np.zeros((2, 2)), [-1, 2, 2], (1, 2, 2)),
        (np.zeros(8), [-1, 4], (2, 4)),
        (np.zeros(6), [-1, 3, -1], (2, 3, 1)),
        (np.zeros(()), [1], (1,)),
        (np.zeros(0), [-1], (0,)),
    ],
)
def test_an_array_is_folded_into_the_shape(array: np.ndarray, shape: list[int], fitted: tuple[int, ...]) -> None:
    assert values.fit(array, "A", shape).shape == fitted
