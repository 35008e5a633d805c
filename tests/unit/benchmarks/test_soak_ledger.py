"""What clients saw and what the server counted must add up, and every way in which it does not has its sentence."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from soak_ledger import Counted, Tally, counted, problems

METRICS = """
# HELP nv_inference_request_success Number of successful inference requests, all batch sizes
# TYPE nv_inference_request_success counter
nv_inference_request_success{model="a",version="1"} 7
nv_inference_request_success{model="a",version="2"} 1
nv_inference_request_success{model="b",version="1"} 3.0
nv_inference_request_failure{model="a",reason="CANCELED",version="1"} 4
nv_inference_request_failure{model="a",reason="BACKEND",version="1"} 0
nv_inference_pending_request_count{model="b",version="1"} 2
nv_inference_count{model="a",version="1"} 99
nv_cpu_utilization 0.5
"""


def test_counters_are_read_by_model_over_its_versions() -> None:
    found = counted(METRICS)
    assert found["a"].success == 8
    assert found["a"].failures["CANCELED"] == 4
    assert found["a"].accepted == 12
    assert (found["b"].success, found["b"].pending) == (3, 2)
    assert set(found) == {"a", "b"}


def test_a_difference_keeps_what_is_pending_now() -> None:
    later = Counted(9, Counter(CANCELED=5), pending=1)
    assert later.since(Counted(4, Counter(CANCELED=2), pending=8)) == Counted(5, Counter(CANCELED=3), pending=1)


@pytest.mark.parametrize(
    "had",
    [
        Counted(success=90, failures=Counter(CANCELED=10)),
        Counted(success=90),
        Counted(success=100),
        Counted(success=95, failures=Counter(CANCELED=2)),
    ],
    ids=["all cancelled", "none arrived", "all finished first", "some of each"],
)
def test_a_request_that_was_cut_may_have_met_any_end(had: Counted) -> None:
    assert problems("m", Tally(begun=100, answered=90, cut=10), had) == []


WRONG: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "a call without an end": ({"begun": 101}, {}, "101 begun, but 90 answered + 10 cut"),
    "a refusal": ({"begun": 101, "refused": 1}, {}, "1 requests were refused"),
    "a request that is not counted": ({}, {"success": 80, "failures": {}}, "fewer than the 90 that nobody cut"),
    "a request that nobody began": ({}, {"success": 95, "failures": {"CANCELED": 6}}, "more than the 100 begun"),
    "an answer that is not a success": ({}, {"success": 89}, "89 successes, fewer than the 90 answers"),
    "a success too many": ({}, {"success": 101, "failures": {}}, "101 successes, more than 90 answered + 10 cut"),
    "a failure too many": ({}, {"success": 89, "failures": {"CANCELED": 11}}, "11 failures, more than 10 cut"),
    "a failure for another reason": ({}, {"failures": {"BACKEND": 1}}, "other reasons than a cancel: {'BACKEND': 1}"),
    "something left": ({}, {"pending": 3}, "3 still pending"),
}


@pytest.mark.parametrize(("seen", "had", "sentence"), WRONG.values(), ids=WRONG.keys())
def test_what_does_not_add_up_is_said(seen: dict[str, Any], had: dict[str, Any], sentence: str) -> None:
    tally = Tally(**{"begun": 100, "answered": 90, "cut": 10, **seen})
    fields = {"success": 90, "failures": {"CANCELED": 5}, **had}
    found = problems("m", tally, Counted(**{**fields, "failures": Counter(fields["failures"])}))
    assert any(line.startswith("m: ") and sentence in line for line in found), found


def test_what_clients_saw_wrong_is_passed_on_but_not_without_end() -> None:
    tally = Tally(wrong=[f"wrong {index}" for index in range(8)])
    found = problems("m", tally, Counted())
    assert found[:2] == ["m: wrong 0", "m: wrong 1"]
    assert found[-1] == "m: 3 more like these"
