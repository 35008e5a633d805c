"""The pending queue is first in, first out, and lets go of what is cancelled."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infer.server.scheduling.pending import PendingQueue


def test_items_leave_in_the_order_they_came() -> None:
    queue: PendingQueue[str] = PendingQueue()
    for item in "abc":
        queue.append(item)
    assert [queue.pop(), queue.pop(), queue.pop()] == ["a", "b", "c"]


def test_an_empty_queue_has_nothing_to_pop() -> None:
    with pytest.raises(KeyError):
        PendingQueue[str]().pop()


def test_a_removed_item_never_comes_out() -> None:
    queue: PendingQueue[str] = PendingQueue()
    for item in "abc":
        queue.append(item)
    assert queue.remove("b")
    assert not queue.remove("b")
    assert queue.drain() == ["a", "c"]
    assert len(queue) == 0


@given(st.lists(st.tuples(st.sampled_from(["append", "pop", "remove"]), st.integers(0, 20))))
def test_it_behaves_as_a_list_does(steps: list[tuple[str, int]]) -> None:
    queue: PendingQueue[int] = PendingQueue()
    model: list[int] = []
    for step, item in steps:
        if step == "append" and item not in model:
            queue.append(item)
            model.append(item)
        elif step == "pop" and model:
            assert queue.pop() == model.pop(0)
        elif step == "remove":
            assert queue.remove(item) == (item in model)
            model = [other for other in model if other != item]
        assert len(queue) == len(model)
    assert queue.drain() == model
