"""Which calls wait for themselves: pictures of who waits for whom, and what is seen in them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from infer.server.scheduling.wait_cycles import Place, Queue, Wait, cycle, sentence, stuck

if TYPE_CHECKING:
    from collections.abc import Hashable

    Picture = dict[Hashable, Place | Queue]


def place(instance: str, *waits: tuple[str, Hashable]) -> Place:
    """An execution of the instance ``a_0``, of model ``a``, which waits for (call, node) each."""
    return Place(instance, instance[0], tuple(Wait(*wait) for wait in waits))


def queue(*places: str, free: bool = False) -> Queue:
    return Queue(places, free=free)


ITSELF: Picture = {"a": queue("a_0"), "a_0": place("a_0", ("1", "a"))}
BACK_AND_FORTH: Picture = {
    "a": queue("a_0"),
    "b": queue("b_0"),
    "a_0": place("a_0", ("1", "b_0")),
    "b_0": place("b_0", ("2", "a")),
}
CROSSED: Picture = {
    "a": queue("a_0"),
    "b": queue("b_0"),
    "a_0": place("a_0", ("1", "b")),
    "b_0": place("b_0", ("2", "a")),
}
ONE_COMPUTES: Picture = {"a": queue("a_0", "a_1"), "a_0": place("a_0", ("1", "a")), "a_1": place("a_1")}
ONE_IS_FREE: Picture = {"a": queue("a_0", free=True), "a_0": place("a_0", ("1", "a"))}
BOTH_CALL: Picture = {"a": queue("a_0", "a_1"), "a_0": place("a_0", ("1", "a")), "a_1": place("a_1", ("2", "a"))}
ELSEWHERE: Picture = {"a": queue("a_0"), "a_0": place("a_0", ("1", "unknown"))}
TWO_CALLS: Picture = {
    "a": queue("a_0"),
    "c": queue("c_0"),
    "a_0": place("a_0", ("1", "c"), ("2", "a")),
    "c_0": place("c_0"),
}
BEHIND: Picture = {**ITSELF, "d_0": place("d_0", ("9", "a"))}
WAY_OUT: Picture = {
    **CROSSED,
    "b": queue("b_0", "b_1"),
    "b_1": place("b_1", ("3", "c")),
    "c": queue("c_0"),
    "c_0": place("c_0"),
}
LONG: Picture = {
    "a": queue("a_0"),
    "b": queue("b_0", "b_1"),
    "c": queue("c_0"),
    "a_0": place("a_0", ("1", "b")),
    "b_0": place("b_0", ("2", "c")),
    "b_1": place("b_1", ("3", "c")),
    "c_0": place("c_0", ("4", "a")),
}


@pytest.mark.parametrize(
    ("picture", "nodes"),
    [
        ({}, set()),
        (ITSELF, {"a", "a_0"}),
        (BACK_AND_FORTH, {"a", "a_0", "b", "b_0"}),
        (CROSSED, {"a", "a_0", "b", "b_0"}),
        (ONE_COMPUTES, set()),
        (ONE_IS_FREE, set()),
        (BOTH_CALL, {"a", "a_0", "a_1"}),
        (ELSEWHERE, set()),
        (TWO_CALLS, {"a", "a_0"}),
        (BEHIND, {"a", "a_0", "d_0"}),
        (WAY_OUT, set()),
        (LONG, set(LONG)),
    ],
)
def test_what_cannot_go_on_is_found_and_nothing_else(picture: Picture, nodes: set[Hashable]) -> None:
    assert stuck(picture) == nodes


@pytest.mark.parametrize(
    ("picture", "call", "start", "instances"),
    [
        (ITSELF, "1", "a", ["a_0"]),
        (BACK_AND_FORTH, "2", "a", ["b_0", "a_0"]),
        (BACK_AND_FORTH, "1", "b_0", ["a_0", "b_0"]),
        (CROSSED, "1", "b", ["a_0", "b_0"]),
        (BOTH_CALL, "2", "a", ["a_1"]),
        (TWO_CALLS, "2", "a", ["a_0"]),
        (LONG, "4", "a", ["c_0", "a_0", "b_0"]),
        (LONG, "3", "c", ["b_1", "c_0", "a_0"]),
        (ONE_COMPUTES, "1", "a", []),
        (TWO_CALLS, "1", "c", []),
        (BEHIND, "9", "a", []),
    ],
)
def test_a_circle_is_named_from_the_caller_on_and_only_for_a_call_that_is_part_of_it(
    picture: Picture, call: str, start: str, instances: list[str]
) -> None:
    assert [each.instance for each in cycle(picture, stuck(picture), call, start)] == instances


def test_the_sentence_names_the_circle_and_the_way_out() -> None:
    words = sentence([place("a_0"), place("b_0")], "b")
    assert words.startswith("the call from model 'a' to model 'b' would wait for itself: a_0 → b_0 → a_0; give 'b' ")
    words = sentence([place("a_0")], "a")
    assert words.startswith("the call from model 'a' to itself would wait for itself: a_0 → a_0; give it one more ")
    assert "instance_group" in words
