"""A real Triton is shown as far as it tells, and never changed. The answers were recorded from a Triton 2.51."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from infer.tui.client import Client, Reply
from infer.tui.failure import ClientError, Kind
from infer.tui.rates import History
from infer.tui.snapshot import Duration, Instance
from infer.tui.triton_overview import NO_GPU, NO_METRICS, Told, overview_of, parse_metrics
from infer.tui.triton_source import TritonSource

if TYPE_CHECKING:
    from pathlib import Path

CONFIG = {
    "name": "simple",
    "backend": "python",
    "max_batch_size": 8,
    "instance_group": [{"name": "simple_0", "kind": "KIND_CPU", "count": 2, "gpus": []}],
}
GPU_METRICS = """\
# TYPE nv_gpu_utilization gauge
nv_gpu_utilization{gpu_uuid="GPU-a"} 0.5
nv_gpu_utilization{gpu_uuid="GPU-b"} 0
# TYPE nv_gpu_memory_total_bytes gauge
nv_gpu_memory_total_bytes{gpu_uuid="GPU-a"} 1000
# TYPE nv_gpu_memory_used_bytes gauge
nv_gpu_memory_used_bytes{gpu_uuid="GPU-a"} 250
# TYPE nv_gpu_power_usage gauge
nv_gpu_power_usage{gpu_uuid="GPU-a"} 81.5
# TYPE nv_gpu_power_limit gauge
nv_gpu_power_limit{gpu_uuid="GPU-a"} 300
# TYPE nv_energy_consumption counter
nv_energy_consumption{gpu_uuid="GPU-a"} 12.25
# TYPE nv_something_new gauge
nv_something_new 1
"""


class RecordedTriton(Client):
    """Answers with what was recorded, or with what a test puts in its place; ASKED counts the paths."""

    def request(self, method: str, path: str, body: bytes = b"", headers: Any = None) -> Reply:
        ASKED[path] = ASKED.get(path, 0) + 1
        status, answer = ANSWERS.get(path, (404, b'{"error":"Not Found"}'))
        if status == 0:
            raise ClientError("nobody there", "refused", kind=Kind.NO_CONNECTION)
        return Reply(status, {}, answer)


ANSWERS: dict[str, tuple[int, bytes]] = {}
ASKED: dict[str, int] = {}


@pytest.fixture
def triton(root: Path) -> TritonSource:
    recorded = root / "tests" / "payloads" / "triton"
    ASKED.clear()
    ANSWERS.clear()
    ANSWERS.update(
        {
            "/v2": (200, (recorded / "server.json").read_bytes()),
            "/v2/health/ready": (200, b""),
            "/v2/repository/index": (200, (recorded / "index.json").read_bytes()),
            "/v2/models/stats": (200, (recorded / "stats.json").read_bytes()),
            "/v2/models/simple/versions/1/config": (200, json.dumps(CONFIG).encode()),
            "/metrics": (200, (recorded / "metrics.txt").read_bytes()),
        }
    )
    return TritonSource(RecordedTriton("http://h:8000"), RecordedTriton("http://h:8002"), lambda: 5.0)


def test_a_recorded_triton_becomes_a_picture(triton: TritonSource) -> None:
    overview = triton.overview()
    assert (overview.server.id, overview.server.version, overview.server.now) == ("triton", "2.51.0", 5.0)
    assert overview.server.ready
    assert overview.server.http == "h:8000"
    assert "only looked at" in overview.server.changes
    assert [row.name for row in overview.models] == ["broken", "identity_fp32", "raises", "repeat_int32", "simple"]
    row = overview.models[-1]
    assert (row.state, row.backend, row.max_batch_size, row.pending) == ("READY", "python", 8, 0)
    assert (row.success, row.failed, row.inference_count, row.execution_count) == (40, 0, 40, 40)
    assert row.durations["request"] == Duration(40, 177_369_843)
    assert row.instances == (Instance("simple_0_0", "KIND_CPU"), Instance("simple_0_1", "KIND_CPU"))
    assert dict(row.quantiles) == {0.5: 653.0, 0.9: 796.0, 0.99: 885.0}
    assert row.batches == ((1, 40),)
    assert row.latency is None
    assert row.in_flight is None


def test_states_reasons_and_models_that_were_never_loaded_are_those_of_the_index(triton: TritonSource) -> None:
    broken, unloaded = triton.overview().models[:2]
    assert (broken.version, broken.state, broken.success) == ("", "", 0)
    assert (unloaded.state, unloaded.reason) == ("UNAVAILABLE", "unloaded")


def test_the_host_is_that_of_the_metrics(triton: TritonSource) -> None:
    host = triton.overview().host
    assert host is not None
    assert host.memory_total_bytes == 25_276_063_744
    assert host.cpu_count is None
    assert triton.overview().gpu_reason == NO_GPU


def test_percentiles_are_those_that_triton_tells_where_something_happened(triton: TritonSource) -> None:
    history = History()
    history.add(triton.overview())
    more = json.loads(ANSWERS["/v2/models/stats"][1])
    simple = more["model_stats"][-1]["inference_stats"]
    simple["success"]["count"] += 10
    simple["success"]["ns"] += 10_000_000
    ANSWERS["/v2/models/stats"] = (200, json.dumps(more).encode())
    triton._clock = lambda: 7.0
    history.add(triton.overview())
    found = history.rates("simple", "1")
    assert (found.requests_s, found.p50_us, found.p99_us, found.mean_us) == (5.0, 653.0, 885.0, 1000.0)
    assert history.rates("raises", "1").p50_us is None


@pytest.mark.parametrize("answer", [(0, b""), (503, b""), (200, b"no { metrics\n")])
def test_without_metrics_the_rest_is_shown_and_it_says_so(triton: TritonSource, answer: tuple[int, bytes]) -> None:
    ANSWERS["/metrics"] = answer
    overview = triton.overview()
    assert overview.models[-1].success == 40
    assert (overview.host, overview.models[-1].pending, overview.models[-1].quantiles) == (None, None, ())
    assert overview.gpu_reason == NO_METRICS


def test_failures_without_metrics_have_no_reason() -> None:
    row = {"name": "m", "version": "1", "inference_stats": {"fail": {"count": 3, "ns": 1}}}
    told = Told({}, False, [{"name": "m", "version": "1", "state": "READY"}], [row], {}, None)
    assert overview_of(told, now=0, http="", changes="").models[0].failures == {"UNKNOWN": 3}


def test_failures_with_metrics_are_told_by_reason() -> None:
    text = (
        "# TYPE nv_inference_request_failure counter\n"
        'nv_inference_request_failure{model="m",reason="REJECTED",version="1"} 2\n'
    )
    row = {"name": "m", "version": "1", "inference_stats": {"fail": {"count": 3, "ns": 1}}}
    told = Told({}, False, [{"name": "m", "version": "1", "state": "READY"}], [row], {}, parse_metrics(text))
    assert overview_of(told, now=0, http="", changes="").models[0].failures == {"REJECTED": 2}


def test_gpus_are_those_of_the_metrics() -> None:
    told = Told({}, True, [], [], {}, parse_metrics(GPU_METRICS))
    overview = overview_of(told, now=0, http="", changes="")
    first, second = overview.gpus
    assert (first.uuid, first.utilization, first.memory_used_bytes, first.memory_total_bytes) == (
        "GPU-a", 0.5, 250, 1000,
    )  # fmt: skip
    assert (first.power_usage_watts, first.power_limit_watts, first.energy_joules) == (81.5, 300.0, 12.25)
    assert (second.index, second.utilization, second.temperature_celsius) == (1, 0.0, None)
    assert overview.gpu_reason == ""


def test_an_ensemble_depends_on_its_steps_and_a_gpu_group_has_an_instance_a_device() -> None:
    config = {
        "platform": "ensemble",
        "ensemble_scheduling": {"step": [{"model_name": "a"}, {"model_name": "b"}, {"model_name": "a"}]},
        "instance_group": [{"name": "e_0", "kind": "KIND_GPU", "count": 1, "gpus": [0, 1]}],
    }
    told = Told({}, True, [{"name": "e", "version": "1", "state": "READY"}], [], {("e", "1"): config}, None)
    row = overview_of(told, now=0, http="", changes="").models[0]
    assert (row.depends_on, row.backend) == (("a", "b"), "ensemble")
    assert [instance.device for instance in row.instances] == [0, 1]


def test_configurations_are_asked_for_once_and_again_after_an_unload(triton: TritonSource) -> None:
    path = "/v2/models/simple/versions/1/config"
    for _ in range(3):
        triton.overview()
    assert (ASKED[path], ASKED["/v2"]) == (1, 1)
    index = ANSWERS["/v2/repository/index"]
    ANSWERS["/v2/repository/index"] = (200, b"[]")
    assert triton.overview().models == ()
    ANSWERS["/v2/repository/index"] = index
    triton.overview()
    assert ASKED[path] == 2


def test_a_configuration_that_cannot_be_read_leaves_the_row_bare(triton: TritonSource) -> None:
    ANSWERS["/v2/models/simple/versions/1/config"] = (200, b"<html>")
    assert triton.overview().models[-1].backend == ""


def test_a_triton_that_is_not_ready_says_so(triton: TritonSource) -> None:
    ANSWERS["/v2/health/ready"] = (400, b"")
    assert not triton.overview().server.ready


@pytest.mark.parametrize("path", ["/v2/repository/index", "/v2/models/stats", "/v2"])
def test_what_is_no_triton_is_told_in_words(triton: TritonSource, path: str) -> None:
    ANSWERS[path] = (200, b"[1]")
    with pytest.raises(ClientError) as caught:
        triton.overview()
    assert "no picture of a Triton" in caught.value.what


@pytest.mark.parametrize("verb", ["load", "unload"])
def test_it_is_never_changed_and_says_what_would(triton: TritonSource, verb: str) -> None:
    with pytest.raises(ClientError) as caught:
        getattr(triton, verb)("simple")
    assert caught.value.kind is Kind.REFUSED
    assert caught.value.fix.endswith(f"infer model {verb} simple --url http://h:8000")


def test_its_log_is_elsewhere(triton: TritonSource) -> None:
    with pytest.raises(ClientError) as caught:
        triton.log()
    assert "--log-file" in caught.value.fix


def test_a_call_goes_to_its_http_port(triton: TritonSource) -> None:
    metadata = {
        "name": "simple",
        "inputs": [{"name": "A", "datatype": "INT32", "shape": [1]}],
        "outputs": [{"name": "B", "datatype": "INT32", "shape": [1]}],
    }
    output = {"name": "B", "datatype": "INT32", "shape": [1], "data": [7]}
    ANSWERS["/v2/models/simple"] = (200, json.dumps(metadata).encode())
    ANSWERS["/v2/models/simple/infer"] = (200, json.dumps({"model_name": "simple", "outputs": [output]}).encode())
    answer, curl = triton.infer("simple", "", {"A": [1]})
    assert answer.tensors[0].values == [7]
    assert curl.startswith("curl -s http://h:8000/")
    assert triton.metadata("simple")["name"] == "simple"
