"""The samples that send several responses, and those that call them."""

from __future__ import annotations

import contextlib
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import infer
from infer.backends.api.errors import Code, InferError

if TYPE_CHECKING:
    from pathlib import Path

SUMS = ("bls_sum", "bls_sum_async")


def repeat(server: infer.Server, values: list[int], delays: list[int], wait: int = 0) -> Any:
    return server.stream(
        "repeat_int32",
        {
            "IN": np.array(values, np.int32),
            "DELAY": np.array(delays, np.uint32),
            "WAIT": np.array([wait], np.uint32),
        },
    )


def square(server: infer.Server, number: int) -> list[int]:
    responses = server.stream("square_int32", {"IN": np.array([number], np.int32)})
    return [int(each["OUT"][0]) for each in responses if each.outputs]


@pytest.mark.parametrize("values", [[4, 2, 0, 1], [7], [], [-5, -5]])
def test_repeat_sends_its_input_element_by_element(server: infer.Server, values: list[int]) -> None:
    responses = [each for each in repeat(server, values, [0] * len(values), wait=1) if each.outputs]
    assert [(int(each["OUT"][0]), int(each["IDX"][0])) for each in responses] == [
        (value, index) for index, value in enumerate(values)
    ]
    assert all((each["OUT"].shape, each["IDX"].dtype) == ((1,), np.uint32) for each in responses)


def test_repeat_takes_the_next_request_before_it_has_answered_the_first(server: infer.Server) -> None:
    with contextlib.closing(repeat(server, [1, 2], [0, 300])) as first:
        assert next(first)["OUT"][0] == 1
        # The only instance answers another one between the responses of the first.
        assert len([each for each in repeat(server, [3], [0]) if each.outputs]) == 1
        assert next(first)["OUT"][0] == 2


@pytest.mark.parametrize("delays", [[], [0], [0, 0, 0]])
def test_repeat_refuses_another_number_of_delays_than_of_elements(server: infer.Server, delays: list[int]) -> None:
    with pytest.raises(InferError, match=f"IN has 2 elements and DELAY {len(delays)}; give a delay") as caught:
        list(repeat(server, [1, 2], delays))
    assert caught.value.code is Code.INVALID_ARG
    assert len([each for each in repeat(server, [3], [0]) if each.outputs]) == 1


@pytest.mark.parametrize("number", [-3, 0, 1, 2, 100])
def test_square_sends_n_times_n(server: infer.Server, number: int) -> None:
    assert square(server, number) == [number] * number


def test_square_answers_several_requests_at_once(server: infer.Server) -> None:
    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda number: square(server, number), range(16)))
    assert answers == [[number] * number for number in range(16)]


def total(server: infer.Server, model: str, numbers: list[int]) -> int:
    return int(server.infer(model, {"IN": np.array(numbers, np.int32)}, timeout_s=60)["SUM"][0])


@pytest.mark.parametrize("model", SUMS)
@pytest.mark.parametrize("numbers", [[4, 2, 0, 1], [3], [], [0], [-2, 2], [200], list(range(40))])
def test_sums_add_up_what_square_sends(server: infer.Server, model: str, numbers: list[int]) -> None:
    assert total(server, model, numbers) == sum(number * number for number in numbers if number > 0)


@pytest.mark.parametrize("model", SUMS)
def test_sums_asked_for_from_many_sides_at_once_are_right(server: infer.Server, model: str) -> None:
    with ThreadPoolExecutor(8) as pool:
        totals = list(pool.map(lambda number: total(server, model, [number, 1]), range(24)))
    assert totals == [number * number + 1 for number in range(24)]


def test_a_sum_says_that_the_model_it_calls_is_not_there(repository: Path) -> None:
    with infer.Server(repository, model_control_mode="explicit", load_model=SUMS) as alone:
        for model in SUMS:
            with pytest.raises(InferError, match="square_int32"):
                total(alone, model, [2])
            assert total(alone, model, []) == 0
