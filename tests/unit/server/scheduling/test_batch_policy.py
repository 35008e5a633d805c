"""What executes together, and when: Triton's rules as a table, and what holds for every queue."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infer.server.observe.statistics import BatchLimit
from infer.server.scheduling.batch_policy import MIXED_SHARE, BatchPolicy, Formation, Verdict

MS = 1_000_000
DELAY = 100 * MS
PREFER = BatchPolicy(max_rows=8, preferred=frozenset({2, 6}), delay_ns=DELAY)
NO_DELAY = BatchPolicy(max_rows=8, preferred=frozenset({4, 6}))
DEFAULTS = BatchPolicy(max_rows=8, preferred=frozenset({8}))


@dataclass(frozen=True)
class Waiting:
    """A request in the queue: rows, shape, and how long ago it came in milliseconds."""

    rows: int
    shape: str = "s"
    age_ms: int = 0


def verdict(policy: BatchPolicy, queue: list[Waiting]) -> Verdict[Waiting]:
    """What is decided at moment 0."""
    formation: Formation[Waiting] = Formation(policy)
    for request in queue:
        formation.offer(request, request.rows, request.shape, -request.age_ms * MS)
    return formation.decide(0)


def rows(*sizes: int, age_ms: int = 0) -> list[Waiting]:
    return [Waiting(size, age_ms=age_ms) for size in sizes]


@pytest.mark.parametrize(
    ("policy", "queue", "sizes"),
    [
        pytest.param(PREFER, [], [], id="nothing waits"),
        pytest.param(PREFER, rows(2), [2], id="a request of a preferred size goes at once"),
        pytest.param(PREFER, rows(6), [6], id="of the other preferred size too"),
        pytest.param(PREFER, rows(1), [], id="below every preferred size it waits"),
        pytest.param(PREFER, rows(3), [], id="between preferred sizes it waits"),
        pytest.param(PREFER, rows(7), [7], id="above the largest preferred size it goes at once"),
        pytest.param(PREFER, rows(1, 1), [1, 1], id="two that make a preferred size go together"),
        pytest.param(PREFER, rows(1, 3), [], id="two that make none wait together"),
        pytest.param(PREFER, rows(1, 3, age_ms=100), [1, 3], id="until the delay is over"),
        pytest.param(PREFER, rows(1, age_ms=99), [], id="and not a millisecond before"),
        pytest.param(PREFER, rows(3, 7), [3], id="one that the next does not fit beside goes at once"),
        pytest.param(PREFER, rows(3, 4), [3], id="also where the two would fit but exceed the largest preferred size"),
        pytest.param(PREFER, rows(1, 1, 1, 1, 1, 1), [1] * 6, id="the largest preferred size in reach wins"),
        pytest.param(PREFER, rows(1, 1, 1), [1, 1], id="what is beyond a preferred size stays behind"),
        pytest.param(PREFER, rows(3, 4, 1, age_ms=110), [3, 4, 1], id="after the delay a batch grows to the maximum"),
        pytest.param(PREFER, rows(3, 4, 2, age_ms=110), [3, 4], id="and not beyond it"),
        pytest.param(PREFER, [Waiting(1, age_ms=100), Waiting(2)], [1, 2], id="the oldest request's delay counts"),
        pytest.param(NO_DELAY, rows(1, 1, 1), [1, 1, 1], id="without a delay nothing waits"),
        pytest.param(NO_DELAY, rows(1, 1, 1, 1), [1] * 4, id="without a delay a preferred size goes"),
        pytest.param(NO_DELAY, rows(1, 1, 1, 1, 1), [1] * 4, id="without a delay the rest stays behind"),
        pytest.param(NO_DELAY, rows(1, 1, 1, 1, 1, 1, 1), [1] * 6, id="without a delay the largest preferred size"),
        pytest.param(DEFAULTS, rows(5, 3, 1), [5, 3], id="up to the maximum batch size"),
        pytest.param(DEFAULTS, rows(5, 4, 1), [5], id="a request that does not fit is not overtaken"),
        pytest.param(DEFAULTS, rows(8), [8], id="a request as large as the maximum goes alone"),
        pytest.param(BatchPolicy(), rows(1, 1), [1], id="a model that does not batch takes one"),
        pytest.param(
            BatchPolicy(delay_ns=DELAY), rows(1), [1], id="a model that does not batch has nothing to wait for"
        ),
    ],
)
def test_what_goes_now(policy: BatchPolicy, queue: list[Waiting], sizes: list[int]) -> None:
    assert [request.rows for request in verdict(policy, queue).batch] == sizes


def test_what_waits_is_looked_at_again_when_the_oldest_has_waited_for_the_delay() -> None:
    assert verdict(PREFER, [Waiting(1, age_ms=30), Waiting(3, age_ms=10)]).wake_at == 70 * MS


def test_nothing_is_looked_at_again_where_nothing_waits() -> None:
    assert verdict(PREFER, []) == Verdict()


def test_requests_of_mixed_shapes_meet_their_like() -> None:
    a, b, c, d = Waiting(1, "3"), Waiting(1, "5"), Waiting(1, "3"), Waiting(1, "5")
    formation: Formation[Waiting] = Formation(DEFAULTS)
    for request in (a, b, c, d):
        formation.offer(request, 1, request.shape, 0)
    assert formation.decide(0).batch == [a, c]
    assert verdict(DEFAULTS, [b, d]).batch == [b, d]


def test_another_shape_cuts_the_wait_short() -> None:
    queue = [Waiting(1, "3", age_ms=10), Waiting(1, "5")]
    assert verdict(PREFER, queue).wake_at == DELAY // MIXED_SHARE - 10 * MS
    due = [Waiting(1, "3", age_ms=25), Waiting(1, "5")]
    assert verdict(PREFER, due).batch == due[:1]


def test_a_batch_that_is_due_sends_the_older_one_of_another_shape_ahead() -> None:
    queue = [Waiting(1, "3", age_ms=5), Waiting(1, "5"), Waiting(1, "5")]
    assert verdict(PREFER, queue).batch == queue[:1]
    assert verdict(PREFER, queue[1:]).batch == queue[1:]


def test_in_order_another_shape_ends_the_batch() -> None:
    policy = BatchPolicy(max_rows=8, preferred=frozenset({8}), delay_ns=DELAY, in_order=True)
    queue = [Waiting(1, "3"), Waiting(1, "3"), Waiting(1, "5"), Waiting(1, "3")]
    assert verdict(policy, queue).batch == queue[:2]


def test_once_the_first_batch_is_complete_nothing_changes_it() -> None:
    formation: Formation[str] = Formation(DEFAULTS)
    formation.offer("a", 5, None, 0)
    assert not formation.closed
    formation.offer("b", 4, None, 0)
    assert formation.closed
    formation.offer("c", 1, None, 0)
    assert formation.decide(0).batch == ["a"]


MIXED = [Waiting(1, "3"), Waiting(1, "5"), Waiting(1, "3")]
OLD_MIXED = [Waiting(1, "3", age_ms=30), Waiting(1, "5", age_ms=30)]
IN_ORDER = BatchPolicy(max_rows=8, preferred=frozenset({8}), delay_ns=DELAY, in_order=True)


@pytest.mark.parametrize(
    ("policy", "queue", "limit"),
    [
        pytest.param(DEFAULTS, rows(8), BatchLimit.FULL, id="one as large as the maximum"),
        pytest.param(DEFAULTS, rows(5, 3, 1), BatchLimit.FULL, id="several that make the maximum"),
        pytest.param(BatchPolicy(), rows(1, 1), BatchLimit.FULL, id="a model that does not batch"),
        pytest.param(DEFAULTS, [*rows(5, 3), *MIXED], BatchLimit.FULL, id="the maximum, whatever else waits"),
        pytest.param(PREFER, rows(2), BatchLimit.PREFERRED, id="a preferred size"),
        pytest.param(PREFER, rows(1, 1, 1), BatchLimit.PREFERRED, id="a preferred size and one left behind"),
        pytest.param(PREFER, rows(7), BatchLimit.PREFERRED, id="more than the largest preferred size"),
        pytest.param(NO_DELAY, rows(*[1] * 8), BatchLimit.PREFERRED, id="a preferred size though the maximum waits"),
        pytest.param(PREFER, rows(1, 3, age_ms=100), BatchLimit.DELAY, id="the delay"),
        pytest.param(PREFER, rows(2, age_ms=100), BatchLimit.DELAY, id="the delay, by chance with a preferred size"),
        pytest.param(PREFER, rows(3, 4, 1, age_ms=110), BatchLimit.FULL, id="the maximum after the delay"),
        pytest.param(NO_DELAY, rows(1, 1, 1), BatchLimit.NO_OTHERS, id="the end of the queue"),
        pytest.param(DEFAULTS, rows(5, 4, 1), BatchLimit.NEXT, id="one that exceeds the maximum"),
        pytest.param(PREFER, rows(3, 4), BatchLimit.NEXT, id="one that exceeds the largest preferred size"),
        pytest.param(PREFER, rows(3, 4, 2, age_ms=110), BatchLimit.NEXT, id="one that exceeds it after the delay"),
        pytest.param(DEFAULTS, MIXED, BatchLimit.SHAPE, id="another shape"),
        pytest.param(DEFAULTS, MIXED[1:2], BatchLimit.NO_OTHERS, id="the other shape once it is alone"),
        pytest.param(PREFER, OLD_MIXED, BatchLimit.SHAPE, id="a wait that another shape cut short"),
        pytest.param(
            PREFER, [Waiting(1, "3"), *rows(1, 1)], BatchLimit.SHAPE, id="a batch of another shape that is due"
        ),
        pytest.param(
            PREFER, [*rows(1, age_ms=100), Waiting(1, "5")], BatchLimit.SHAPE, id="both the delay and a shape"
        ),
        pytest.param(IN_ORDER, MIXED, BatchLimit.SHAPE, id="another shape that ends the batch"),
        pytest.param(IN_ORDER, rows(1, age_ms=100), BatchLimit.DELAY, id="the delay where the order is kept"),
        pytest.param(
            IN_ORDER, [*rows(5, 3), Waiting(1, "5")], BatchLimit.FULL, id="the maximum where the order is kept"
        ),
    ],
)
def test_a_batch_says_why_it_is_no_larger(policy: BatchPolicy, queue: list[Waiting], limit: BatchLimit) -> None:
    decided = verdict(policy, queue)
    assert decided.batch
    assert decided.limit is limit


def test_what_ended_the_first_batch_stays_the_reason_whatever_comes_later() -> None:
    formation: Formation[str] = Formation(IN_ORDER)
    formation.offer("a", 5, "3", 0)
    formation.offer("b", 4, "3", 0)
    formation.offer("c", 1, "5", 0)
    assert formation.decide(0).limit is BatchLimit.NEXT


POLICIES = st.integers(1, 12).flatmap(
    lambda most: st.builds(
        BatchPolicy,
        max_rows=st.just(most),
        preferred=st.frozensets(st.integers(1, most), max_size=3),
        delay_ns=st.sampled_from([0, 10 * MS, 100 * MS]),
        in_order=st.booleans(),
    )
)
QUEUES = st.lists(st.builds(Waiting, st.integers(1, 12), st.sampled_from("ab"), st.integers(0, 120)), max_size=15)


def fitting(policy: BatchPolicy, queue: list[Waiting]) -> list[Waiting]:
    """The door refuses requests larger than the maximum."""
    return [Waiting(min(each.rows, policy.max_rows), each.shape, each.age_ms) for each in queue]


@given(POLICIES, QUEUES)
def test_a_batch_is_never_too_large_never_mixed_and_never_overtakes_its_like(
    policy: BatchPolicy, queue: list[Waiting]
) -> None:
    queue = fitting(policy, queue)
    batch = list(verdict(policy, queue).batch)
    assert sum(each.rows for each in batch) <= policy.max_rows
    assert len({each.shape for each in batch}) <= 1
    if batch:
        alike = [each for each in queue if each.shape == batch[0].shape]
        assert alike[: len(batch)] == batch


@given(POLICIES, QUEUES)
def test_the_reason_for_a_batch_is_true(policy: BatchPolicy, queue: list[Waiting]) -> None:
    queue = fitting(policy, queue)
    decided = verdict(policy, queue)
    if not decided.batch:
        return
    batch = list(decided.batch)
    size = sum(each.rows for each in batch)
    alike = [each for each in queue if each.shape == batch[0].shape]
    left = alike[len(batch) :]
    true = {
        BatchLimit.FULL: size == policy.max_rows,
        BatchLimit.PREFERRED: size in policy.preferred or size > policy.largest_preferred,
        BatchLimit.NEXT: bool(left) and size + left[0].rows > policy.largest_preferred,
        BatchLimit.SHAPE: len(alike) < len(queue),
        BatchLimit.DELAY: batch == queue and max(each.age_ms for each in batch) * MS >= policy.delay_ns > 0,
        BatchLimit.NO_OTHERS: batch == queue and not policy.delay_ns,
    }
    assert true[decided.limit], (decided, queue)
    assert (decided.limit is BatchLimit.FULL) == true[BatchLimit.FULL]


@given(POLICIES, st.integers(1, 12))
def test_a_request_that_goes_without_the_queue_has_the_reason_that_the_queue_would_give(
    policy: BatchPolicy, size: int
) -> None:
    policy, size = replace(policy, delay_ns=0), min(size, policy.max_rows)
    assert policy.limit_alone(size) is verdict(policy, rows(size)).limit


@given(POLICIES, QUEUES)
def test_whoever_waits_has_a_moment_at_which_it_goes(policy: BatchPolicy, queue: list[Waiting]) -> None:
    queue = fitting(policy, queue)
    formation: Formation[Waiting] = Formation(policy)
    for each in queue:
        formation.offer(each, each.rows, each.shape, -each.age_ms * MS)
    now = formation.decide(0)
    if not queue:
        assert now == Verdict()
    elif not now.batch:
        assert now.wake_at is not None
        assert 0 < now.wake_at <= policy.delay_ns
        assert formation.decide(now.wake_at).batch


@given(POLICIES, QUEUES)
def test_every_request_leaves_in_some_batch(policy: BatchPolicy, queue: list[Waiting]) -> None:
    left = list(enumerate(fitting(policy, queue)))
    now = 0
    for _ in range(3 * len(queue) + 1):
        formation: Formation[tuple[int, Waiting]] = Formation(policy)
        for item in left:
            formation.offer(item, item[1].rows, item[1].shape, -item[1].age_ms * MS)
        decided = formation.decide(now)
        now = decided.wake_at or now
        left = [item for item in left if item not in decided.batch]
    assert left == []


@given(POLICIES, QUEUES)
def test_in_order_the_oldest_request_is_in_the_batch(policy: BatchPolicy, queue: list[Waiting]) -> None:
    queue = fitting(policy, queue)
    batch = verdict(policy, queue).batch
    if policy.in_order and batch:
        assert batch[0] is queue[0]
