"""The sequence batcher gives instances what is due of their sequences, and answers whatever happens to them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from infer.backends.api.backend import InstanceState
from infer.backends.api.datatypes import Datatype
from infer.backends.api.errors import Code, FailureReason, InvalidArgument, Unavailable
from infer.backends.api.request import SEQUENCE_END, SEQUENCE_START
from infer.backends.api.response import InferenceResponse
from infer.backends.api.tensor import Tensor
from infer.server.scheduling.ticket import Phase, Ticket, WaitReason

if TYPE_CHECKING:
    from conftest import Bench, MakeBench

START, END = SEQUENCE_START, SEQUENCE_END
HOUR_US = 3_600_000_000
READY = [{"name": "R", "control": [{"kind": "CONTROL_SEQUENCE_READY", "int32_false_true": [0, 1]}]}]
ITERATIVE = {"iterative_sequence": True, "max_sequence_idle_microseconds": HOUR_US}


def sequences(**more: Any) -> dict[str, Any]:
    return {"max_sequence_idle_microseconds": HOUR_US, **more}


@pytest.fixture
async def bench(make_bench: MakeBench) -> Bench:
    return make_bench(sequences=sequences(), max_batch_size=2)


def give_back(bench: Bench, *names: str, mark: int = 5) -> None:
    """The instance ends its batch: the named requests are to come again, the others have their response."""
    batch, done = bench.instances[0].work.pop(0)
    batch.compute_start, batch.compute_end = 1, 2
    for execution in batch.executions:
        if execution.request.request_id in names:
            execution.reschedule(mark)
        else:
            execution.send(InferenceResponse())
    done()


# Order and places


async def test_the_requests_of_a_sequence_execute_in_order_one_at_a_time(bench: Bench) -> None:
    bench.submit("a0", sequence=1, flags=START)
    waiting = [bench.submit(f"a{index}", sequence=1, flags=END if index == 3 else 0) for index in (1, 2, 3)]
    assert bench.executing() == ["a0"]
    assert {ticket.wait_reason for ticket in waiting} == {WaitReason.SEQUENCE_BUSY}
    assert (bench.statistics.pending, bench.scheduler.in_flight) == (3, 4)
    for name in ("a0", "a1", "a2", "a3"):
        assert bench.executing() == [name]
        bench.instances[0].finish()
    assert [name for name, _ in bench.answers] == ["a0", "a1", "a2", "a3"]
    assert (bench.statistics.pending, bench.scheduler.in_flight) == (0, 0)
    assert bench.statistics.snapshot().inference_count == 4


async def test_sequences_execute_together_and_stay_on_their_instance(make_bench: MakeBench) -> None:
    bench = make_bench(2, sequences=sequences(), max_batch_size=2)
    for name in "abcd":
        bench.submit(f"{name}0", sequence=name, flags=START)
    assert sorted([bench.executing(0), bench.executing(1)]) == [["a0"], ["b0"]]
    mine, other = (0, 1) if bench.executing(0) == ["a0"] else (1, 0)
    bench.instances[mine].finish()
    bench.instances[other].finish()
    assert [bench.executing(mine), bench.executing(other)] == [["c0"], ["d0"]]
    for name in "dcba":
        bench.submit(f"{name}1", sequence=name, flags=END)
    bench.instances[mine].finish()
    bench.instances[other].finish()
    assert [bench.executing(mine), bench.executing(other)] == [["a1", "c1"], ["b1", "d1"]]


@pytest.mark.parametrize("strategy", [{}, {"oldest": {"max_candidate_sequences": 4}}])
async def test_every_batch_is_counted_by_what_limits_it(make_bench: MakeBench, strategy: dict[str, Any]) -> None:
    bench = make_bench(sequences=sequences(**strategy), max_batch_size=2)
    assert set(bench.statistics.snapshot().batch_limits.values()) == {0}
    for name in ("a0", "a1", "b0"):
        bench.submit(name, sequence=name[0], flags=START if name.endswith("0") else 0)
    bench.instances[0].finish()
    assert sorted(bench.executing()) == ["a1", "b0"]
    found = bench.statistics.snapshot().batch_limits
    assert {limit: count for limit, count in found.items() if count} == {"no others": 1, "full": 1}


async def test_a_sequence_without_a_slot_waits_until_one_ends(bench: Bench) -> None:
    bench.submit("a0", sequence=1, flags=START)
    bench.submit("b0", sequence=2, flags=START)
    late = bench.submit("c0", sequence=3, flags=START | END)
    assert late.wait_reason is WaitReason.NO_SEQUENCE_SLOT
    for _ in range(2):
        bench.instances[0].finish()
    assert bench.executing() == []
    bench.submit("a1", sequence=1, flags=END)
    bench.instances[0].finish()
    assert bench.executing() == ["c0"]


# What is refused


async def test_a_request_that_cannot_belong_to_a_sequence_is_refused(bench: Bench) -> None:
    with pytest.raises(InvalidArgument, match="must specify batch-size 1 due to requirements of sequence batcher"):
        bench.submit("a", 2, sequence=1, flags=START)
    for nothing in (0, ""):
        with pytest.raises(InvalidArgument, match="'m' must specify a non-zero or non-empty correlation ID"):
            bench.submit("a", sequence=nothing, flags=START)
    with pytest.raises(
        InvalidArgument,
        match=r"^inference request for sequence 5 to model 'm' must specify the START flag on the first request of "
        r"the sequence$",
    ):
        bench.submit("a", sequence=5)
    assert (bench.statistics.pending, bench.scheduler.in_flight, bench.answers) == (0, 0, [])


async def test_a_start_in_the_middle_is_told_in_the_log(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    bench.submit("a0", sequence="mine", flags=START)
    bench.submit("a1", sequence="mine", flags=START)
    assert "sequence 'mine' of model 'm' begins anew before its end" in caplog.text
    bench.instances[0].finish()
    assert bench.executing() == ["a1"]


# Rows


async def test_rows_without_a_request_reach_a_model_that_can_tell_them(make_bench: MakeBench) -> None:
    bench = make_bench(sequences=sequences(control_input=READY), max_batch_size=4)
    for name in "abc":
        bench.submit(f"{name}0", sequence=name, flags=START)
        bench.instances[0].finish()
    bench.submit("c1", sequence="c")
    batch, _ = bench.instances[0].work[0]
    told = [execution.request.inputs["R"].as_numpy().tolist() for execution in batch.executions]
    assert (bench.executing(), told, batch.rows) == (["", "", "c1"], [[[0]], [[0]], [[1]]], 3)
    bench.instances[0].finish()
    assert [name for name, _ in bench.answers] == ["a0", "b0", "c0", "c1"]
    picture = bench.statistics.snapshot()
    assert (picture.inference_count, picture.batches[-1].batch_size) == (4, 3)


async def test_rows_without_a_request_do_not_reach_a_model_that_would_take_them_for_one(bench: Bench) -> None:
    for name in "ab":
        bench.submit(f"{name}0", sequence=name, flags=START)
        bench.instances[0].finish()
    bench.submit("b1", sequence="b")
    assert (bench.executing(), bench.instances[0].work[0][0].rows) == (["b1"], 1)


async def test_a_row_without_a_request_has_no_say_in_anything(make_bench: MakeBench) -> None:
    bench = make_bench(sequences=sequences(control_input=READY, iterative_sequence=True), max_batch_size=2)
    bench.submit("a", sequence="a", flags=START)
    bench.submit("b", sequence="b", flags=START)
    give_back(bench, "a")
    give_back(bench, "b", "a")
    bench.instances[0].finish()
    assert bench.executing() == []
    released: list[str] = []
    bench.submit("c", sequence="c", flags=START)
    bench.submit("d", sequence="d", flags=START)
    give_back(bench, "c")
    give_back(bench, "d")
    nothing = bench.instances[0].work[0][0].executions[0]
    assert not nothing.cancelled
    nothing.reschedule(1)
    nothing.send(InferenceResponse({"OUT": Tensor(Datatype.INT8, (1,), b"", release=lambda: released.append("x"))}))
    assert released == ["x"]


async def test_a_batch_waits_for_its_slots_and_goes_after_the_delay(make_bench: MakeBench) -> None:
    direct = {"max_queue_delay_microseconds": 2000, "minimum_slot_utilization": 1.0}
    bench = make_bench(sequences=sequences(direct=direct), max_batch_size=2)
    first = bench.submit("a0", sequence=1, flags=START)
    assert (bench.executing(), first.wait_reason) == ([], WaitReason.BATCH_MAY_GROW)
    bench.submit("b0", sequence=2, flags=START)
    assert bench.executing() == ["a0", "b0"]
    bench.instances[0].finish()
    ticket = bench.submit("a1", sequence=1)
    await bench.until(lambda: bool(bench.executing()))
    assert ticket.execution_start - ticket.queue_start >= 2_000_000


# Oldest


async def test_more_sequences_than_a_batch_has_rows_take_their_turns(make_bench: MakeBench) -> None:
    bench = make_bench(sequences=sequences(oldest={"max_candidate_sequences": 4}), max_batch_size=2)
    for name in "abcde":
        bench.submit(f"{name}0", sequence=name, flags=START)
        bench.submit(f"{name}1", sequence=name, flags=END)
    batches: list[list[str]] = []
    while bench.executing():
        batches.append(bench.executing())
        bench.instances[0].finish()
    assert batches == [["a0"], ["b0", "c0"], ["d0", "a1"], ["b1", "c1"], ["d1", "e0"], ["e1"]]


async def test_oldest_keeps_the_order_of_its_responses_where_it_is_asked_to(make_bench: MakeBench) -> None:
    oldest = {"max_candidate_sequences": 2, "preserve_ordering": True}
    bench = make_bench(sequences=sequences(oldest=oldest), max_batch_size=2, decoupled=True)
    for name in "ab":
        bench.submit(name, sequence=name, flags=START | END)
    batches = [bench.instances[0].work.pop(0)]
    batches[0][1]()
    batches.append(bench.instances[0].work.pop(0))
    batches[1][0].executions[0].send(InferenceResponse())
    assert bench.answers == []
    batches[0][0].executions[0].send(InferenceResponse())
    assert [name for name, _ in bench.answers] == ["a", "b"]


async def test_a_decoupled_request_lets_its_sequence_go_on_when_it_has_been_executed(make_bench: MakeBench) -> None:
    bench = make_bench(sequences=sequences(), decoupled=True)
    bench.submit("a0", sequence=1, flags=START)
    bench.submit("a1", sequence=1, flags=END)
    batch, done = bench.instances[0].work.pop(0)
    done()
    assert bench.executing() == ["a1"]
    batch.executions[0].send(InferenceResponse())
    bench.instances[0].finish()
    assert bench.scheduler.in_flight == 0


# Tests fill the queues


async def test_the_holds_keep_everything_back_until_so_many_wait_in_slots_and_in_the_backlog(
    make_bench: MakeBench,
) -> None:
    bench = make_bench(sequences=sequences(), max_batch_size=1, hold=2, backlog_hold=2)
    for name, sequence, flags in (("a0", 1, START), ("a1", 1, END), ("b0", 2, START)):
        bench.submit(name, sequence=sequence, flags=flags)
    assert bench.executing() == []
    bench.submit("b1", sequence=2, flags=END)
    assert bench.executing() == ["a0"]
    for name in ("a0", "a1", "b0", "b1"):
        assert bench.executing() == [name]
        bench.instances[0].finish()
    bench.submit("c0", sequence=3, flags=START)
    assert bench.executing() == ["c0"]


# Ends before the end


async def test_a_sequence_that_lacks_a_request_ends_and_what_executes_of_it_is_answered(bench: Bench) -> None:
    bench.submit("a0", sequence=1, flags=START)
    tickets = [bench.submit(f"a{index}", sequence=1) for index in (1, 2)]
    tickets[0].cancel()
    assert bench.outcomes == {"a1": Code.CANCELLED, "a2": Code.CANCELLED}
    bench.instances[0].finish()
    assert bench.outcomes["a0"] is None
    assert (bench.statistics.pending, bench.scheduler.in_flight) == (0, 0)
    assert bench.statistics.snapshot().failures[FailureReason.CANCELED.value] == 2
    with pytest.raises(InvalidArgument, match="START"):
        bench.submit("a3", sequence=1)


async def test_the_slot_of_a_cancelled_sequence_goes_to_the_next_one_at_once(bench: Bench) -> None:
    bench.submit("busy", sequence=1, flags=START)
    waiting = bench.submit("b0", sequence=2, flags=START)
    bench.submit("c0", sequence=3, flags=START)
    waiting.cancel()
    bench.instances[0].finish()
    assert bench.executing() == ["c0"]


async def test_cancelling_what_executes_is_the_instances_business_and_the_sequence_goes_on(bench: Bench) -> None:
    ticket = bench.submit("a0", sequence=1, flags=START)
    bench.submit("a1", sequence=1)
    ticket.cancel()
    assert bench.instances[0].cancelled == [ticket]
    bench.instances[0].finish()
    assert bench.executing() == ["a1"]


async def test_a_failure_does_not_end_a_sequence(bench: Bench) -> None:
    bench.submit("a0", sequence=1, flags=START)
    bench.submit("a1", sequence=1)
    bench.instances[0].finish(respond=False)
    assert bench.outcomes == {"a0": Code.INTERNAL}
    assert bench.executing() == ["a1"]


async def test_a_silent_sequence_ends_with_one_line_in_the_log_and_its_slot_goes_on(
    make_bench: MakeBench, caplog: pytest.LogCaptureFixture
) -> None:
    bench = make_bench(sequences={"max_sequence_idle_microseconds": 2000}, max_batch_size=1)
    with caplog.at_level("INFO", "infer.scheduling"):
        bench.submit("a0", sequence=1, flags=START)
        bench.submit("b0", sequence=2, flags=START)
        bench.instances[0].finish()
        await bench.until(lambda: bench.executing() == ["b0"])
        with pytest.raises(InvalidArgument, match="sequence 1 to model 'm' must specify the START flag"):
            bench.submit("a1", sequence=1)
    assert [record.message for record in caplog.records] == [
        "sequence '1' of model 'm' has ended: it was idle for max_sequence_idle_microseconds (2000)"
    ]


async def test_a_sequence_that_waits_too_long_for_a_slot_fails_as_a_whole(bench: Bench) -> None:
    for name in "ab":
        bench.submit(name, sequence=name, flags=START)
    bench.submit("c0", sequence="c", flags=START, timeout_us=2000)
    bench.submit("c1", sequence="c", flags=END)
    await bench.until(lambda: len(bench.answers) == 2)
    assert bench.outcomes == {"c0": Code.UNAVAILABLE, "c1": Code.UNAVAILABLE}
    assert str(bench.answers[0][1].error) == "timeout of the corresponding sequence has been expired"
    assert bench.statistics.snapshot().failures[FailureReason.REJECTED.value] == 2
    assert bench.statistics.pending == 1


# Instances that go


async def test_the_sequences_of_an_instance_that_dies_end_and_others_go_on(make_bench: MakeBench) -> None:
    bench = make_bench(2, sequences=sequences(), max_batch_size=1)
    for name in "ab":
        bench.submit(f"{name}0", sequence=name, flags=START)
        bench.submit(f"{name}1", sequence=name)
    lost = bench.executing(0)[0][0]
    other = bench.executing(1)[0][0]
    bench.submit("c0", sequence="c", flags=START)
    bench.instances[0].die("was killed")
    assert bench.outcomes == {f"{lost}0": Code.INTERNAL, f"{lost}1": Code.INTERNAL}
    assert "the instance that held its state is gone (instance 'm_0_0' was killed); begin it anew" in str(
        dict(bench.answers)[f"{lost}1"].error
    )
    with pytest.raises(InvalidArgument, match="START"):
        bench.submit("x", sequence=lost)
    bench.submit(f"{other}2", sequence=other)
    bench.instances[0].observer(InstanceState.READY, "")
    assert bench.executing(0) == ["c0"]
    for expected in ("0", "1", "2"):
        assert bench.executing(1) == [other + expected]
        bench.instances[1].finish()


async def test_without_any_instance_everything_fails_and_nothing_is_taken(bench: Bench) -> None:
    for name in "abc":
        bench.submit(f"{name}0", sequence=name, flags=START)
        bench.submit(f"{name}1", sequence=name)
    bench.instances[0].die("was killed")
    assert len(bench.answers) == 6
    assert (bench.statistics.pending, bench.scheduler.in_flight) == (0, 0)
    with pytest.raises(Unavailable, match="no instance that is ready"):
        bench.submit("d", sequence="d", flags=START)
    bench.instances[0].observer(InstanceState.READY, "")
    bench.submit("e", sequence="e", flags=START)
    assert bench.executing() == ["e"]


async def test_an_instance_that_is_late_has_lost_its_sequences_and_is_used_again(make_bench: MakeBench) -> None:
    bench = make_bench(sequences=sequences(), execute_timeout_s=0.01, max_batch_size=1)
    bench.submit("a0", sequence=1, flags=START)
    bench.submit("a1", sequence=1)
    await bench.until(lambda: len(bench.answers) == 2)
    bench.instances[0].finish()
    bench.submit("b0", sequence=1, flags=START)
    assert bench.executing() == ["b0"]


async def test_draining_waits_for_every_request_and_takes_no_more(bench: Bench) -> None:
    bench.submit("a0", sequence=1, flags=START)
    bench.submit("a1", sequence=1)
    bench.scheduler.accepting = False
    drained = bench.scheduler.wait_idle()
    drained.send(None)
    with pytest.raises(Unavailable, match="stopped accepting"):
        bench.submit("b0", sequence=2, flags=START)
    for _ in range(2):
        bench.instances[0].finish()
    assert bench.scheduler.in_flight == 0
    drained.close()


async def test_closing_fails_what_waits_and_what_executes(bench: Bench) -> None:
    for name in "abc":
        bench.submit(f"{name}0", sequence=name, flags=START)
    await bench.scheduler.close()
    assert bench.outcomes == {f"{name}0": Code.UNAVAILABLE for name in "abc"}
    assert (bench.instances[0].closed, bench.statistics.pending) == (True, 0)


# Requests that come again


async def test_a_request_without_an_id_is_a_sequence_of_its_own_and_comes_again(make_bench: MakeBench) -> None:
    bench = make_bench(sequences=ITERATIVE, max_batch_size=0)
    ticket = bench.submit("a")
    assert (ticket.request.correlation_id, ticket.request.flags) == (1, START)
    give_back(bench, "a", mark=9)
    assert (bench.executing(), ticket.rounds) == (["a"], 1)
    assert (ticket.request.correlation_id, ticket.request.flags, ticket.request.earlier) == (1, 0, 9)
    give_back(bench, "a")
    bench.instances[0].finish()
    assert bench.outcomes == {"a": None}
    assert (bench.statistics.pending, bench.scheduler.in_flight) == (0, 0)
    assert bench.submit("b").request.correlation_id == 2
    assert bench.executing() == ["b"]


async def test_new_requests_join_those_that_come_again(make_bench: MakeBench) -> None:
    bench = make_bench(sequences={**ITERATIVE, "oldest": {}}, max_batch_size=3)
    tickets = [bench.submit(name) for name in "abcd"]
    assert tickets[3].wait_reason is WaitReason.NO_SEQUENCE_SLOT
    give_back(bench, "a")
    assert bench.executing() == ["b", "c", "a"]
    give_back(bench, "b", "c")
    assert sorted(bench.executing()) == ["b", "c", "d"]
    give_back(bench)
    assert set(bench.outcomes) == set("abcd")


async def test_an_id_that_a_client_has_chosen_is_given_to_nobody_else(make_bench: MakeBench) -> None:
    bench = make_bench(sequences=ITERATIVE, max_batch_size=4)
    bench.submit("theirs", sequence=1, flags=START)
    assert bench.submit("ours").request.correlation_id == 2
    with pytest.raises(InvalidArgument, match="sequence 3 to model 'm' must specify the START flag"):
        bench.submit("b", sequence=3)


async def test_a_request_that_is_cancelled_between_its_rounds_ends(make_bench: MakeBench) -> None:
    bench = make_bench(sequences=ITERATIVE, max_batch_size=1)
    ticket = bench.submit("a")
    bench.submit("b")
    ticket.cancel()
    assert bench.instances[0].cancelled == [ticket]
    give_back(bench, "a")
    assert bench.outcomes == {"a": Code.CANCELLED}
    assert bench.executing() == ["b"]


async def test_a_request_that_waits_for_its_next_round_is_cancelled_like_others(make_bench: MakeBench) -> None:
    bench = make_bench(sequences={**ITERATIVE, "oldest": {"max_candidate_sequences": 2}}, max_batch_size=1)
    first = bench.submit("a")
    bench.submit("b")
    give_back(bench, "a")
    assert (bench.executing(), first.phase) == (["b"], Phase.PENDING)
    first.cancel()
    assert bench.outcomes == {"a": Code.CANCELLED}
    bench.instances[0].finish()
    assert bench.scheduler.in_flight == 0


async def test_a_request_dies_with_the_instance_that_knows_it(make_bench: MakeBench) -> None:
    bench = make_bench(sequences={**ITERATIVE, "oldest": {"max_candidate_sequences": 2}}, max_batch_size=1)
    for name in "ab":
        bench.submit(name)
    give_back(bench, "a")
    bench.instances[0].die("was killed")
    assert bench.outcomes == {"a": Code.INTERNAL, "b": Code.INTERNAL}
    assert (bench.statistics.pending, bench.scheduler.in_flight) == (0, 0)


async def test_a_request_that_has_its_response_does_not_come_again(make_bench: MakeBench) -> None:
    bench = make_bench(sequences=ITERATIVE, max_batch_size=1, decoupled=True)
    bench.submit("a")
    batch, done = bench.instances[0].work.pop(0)
    batch.executions[0].send(InferenceResponse())
    batch.executions[0].reschedule(5)
    done()
    assert bench.executing() == []
    bench.submit("b")
    batch, done = bench.instances[0].work.pop(0)
    batch.executions[0].reschedule(5)
    batch.executions[0].send(InferenceResponse())
    done()
    assert (bench.executing(), bench.outcomes, bench.scheduler.in_flight) == ([], {"a": None, "b": None}, 0)


@pytest.mark.parametrize("kind", ["sequences", "default", "dynamic"])
async def test_a_model_that_is_not_iterative_cannot_have_a_request_again(make_bench: MakeBench, kind: str) -> None:
    section = {"sequences": {"sequences": sequences()}, "dynamic": {"batching": {}}, "default": {}}[kind]
    bench = make_bench(**section)
    ticket = bench.submit("a", sequence=1, flags=START)
    give_back(bench, "a")
    assert bench.outcomes == {"a": Code.INTERNAL}
    assert "while the model is not configured to handle such a flag" in str(bench.answers[0][1].error)
    assert isinstance(ticket, Ticket)
    assert bench.scheduler.in_flight == 0
