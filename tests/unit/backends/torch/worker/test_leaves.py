"""Names of tensors in nested arguments and results."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from infer.backends.torch.worker.leaves import bind, input_paths, output_paths
from infer.backends.torch.worker.naming import NamingError

TREE = (({"a": 0, "b": 1}, 2), {"mask": 3})
PATHS = input_paths(TREE, ("d", "x", "mask"))
RESULTS = output_paths({"scores": 0, "more": [1, 2]})


def test_every_tensor_has_a_path() -> None:
    assert {path: PATHS[path] for path in ("ARGS[0][a]", "ARGS[0][b]", "ARGS[1]", "KWARGS[mask]")} == {
        "ARGS[0][a]": 0,
        "ARGS[0][b]": 1,
        "ARGS[1]": 2,
        "KWARGS[mask]": 3,
    }


def test_an_argument_that_is_one_tensor_has_its_own_name_too() -> None:
    assert (PATHS["x"], PATHS["mask"]) == (2, 3)
    assert "d" not in PATHS


def test_the_only_argument_s_keys_are_names() -> None:
    paths = input_paths((({"a": 0, "b": 1},), {}))
    assert (paths["a"], paths["b"]) == (0, 1)
    assert "a" not in PATHS


def test_results_have_paths_and_keys() -> None:
    assert RESULTS == {"RESULT[scores]": 0, "RESULT[more][0]": 1, "RESULT[more][1]": 2, "scores": 0}
    assert output_paths(0) == {"RESULT": 0}
    assert output_paths((0, 1)) == {"RESULT[0]": 0, "RESULT[1]": 1}


@pytest.mark.parametrize(
    "names",
    [
        ["ARGS[0][a]", "ARGS[0][b]", "ARGS[1]", "KWARGS[mask]"],
        ['ARGS[0]["a"]', "ARGS[0]['b']", "ARGS[1]", 'KWARGS["mask"]'],
        ["ARGS[0][a]", "ARGS[0][b]", "x", "mask"],
        ["INPUT__0", "INPUT__1", "INPUT__2", "INPUT__3"],
    ],
)
def test_paths_names_and_ordinals_are_places(names: list[str]) -> None:
    assert bind("m", "input", names, PATHS) == (0, 1, 2, 3)
    assert bind("m", "input", names[::-1], PATHS) == (3, 2, 1, 0)


def test_other_names_are_taken_in_order_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "infer.torch"):
        assert bind("m", "output", ["one", "two"], RESULTS) == (0, 1)
    assert "model 'm': the outputs are neither all paths of the model nor <name>__<index>" in caplog.text


def test_outputs_may_be_left_out_and_inputs_may_not() -> None:
    assert bind("m", "output", ["RESULT[more][1]"], RESULTS) == (2,)
    with pytest.raises(NamingError, match=r"model 'm' takes 4 inputs, and 2 are configured; it takes ARGS\[0\]\[a\],"):
        bind("m", "input", ["ARGS[1]", "mask"], PATHS)


@pytest.mark.parametrize(
    ("side", "names", "paths", "phrase"),
    [
        ("input", ["ARGS[7]"], PATHS, "input 'ARGS[7]' is no path of the model; its inputs are ARGS[0][a], ARGS[0][b]"),
        ("output", ["RESULT[lost]"], RESULTS, "output 'RESULT[lost]' is no path of the model; its outputs are"),
        ("output", ["OUT__3"], RESULTS, "output 'OUT__3' is beyond the 3 output(s) of the model"),
        ("output", ["a__0", "b__0"], RESULTS, "several outputs are numbered 0"),
    ],
)
def test_names_of_nothing_are_refused_with_those_there_are(
    side: str, names: list[str], paths: Any, phrase: str
) -> None:
    with pytest.raises(NamingError) as caught:
        bind("m", side, names, paths)
    assert phrase in str(caught.value)
