"""Sequences get a slot, keep it, and leave it; what happens is decided by calls and a clock that is an argument."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from infer.server.scheduling.sequence_slots import SequenceSlots, Slot

if TYPE_CHECKING:
    from collections.abc import Hashable

IDLE = 1000


class Table:
    """Slots, and requests named by what they are."""

    def __init__(self, instances: int = 1, slots: int = 2) -> None:
        self.slots: SequenceSlots[str] = SequenceSlots(instances, slots, IDLE)
        self.now = 0

    def start(self, key: Hashable, *, end: bool = False, deadline: int | None = None) -> Slot | None:
        """The first request of a sequence: the slot it has."""
        return self.send(key, "0", start=True, end=end, deadline=deadline)

    def send(
        self, key: Hashable, number: str, *, start: bool = False, end: bool = False, deadline: int | None = None
    ) -> Slot | None:
        """A request: the slot its sequence has. Fails where it is refused."""
        sequence = self.slots.join(key, f"{key}{number}", self.now, start=start, end=end, deadline=deadline)
        assert sequence is not None
        return sequence.slot

    def take(self, instance: int = 0) -> list[str]:
        """Have everything that is ready execute."""
        return [self.slots.take(sequence) for sequence in self.slots.ready(instance)]

    def run(self, instance: int = 0) -> list[str]:
        """The same, to its end."""
        items = self.take(instance)
        for item in items:
            self.slots.release(item, self.now)
        return items


@pytest.fixture
def table() -> Table:
    return Table()


# Places


def test_sequences_spread_over_the_instances_before_they_share_one() -> None:
    table = Table(instances=3, slots=2)
    places = [table.start(key) for key in "abcdef"]
    assert places == [Slot(0, 0), Slot(1, 0), Slot(2, 0), Slot(0, 1), Slot(1, 1), Slot(2, 1)]
    assert table.start("g") is None


def test_the_lowest_row_that_is_free_is_taken_first() -> None:
    table = Table(slots=3)
    for key in "abc":
        table.start(key)
    table.run()
    for key in "ca":
        table.send(key, "1", end=True)
    table.run()
    assert [table.start("d"), table.start("e")] == [Slot(0, 0), Slot(0, 2)]


def test_a_sequence_stays_where_it_is(table: Table) -> None:
    first = table.start("a")
    table.run()
    assert [table.send("a", number) for number in "123"] == [first] * 3


# Order


def test_the_requests_of_a_sequence_execute_one_at_a_time_in_order(table: Table) -> None:
    table.start("a")
    table.send("a", "1")
    table.start("b")
    table.send("a", "2", end=True)
    assert table.slots.waiting == 4
    assert table.take() == ["a0", "b0"]
    assert table.take() == []
    table.slots.release("a0", 0)
    assert table.run() == ["a1"]
    assert table.run() == ["a2"]
    assert table.slots.waiting == 0


def test_what_is_ready_comes_in_the_order_in_which_it_became_so(table: Table) -> None:
    table.start("a")
    table.start("b")
    assert table.take() == ["a0", "b0"]
    for key in "ab":
        table.send(key, "1")
    table.slots.release("b0", 1)
    table.slots.release("a0", 2)
    assert [(sequence.key, sequence.since) for sequence in table.slots.ready(0)] == [("b", 1), ("a", 2)]


# Beginning and end


@pytest.mark.parametrize("before", ["nothing", "end", "idle"])
def test_a_request_without_start_needs_a_sequence_that_goes_on(table: Table, before: str) -> None:
    if before != "nothing":
        table.start("a", end=before == "end")
        table.run()
        table.slots.expire(IDLE)
    assert table.slots.join("a", "a1", 0, start=False, end=False) is None
    assert (table.slots.waiting, "a" in table.slots) == (0, False)


def test_a_sequence_ends_when_its_last_request_has_executed_and_not_before(table: Table) -> None:
    table.start("a", end=True)
    assert "a" not in table.slots
    assert table.take() == ["a0"]
    assert [table.start("b"), table.start("c")] == [Slot(0, 1), None]
    table.slots.release("a0", 0)
    assert table.send("c", "1") == Slot(0, 0)


def test_start_on_a_sequence_that_goes_on_stays_in_its_slot_behind_what_waits(table: Table) -> None:
    first = table.start("a")
    table.send("a", "1")
    assert table.send("a", "2", start=True) == first
    assert [table.run(), table.run(), table.run()] == [["a0"], ["a1"], ["a2"]]


def test_an_id_may_begin_again_while_its_last_sequence_still_executes(table: Table) -> None:
    table.start("a", end=True)
    table.take()
    assert table.start("a") == Slot(0, 1)
    table.slots.release("a0", 0)


def test_numbers_and_texts_are_different_ids(table: Table) -> None:
    assert [table.start(1), table.start("1")] == [Slot(0, 0), Slot(0, 1)]


def test_one_request_may_be_a_whole_sequence_by_the_way_it_is_released(table: Table) -> None:
    table.start("a")
    table.take()
    table.slots.release("a0", 0, ends=True)
    assert "a" not in table.slots
    table.start("b")
    table.send("b", "1")
    table.take()
    table.slots.release("b0", 0, ends=True)
    assert table.run() == ["b1"]


# Backlog


def test_what_finds_no_slot_waits_for_the_next_one_in_order_of_arrival(table: Table) -> None:
    for key in "abcd":
        table.start(key)
    table.send("d", "1")
    table.send("c", "1")
    assert (table.slots.in_backlog, table.slots.waiting) == (4, 6)
    table.run()
    table.send("b", "1", end=True)
    assert table.run() == ["b1"]
    assert table.slots.in_backlog == 2
    assert [table.run(), table.run()] == [["c0"], ["c1"]]
    table.send("c", "2", end=True)
    table.run()
    assert [table.run(), table.run()] == [["d0"], ["d1"]]


def test_a_sequence_that_is_complete_in_the_backlog_lets_its_id_begin_another_one(table: Table) -> None:
    for key in "ab":
        table.start(key)
    table.start("c", end=True)
    assert table.send("c", "9", start=True) is None
    table.run()
    for key in "ab":
        table.send(key, "1", end=True)
    table.run()
    assert [table.run(), table.send("c", "1")] == [["c0", "c9"], Slot(0, 1)]


def test_a_sequence_that_waits_too_long_for_a_slot_gives_up_with_all_its_requests(table: Table) -> None:
    for key in "ab":
        table.start(key)
    table.start("c", deadline=50)
    table.send("c", "1", deadline=20)
    table.send("c", "2")
    table.start("d", deadline=30)
    assert table.slots.next_event == 21
    assert table.slots.expire(20).late == []
    assert table.slots.expire(21).late == ["c0", "c1", "c2"]
    assert "c" not in table.slots
    assert (table.slots.in_backlog, table.slots.next_event) == (1, 31)


def test_the_time_out_of_a_request_does_not_count_once_its_sequence_has_a_slot(table: Table) -> None:
    table.start("a", deadline=20)
    table.start("b")
    table.start("c", deadline=40)
    table.run()
    table.send("a", "1", end=True)
    table.run()
    assert table.slots.expire(100).late == []
    assert table.run() == ["c0"]


# Idle sequences


def test_a_sequence_with_nothing_to_do_for_long_enough_ends_and_its_slot_goes_on(table: Table) -> None:
    for key in "abc":
        table.start(key)
    table.now = 10
    table.run()
    assert table.slots.next_event == 10 + IDLE
    assert table.slots.expire(9 + IDLE).idle == []
    assert table.slots.expire(10 + IDLE).idle == ["a", "b"]
    assert table.run() == ["c0"]


def test_what_waits_or_executes_is_not_idle_however_long_it_takes(table: Table) -> None:
    table.start("a")
    table.start("b")
    assert table.slots.next_event is None
    table.slots.take(table.slots.ready(0)[0])
    assert table.slots.expire(10 * IDLE).idle == []
    table.slots.release("a0", 10 * IDLE)
    assert table.slots.next_event == 11 * IDLE


def test_a_request_ends_the_silence(table: Table) -> None:
    table.start("a")
    table.run()
    table.now = IDLE - 1
    table.send("a", "1")
    assert table.slots.next_event is None
    table.run()
    assert table.slots.next_event == 2 * IDLE - 1


# Requests that come again


def test_a_request_that_comes_again_waits_behind_what_its_sequence_has(table: Table) -> None:
    table.start("a")
    table.send("a", "1")
    table.take()
    sequence = table.slots.again("a0", 5)
    assert sequence is not None
    assert [table.run(), table.run()] == [["a1"], ["a0"]]


def test_a_request_whose_sequence_is_gone_cannot_come_again(table: Table) -> None:
    table.start("a")
    table.take()
    table.slots.lose(0, 0)
    assert table.slots.again("a0", 5) is None
    table.slots.release("a0", 5)
    assert table.slots.waiting == 0


# Requests that nobody wants any more


def test_without_one_of_its_requests_a_sequence_ends_and_what_executes_of_it_is_finished(table: Table) -> None:
    table.start("a")
    table.send("a", "1")
    table.send("a", "2")
    table.take()
    assert table.slots.cut_off("a0", 0) == []
    assert table.slots.cut_off("a2", 0) == ["a1", "a2"]
    assert ("a" in table.slots, table.slots.waiting) == (False, 0)
    assert table.start("b") == Slot(0, 1)
    table.slots.release("a0", 0)
    assert table.start("c") == Slot(0, 0)


def test_a_sequence_that_is_cut_off_before_anything_executed_gives_its_slot_on(table: Table) -> None:
    for key in "abc":
        table.start(key)
    assert table.slots.cut_off("b0", 0) == ["b0"]
    assert table.run() == ["a0", "c0"]
    assert table.slots.cut_off("b0", 0) == []


def test_a_sequence_may_be_cut_off_in_the_backlog(table: Table) -> None:
    for key in "abc":
        table.start(key)
    assert table.slots.cut_off("c0", 0) == ["c0"]
    assert (table.slots.in_backlog, "c" in table.slots) == (0, False)


# Instances that go and come


def test_an_instance_takes_its_sequences_along_and_has_room_when_it_is_back() -> None:
    table = Table(instances=2, slots=1)
    for key in "abc":
        table.start(key)
    table.send("a", "1")
    table.take()
    assert table.slots.lose(0, 0) == ["a1"]
    table.slots.release("a0", 0)
    assert ("a" in table.slots, "b" in table.slots, table.slots.in_backlog) == (False, True, 1)
    table.slots.restore(1, 0)
    assert table.slots.in_backlog == 1
    table.slots.restore(0, 0)
    assert table.run(0) == ["c0"]
    assert table.start("d") is None


def test_sequences_that_have_not_begun_go_elsewhere_before_those_of_the_backlog() -> None:
    table = Table(instances=2, slots=2)
    for key in "abcdefg":
        table.start(key, deadline=50)
    assert table.take(0) == ["a0", "c0"]
    table.slots.release("a0", 0)
    assert table.slots.lose(1, 0) == []
    assert (table.slots.in_backlog, table.slots.next_event) == (5, 51)
    for key in "ac":
        table.send(key, "1", end=True)
    table.slots.release("c0", 0)
    assert table.run(0) == ["a1", "c1"]
    assert table.run(0) == ["b0", "d0"]
    table.slots.restore(1, 0)
    assert table.run(1) == ["e0", "f0"]


def test_idle_sequences_of_an_instance_that_is_gone_do_not_expire(table: Table) -> None:
    table.start("a")
    table.run()
    table.slots.lose(0, 0)
    assert (table.slots.expire(IDLE).idle, table.slots.next_event) == ([], None)


def test_at_the_end_everything_that_waits_is_given_back(table: Table) -> None:
    for key in "abc":
        table.start(key)
    table.take()
    table.send("a", "1")
    assert sorted(table.slots.drain()) == ["a1", "c0"]
    table.slots.release("a0", 0)
    assert (table.slots.waiting, table.slots.in_backlog, table.slots.next_event) == (0, 0, None)
    assert not any(key in table.slots for key in "abc")


@pytest.mark.parametrize("seed", range(20))
def test_whatever_happens_the_books_are_right_in_the_end(seed: int) -> None:  # noqa: C901  a case a kind of event
    chance = random.Random(seed)
    table = Table(instances=2, slots=2)
    slots = table.slots
    waiting: set[str] = set()
    running: dict[str, int] = {}
    for step in range(400):
        table.now += chance.randrange(100)
        what, key, item = chance.randrange(8), chance.choice("abcdefg"), str(step)
        if what < 3:
            start, end = chance.random() < 0.5, chance.random() < 0.3
            sequence = slots.join(key, item, table.now, start=start, end=end, deadline=table.now + 300)
            if sequence is not None:
                waiting.add(item)
        elif what < 5:
            instance = chance.randrange(2)
            for sequence in slots.ready(instance):
                assert sequence.slot is not None
                assert sequence.slot.instance == instance
                taken = slots.take(sequence)
                waiting.remove(taken)
                running[taken] = instance
        elif what == 5 and running:
            done = chance.choice(sorted(running))
            del running[done]
            slots.release(done, table.now)
        elif what == 6 and waiting:
            waiting.difference_update(slots.cut_off(chance.choice(sorted(waiting)), table.now))
        elif chance.random() < 0.2:
            instance = chance.randrange(2)
            waiting.difference_update(slots.lose(instance, table.now))
            slots.restore(instance, table.now)
        waiting.difference_update(slots.expire(table.now).late)
        assert slots.waiting == len(waiting)
    for done in running:
        slots.release(done, table.now)
    while waiting:
        taken = [slots.take(sequence) for instance in range(2) for sequence in slots.ready(instance)]
        waiting.difference_update(taken)
        for item in taken:
            slots.release(item, table.now)
        slots.expire(table.now)
        table.now += IDLE
    slots.expire(table.now + IDLE)
    assert [table.start(f"new {index}", end=True) is not None for index in range(5)] == [True] * 4 + [False]
