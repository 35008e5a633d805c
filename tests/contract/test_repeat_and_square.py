"""The decoupled models of repeat and square behind a whole server."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import infer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

REPEAT = """
backend: "repeat"
model_transaction_policy { decoupled: true }
input [ { name: "IN" data_type: TYPE_INT32 dims: [ -1 ] }, { name: "DELAY" data_type: TYPE_UINT32 dims: [ -1 ] },
        { name: "WAIT" data_type: TYPE_UINT32 dims: [ 1 ] } ]
output [ { name: "OUT" data_type: TYPE_INT32 dims: [ 1 ] }, { name: "IDX" data_type: TYPE_UINT32 dims: [ 1 ] } ]
"""
SQUARE = """
backend: "square"
model_transaction_policy { decoupled: true }
input [ { name: "IN" data_type: TYPE_INT32 dims: [ 1 ] } ]
output [ { name: "OUT" data_type: TYPE_INT32 dims: [ 1 ] } ]
parameters [ { key: "CUSTOM_FAIL_COUNT" value: { string_value: "1" } } ]
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[infer.Server]:
    repository: Path = tmp_path_factory.mktemp("models")
    for name, config in (("repeat_int32", REPEAT), ("square_int32", SQUARE)):
        (repository / name / "1").mkdir(parents=True)
        (repository / name / "config.pbtxt").write_text(config)
    with infer.Server(repository) as running:
        yield running


def repeat(values: list[int], delays: list[int]) -> dict[str, Any]:
    return {"IN": np.array(values, np.int32), "DELAY": np.array(delays, np.uint32), "WAIT": np.array([0], np.uint32)}


def test_elements_come_one_by_one_with_their_index(server: infer.Server) -> None:
    results = list(server.stream("repeat_int32", repeat([5, 6, 7], [0, 20, 0])))
    assert [(int(result["OUT"][0]), int(result["IDX"][0])) for result in results] == [(5, 0), (6, 1), (7, 2)]


def test_requests_of_one_instance_are_under_way_at_the_same_time(server: infer.Server) -> None:
    slow = server.stream("repeat_int32", repeat([1], [60_000]))
    quick = list(server.stream("repeat_int32", repeat([2], [0])))
    assert [int(result["OUT"][0]) for result in quick] == [2]
    closing = threading.Thread(target=slow.close)
    closing.start()
    closing.join(10)
    assert not closing.is_alive()


def test_one_response_that_fails_does_not_take_the_others_along(server: infer.Server) -> None:
    results = server.stream("square_int32", {"IN": np.array([3], np.int32)})
    assert [int(next(results)["OUT"][0]) for _ in range(2)] == [3, 3]
    with pytest.raises(infer.InferError, match="CUSTOM_FAIL_COUNT"):
        next(results)


def test_a_request_that_cannot_be_repeated_is_told_why(server: infer.Server) -> None:
    with pytest.raises(infer.InferError, match="shape to match"):
        list(server.stream("repeat_int32", repeat([1, 2], [0])))
