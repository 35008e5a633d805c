"""Names of inputs and outputs against forward()'s arguments and results."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from infer.backends.torch.worker.naming import (
    DICTIONARY,
    Argument,
    NamingError,
    bind_inputs,
    bind_outputs,
    is_text,
    pick,
)

XY = (Argument("x"), Argument("y"))


def bound(names: list[str], *arguments: Argument) -> tuple[list[Any], dict[str, Any]]:
    """What a call gets when every input's value is its own name."""
    return bind_inputs("m", names, arguments).call({name: name for name in names})


def test_inputs_named_as_arguments_go_to_them_in_any_order() -> None:
    assert bound(["y", "x"], *XY) == (["x", "y"], {})


def test_inputs_with_numbers_go_by_number_whatever_stands_before_it() -> None:
    assert bound(["B__1", "A__0"], *XY) == (["A__0", "B__1"], {})


def test_argument_names_win_over_numbers() -> None:
    assert bound(["x__1", "y__0"], Argument("x__1"), Argument("y__0")) == (["x__1", "y__0"], {})


def test_other_inputs_go_in_the_order_of_the_configuration_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "infer.torch"):
        assert bound(["second", "first"], *XY) == (["second", "first"], {})
    assert "model 'm': the inputs are neither all named as arguments of forward() (x, y) nor" in caplog.text


@pytest.mark.parametrize("names", [["x", "other"], ["A__0", "other"], ["A__0", "y"]])
def test_one_name_that_fits_no_rule_sends_all_by_order(names: list[str], caplog: pytest.LogCaptureFixture) -> None:
    assert bound(names, *XY) == (names, {})
    assert "in the order of the configuration" in caplog.text


def test_a_single_input_of_any_name_is_no_reason_for_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    assert bound(["image"], Argument("x")) == (["image"], {})
    assert not caplog.records


def test_the_keys_of_a_dictionary_are_the_names_of_the_inputs() -> None:
    assert bound(["b", "a"], Argument("inputs", DICTIONARY)) == ([{"b": "b", "a": "a"}], {})


def test_an_argument_with_a_default_may_have_no_input() -> None:
    assert bound(["x"], Argument("x"), Argument("y", required=False)) == (["x"], {})


def test_arguments_with_a_gap_between_them_are_passed_by_name() -> None:
    arguments = (Argument("x"), Argument("y", required=False), Argument("z"))
    assert bound(["z", "x"], *arguments) == ([], {"x": "x", "z": "z"})


def test_an_optional_input_that_a_request_leaves_out_is_left_to_its_default() -> None:
    binding = bind_inputs("m", ["x", "y"], (Argument("x"), Argument("y", required=False)))
    assert binding.call({"x": 1}) == ([], {"x": 1})


@pytest.mark.parametrize(
    ("names", "phrase"),
    [
        (["x"], "no input is configured for argument 'y' of forward(); the configured inputs are 'x'"),
        (["A__0"], "no input is configured for argument 'y' of forward()"),
        (["A__0", "A__2"], "input 'A__2' has no argument; those of forward() are 'x', 'y'"),
        (["A__0", "B__0"], "several inputs are numbered 0: 'A__0', 'B__0'"),
        (["a", "b", "c"], "input 'c' has no argument; those of forward() are 'x', 'y'"),
        ([], "no input is configured for argument 'x', 'y' of forward()"),
    ],
)
def test_inputs_that_cannot_be_matched_are_refused_with_both_sides(names: list[str], phrase: str) -> None:
    with pytest.raises(NamingError) as caught:
        bind_inputs("m", names, XY)
    assert f"model 'm': {phrase}" in str(caught.value)


def test_outputs_go_by_number_or_by_order() -> None:
    assert bind_outputs("m", ["OUT__2", "OUT__0"]) == (2, 0)
    assert bind_outputs("m", ["scores", "labels"]) == (0, 1)
    assert bind_outputs("m", ["scores__1", "labels"]) == (0, 1)


def test_a_configuration_without_outputs_is_refused() -> None:
    with pytest.raises(NamingError, match="must contain at least one output, none were specified"):
        bind_outputs("m", [])


def test_two_outputs_of_one_number_are_refused() -> None:
    with pytest.raises(NamingError, match=r"several outputs are numbered 1: 'a__1', 'b__1'"):
        bind_outputs("m", ["a__1", "b__1"])


@pytest.mark.parametrize("result", [(1, 2), [1, 2], {"b": 2, "a": 1}])
def test_a_tuple_a_list_and_a_dictionary_have_several_outputs(result: Any) -> None:
    assert pick(result, ["a", "b"], (0, 1)) == [1, 2]


def test_anything_else_is_one_output() -> None:
    assert pick(7, ["a"], (0,)) == [7]
    assert pick(["s", "t"], ["a"], (0,)) == [["s", "t"]]


def test_an_output_beyond_the_result_is_named_with_both_numbers() -> None:
    with pytest.raises(NamingError, match=r"the model returned 2 output\(s\), and output 'c' is number 2, counted"):
        pick((1, 2), ["a", "c"], (0, 2))


def test_a_key_that_the_dictionary_has_not_is_named_with_those_it_has() -> None:
    with pytest.raises(NamingError, match=r"output 'c' is not in the dictionary that the model returned, .* 'a', 'b'"):
        pick({"a": 1, "b": 2}, ["a", "c"], (0, 1))


def test_only_a_list_of_strings_is_text() -> None:
    assert is_text(["a"])
    assert is_text([])
    assert not any(is_text(value) for value in (["a", 1], ("a",), "a", None))
