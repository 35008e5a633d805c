"""The made-up server behaves as a server does, and is the same for the same clock."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infer.tui.demo import DemoServer
from infer.tui.demo_models import MODELS
from infer.tui.failure import ClientError, Kind
from infer.tui.rates import History

if TYPE_CHECKING:
    from infer.tui.demo_traffic import Traffic
    from infer.tui.snapshot import ModelSnapshot

START = 1_800_000_000.0
LONG_AFTER = 600.0


class Clock:
    """A clock that a test moves; waiting moves it too, and tells what could be seen meanwhile."""

    def __init__(self) -> None:
        self.now = START
        self.demo = DemoServer(self, self.pause)
        self.seen: list[str] = []
        self.watched = ""

    def __call__(self) -> float:
        return self.now

    def pause(self, seconds: float) -> None:
        self.now += seconds / 2
        if self.watched:
            self.seen.append(self.row(self.watched).state)
        self.now += seconds / 2

    def row(self, name: str) -> ModelSnapshot:
        found = [row for row in self.demo.overview().models if row.name == name]
        assert found
        return found[-1]


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_the_same_clock_and_seed_give_the_same_picture_and_log() -> None:
    one, other = Clock(), Clock()
    one.now = other.now = START + 100
    assert one.demo.overview() == other.demo.overview()
    assert one.demo.log() == other.demo.log()


def test_it_shows_models_of_several_backends_in_every_state(clock: Clock) -> None:
    rows = clock.demo.overview().models
    assert {row.state for row in rows} == {"READY", "LOADING", "UNLOADING", "UNAVAILABLE", ""}
    assert {row.backend for row in rows} >= {"onnxruntime", "pytorch", "python", "ensemble"}
    assert len(clock.demo.overview().gpus) == 2
    assert any(row.version == "1" for row in rows if row.name == "bert_base")


def test_passing_states_pass_by_themselves(clock: Clock) -> None:
    clock.now += LONG_AFTER
    assert clock.row("whisper_small").state == "READY"
    assert clock.row("ranker").state == "UNAVAILABLE"


def test_an_unload_goes_through_unloading_and_a_load_through_loading(clock: Clock) -> None:
    clock.watched = "resnet50"
    clock.demo.unload("resnet50")
    assert (clock.row("resnet50").state, clock.row("resnet50").reason) == ("UNAVAILABLE", "unloaded")
    assert not clock.row("resnet50").instances
    clock.demo.load("resnet50")
    assert clock.row("resnet50").state == "READY"
    assert clock.seen == ["UNLOADING", "LOADING"]


def test_a_loaded_model_counts_from_nothing(clock: Clock) -> None:
    clock.demo.load("resnet50")
    assert clock.row("resnet50").success == 0
    clock.now += 10
    assert clock.row("resnet50").success > 0


def test_a_model_that_was_never_loaded_gets_its_version_with_the_load(clock: Clock) -> None:
    assert (clock.row("translate_de").version, clock.row("translate_de").backend) == ("", "")
    clock.demo.load("translate_de")
    assert (clock.row("translate_de").version, clock.row("translate_de").state) == ("1", "READY")


def test_a_broken_model_fails_again_with_its_reason(clock: Clock) -> None:
    with pytest.raises(ClientError) as caught:
        clock.demo.load("fraud_score")
    assert "git lfs pull" in caught.value.why
    assert clock.row("fraud_score").state == "UNAVAILABLE"
    assert "did not load" in clock.demo.log(level="ERROR").records[-1].message


@pytest.mark.parametrize("verb", ["load", "unload", "metadata", "config"])
def test_an_unknown_model_is_not_found(clock: Clock, verb: str) -> None:
    with pytest.raises(ClientError) as caught:
        getattr(clock.demo, verb)("nobody")
    assert caught.value.kind is Kind.NOT_FOUND


def test_unloading_what_does_not_serve_changes_nothing(clock: Clock) -> None:
    before = clock.demo.overview()
    clock.demo.unload("translate_de")
    assert clock.demo.overview() == before


def test_the_log_flows_and_is_read_on_from_a_number(clock: Clock) -> None:
    first = clock.demo.log()
    clock.now += 20
    page = clock.demo.log(after=first.last)
    assert [record.seq for record in page.records] == list(range(first.last + 1, page.last + 1))
    assert page.lost == 0
    assert all(earlier.time <= later.time for earlier, later in zip(page.records, page.records[1:], strict=False))


def test_a_reader_who_comes_late_is_told_what_is_lost(clock: Clock) -> None:
    first = clock.demo.log()
    clock.now += 10_000
    page = clock.demo.log(after=first.last, limit=50)
    assert page.lost > 0
    assert len(page.records) == 50


def test_the_log_can_be_narrowed(clock: Clock) -> None:
    assert {record.level for record in clock.demo.log(level="WARNING").records} <= {"WARNING", "ERROR"}
    assert {record.model for record in clock.demo.log(model="resnet50").records} == {"resnet50"}
    assert len(clock.demo.log(limit=3).records) == 3


def test_a_call_is_checked_against_the_metadata_and_answered_alike(clock: Clock) -> None:
    answer, curl = clock.demo.infer("classify_text", "", {"text": "hello"})
    again, _ = clock.demo.infer("classify_text", "", {"text": "hello"})
    other, _ = clock.demo.infer("classify_text", "", {"text": "bye"})
    assert answer == again != other
    assert [tensor.name for tensor in answer.tensors] == ["label", "score"]
    assert curl.startswith("curl -s http://127.0.0.1:8000/v2/models/classify_text/infer")
    with pytest.raises(ClientError, match="no input 'nonsense'"):
        clock.demo.infer("classify_text", "", {"nonsense": 1})


def test_a_half_precision_model_can_be_called_too(clock: Clock) -> None:
    clock.now += LONG_AFTER
    answer, curl = clock.demo.infer("whisper_small", "1", {"audio": [0.0] * 480000, "gain": [1.0]})
    assert answer.tensors[0].datatype == "BYTES"
    assert "binary" in curl


@pytest.mark.parametrize(("name", "version"), [("translate_de", ""), ("bert_base", "1"), ("fraud_score", "")])
def test_what_does_not_serve_is_not_answered(clock: Clock, name: str, version: str) -> None:
    with pytest.raises(ClientError) as caught:
        clock.demo.infer(name, version, {})
    assert caught.value.kind is Kind.NOT_READY


def test_a_decoupled_model_is_sent_to_grpc(clock: Clock) -> None:
    with pytest.raises(ClientError) as caught:
        clock.demo.infer("summarize", "", {"prompt": "x", "max_tokens": 3})
    assert "--stream" in caught.value.fix


def test_rates_of_a_busy_model_can_be_read_from_its_pictures(clock: Clock) -> None:
    history = History()
    for _ in range(12):
        history.add(clock.demo.overview())
        clock.now += 1
    rates = history.rates("resnet50", "3")
    assert 90 < rates.requests_s < 390
    assert rates.p50_us is not None
    assert rates.p99_us is not None
    assert 3000 < rates.p50_us <= rates.p99_us < 60_000
    assert rates.batch_size is not None
    assert rates.failures_s >= 0
    assert set(rates.phases_us) == {"queue", "compute_input", "compute_infer", "compute_output"}


def test_every_model_has_a_description_that_agrees_with_its_configuration() -> None:
    for model in MODELS:
        batched = 1 if model.max_batch_size else 0
        given = [tensor["shape"][batched:] for tensor in model.metadata()["inputs"]]
        assert [tensor["dims"] for tensor in model.config()["input"]] == given


@given(st.floats(0, 1e6), st.floats(0, 100), st.sampled_from([model.traffic for model in MODELS]))
def test_counters_never_go_back(seconds: float, more: float, traffic: Traffic) -> None:
    later = seconds + more
    assert traffic.requests(seconds) <= traffic.requests(later)
    assert traffic.slow_requests(seconds) <= traffic.slow_requests(later)
    assert all(count <= traffic.failed(later)[name] for name, count in traffic.failed(seconds).items())
    ends = dict(traffic.batches(later))
    assert all(count <= ends[size] for size, count in traffic.batches(seconds))
    assert traffic.durations(seconds)["request"].ns <= traffic.durations(later)["request"].ns


@given(st.floats(0, 1e6), st.floats(0, 100), st.sampled_from([model.traffic for model in MODELS]))
def test_every_batch_of_a_model_that_batches_has_a_reason_that_it_keeps(
    seconds: float, more: float, traffic: Traffic
) -> None:
    limits, later = traffic.batch_limits(seconds), traffic.batch_limits(seconds + more)
    executions = sum(count for _, count in traffic.batches(seconds))
    assert sum(limits.values()) == (executions if traffic.largest_batch > 1 else 0)
    assert all(count <= later[reason] for reason, count in limits.items())


@given(st.floats(0, 1e6), st.sampled_from([model.traffic for model in MODELS]))
def test_latencies_are_ascending_and_no_more_than_the_requests(seconds: float, traffic: Traffic) -> None:
    buckets = traffic.latency(seconds)
    assert list(buckets) == sorted(buckets)
    assert sum(count for _, count in buckets) <= traffic.requests(seconds)
