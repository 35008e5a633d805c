"""The queue serves level by level, is bounded to the unit, and lets nobody wait longer than it may."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infer.server.scheduling.request_queue import QueuePolicy, QueueSettings, RequestQueue

if TYPE_CHECKING:
    from collections.abc import Iterable

US = 1000


def queue_of(settings: QueueSettings, items: Iterable[tuple[str, int]] = ()) -> RequestQueue[str]:
    queue: RequestQueue[str] = RequestQueue(settings)
    for item, priority in items:
        assert queue.append(item, priority, 0)
    return queue


def test_without_levels_priorities_mean_nothing() -> None:
    assert list(queue_of(QueueSettings(), [("a", 5), ("b", 1), ("c", 0)])) == ["a", "b", "c"]


def test_level_one_is_served_first_and_equals_in_the_order_of_arrival() -> None:
    queue = queue_of(QueueSettings(2, 2), [("x", 2), ("y", 2), ("z", 2), ("a", 1), ("b", 1)])
    assert list(queue) == ["a", "b", "x", "y", "z"]


@pytest.mark.parametrize("priority", [0, 4, 2**64 - 1])
def test_a_priority_that_is_no_level_is_the_default_level(priority: int) -> None:
    queue = queue_of(QueueSettings(3, 2), [("low", 3), ("odd", priority), ("high", 1)])
    assert list(queue) == ["high", "odd", "low"]


def test_two_to_the_64_levels_cost_nothing_until_they_are_used() -> None:
    last = 2**64 - 1
    queue = queue_of(QueueSettings(last, last), [("z", last), ("a", 1)])
    assert list(queue) == ["a", "z"]
    queue.remove("a")
    queue.remove("z")
    assert queue._levels == {}


def test_a_level_is_full_at_its_bound_and_not_one_before() -> None:
    queue = queue_of(QueueSettings(default_policy=QueuePolicy(max_size=2)), [("a", 0), ("b", 0)])
    assert not queue.append("c", 0, 0)
    assert list(queue) == ["a", "b"]
    queue.remove("a")
    assert queue.append("c", 0, 0)
    assert not queue.append("d", 0, 0)


def test_the_bound_counts_per_level_and_a_level_may_have_its_own() -> None:
    settings = QueueSettings(2, 2, QueuePolicy(max_size=1), {1: QueuePolicy(max_size=2)})
    queue = queue_of(settings, [("x", 2), ("a", 1), ("b", 1)])
    assert not queue.append("y", 2, 0)
    assert not queue.append("c", 1, 0)
    assert list(queue) == ["a", "b", "x"]


def test_a_request_is_rejected_when_its_time_is_up_and_not_at_that_moment() -> None:
    queue = queue_of(QueueSettings(default_policy=QueuePolicy(timeout_ns=100)), [("a", 0)])
    assert queue.next_deadline == 100
    assert queue.expire(100) == ([], False)
    assert queue.expire(101) == (["a"], True)
    assert len(queue) == 0
    assert queue.next_deadline is None


def test_a_delayed_request_follows_its_own_level_and_precedes_the_lower_ones() -> None:
    settings = QueueSettings(2, 2, QueuePolicy(), {1: QueuePolicy(timeout_ns=10, delay=True)})
    queue = queue_of(settings, [("late", 1), ("low", 2)])
    assert queue.expire(11) == ([], True)
    queue.append("fresh", 1, 11)
    assert list(queue) == ["fresh", "late", "low"]
    # It has no further deadline.
    queue.remove("fresh")
    assert queue.next_deadline is None
    assert queue.expire(10**9) == ([], False)


def test_a_delayed_request_still_counts_for_the_bound() -> None:
    policy = QueuePolicy(max_size=2, timeout_ns=10, delay=True)
    queue = queue_of(QueueSettings(default_policy=policy), [("late", 0)])
    queue.expire(11)
    assert queue.append("b", 0, 11)
    assert not queue.append("c", 0, 11)
    assert queue.remove("late")
    assert queue.append("c", 0, 11)


@pytest.mark.parametrize(
    ("policy", "asked_us", "deadline"),
    [
        (QueuePolicy(), 0, None),
        (QueuePolicy(), 5, None),
        (QueuePolicy(timeout_ns=1000 * US), 5, 1000 * US),
        (QueuePolicy(timeout_ns=1000 * US, allow_override=True), 0, 1000 * US),
        (QueuePolicy(timeout_ns=1000 * US, allow_override=True), 200, 200 * US),
        (QueuePolicy(timeout_ns=1000 * US, allow_override=True), 5000, 1000 * US),
        (QueuePolicy(allow_override=True), 200, None),
    ],
    ids=[
        "no time-out",
        "a wish where none is allowed",
        "the default alone",
        "no wish",
        "a shorter wish counts",
        "a longer wish does not",
        "a wish cannot shorten what is unlimited",
    ],
)
def test_when_the_time_of_a_request_is_up(policy: QueuePolicy, asked_us: int, deadline: int | None) -> None:
    assert policy.deadline(0, asked_us) == deadline


def test_what_was_removed_never_expires() -> None:
    queue = queue_of(QueueSettings(default_policy=QueuePolicy(timeout_ns=10)), [("a", 0), ("b", 0)])
    assert queue.remove("a")
    assert not queue.remove("a")
    assert "a" not in queue
    assert queue.expire(11) == (["b"], True)


def test_only_the_end_of_the_queue_is_last() -> None:
    queue = queue_of(QueueSettings(2, 2), [("low", 2)])
    assert queue.is_last("low")
    queue.append("high", 1, 0)
    assert not queue.is_last("high")
    queue.append("lower", 2, 0)
    assert queue.is_last("lower")


def test_nothing_is_last_before_what_was_delayed() -> None:
    queue = queue_of(QueueSettings(default_policy=QueuePolicy(timeout_ns=10, delay=True)), [("late", 0)])
    queue.expire(11)
    queue.append("fresh", 0, 11)
    assert not queue.is_last("fresh")


def test_draining_takes_everything_in_the_order_of_service() -> None:
    policy = QueuePolicy(timeout_ns=10)
    queue = queue_of(QueueSettings(2, 2, policy), [("x", 2), ("a", 1)])
    assert queue.drain() == ["a", "x"]
    assert (len(queue), list(queue), queue.next_deadline) == (0, [], None)
    assert queue.expire(11) == ([], False)


class Model:
    """A queue as a list: slow, and plainly right."""

    def __init__(self, settings: QueueSettings) -> None:
        self.settings = settings
        self.rows: list[tuple[int, bool, int, int, int | None]] = []
        """Level, delayed, place, item, deadline."""
        self.place = 0

    def append(self, item: int, priority: int, now: int, asked: int) -> bool:
        level = self.settings.level(priority)
        policy = self.settings.policy(level)
        if policy.max_size and sum(row[0] == level for row in self.rows) >= policy.max_size:
            return False
        self.place += 1
        self.rows.append((level, False, self.place, item, policy.deadline(now, asked)))
        return True

    def expire(self, now: int) -> set[int]:
        due = sorted(
            (row for row in self.rows if row[4] is not None and row[4] < now), key=lambda row: (row[4], row[2])
        )
        rejected: set[int] = set()
        for row in due:
            self.rows.remove(row)
            if self.settings.policy(row[0]).delay:
                self.place += 1
                self.rows.append((row[0], True, self.place, row[3], None))
            else:
                rejected.add(row[3])
        return rejected

    def order(self) -> list[int]:
        return [row[3] for row in sorted(self.rows)]


POLICIES = st.builds(
    QueuePolicy,
    max_size=st.integers(0, 3),
    timeout_ns=st.sampled_from([0, 3 * US, 9 * US]),
    delay=st.booleans(),
    allow_override=st.booleans(),
)
SETTINGS = st.integers(0, 3).flatmap(
    lambda levels: st.builds(
        QueueSettings,
        levels=st.just(levels),
        default_level=st.integers(1, levels) if levels else st.just(0),
        default_policy=POLICIES,
        policies=st.dictionaries(st.integers(1, max(levels, 1)), POLICIES, max_size=2),
    )
)
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["append", "remove", "pass"]), st.integers(0, 4), st.integers(0, 12), st.integers(0, 9 * US)
    ),
    max_size=40,
)


@given(SETTINGS, STEPS)
def test_it_behaves_as_a_sorted_list_does(settings: QueueSettings, steps: list[tuple[str, int, int, int]]) -> None:
    queue: RequestQueue[int] = RequestQueue(settings)
    model = Model(settings)
    now = 0
    for number, (step, priority, asked, passed) in enumerate(steps):
        if step == "append":
            assert queue.append(number, priority, now, asked) == model.append(number, priority, now, asked)
        elif step == "remove" and model.rows:
            row = model.rows[passed % len(model.rows)]
            model.rows.remove(row)
            assert queue.remove(row[3])
        else:
            now += passed
            rejected, _ = queue.expire(now)
            assert set(rejected) == model.expire(now)
        assert list(queue) == model.order()
        assert len(queue) == len(model.rows)
        deadlines = [row[4] for row in model.rows if row[4] is not None]
        assert queue.next_deadline == min(deadlines, default=None)
