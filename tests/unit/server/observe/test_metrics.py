from __future__ import annotations

import dataclasses

import pytest
from prometheus_client.core import CounterMetricFamily
from prometheus_client.parser import text_string_to_metric_families

from infer.server.observe.gpu import GpuReading
from infer.server.observe.host import HostProbe
from infer.server.observe.metrics import SERVER_FAMILIES, InstanceMemory, ServerMetrics
from infer.server.observe.statistics import Duration, ModelSnapshot

BUSY = ModelSnapshot(
    "simple",
    "1",
    inference_count=9,
    execution_count=1,
    success=Duration(2, 5_000_999),
    fail=Duration(3, 1),
    queue=Duration(2, 1_999),
    compute_input=Duration(2, 3_000),
    compute_infer=Duration(2, 4_000),
    compute_output=Duration(2, 999),
    failures={"REJECTED": 1, "CANCELED": 0, "BACKEND": 2, "OTHER": 0},
    pending=4,
    load_duration_s=0.25,
)


def samples(text: str) -> dict[str, float]:
    return {
        name: float(value)
        for name, _, value in (line.rpartition(" ") for line in text.splitlines() if not line.startswith("#"))
    }


def test_every_family_has_tritons_name_labels_and_unit() -> None:
    text = ServerMetrics(lambda: (BUSY,)).text()
    one = '{model="simple",version="1"}'
    failure = 'nv_inference_request_failure{model="simple",reason="%s",version="1"}'
    assert samples(text) == {
        f"nv_inference_request_success{one}": 2,
        failure % "REJECTED": 1,
        failure % "CANCELED": 0,
        failure % "BACKEND": 2,
        failure % "OTHER": 0,
        f"nv_inference_count{one}": 9,
        f"nv_inference_exec_count{one}": 1,
        f"nv_inference_request_duration_us{one}": 5000,
        f"nv_inference_queue_duration_us{one}": 1,
        f"nv_inference_compute_input_duration_us{one}": 3,
        f"nv_inference_compute_infer_duration_us{one}": 4,
        f"nv_inference_compute_output_duration_us{one}": 0,
        f"nv_inference_pending_request_count{one}": 4,
        f"nv_model_load_duration_secs{one}": 0.25,
    }


def test_the_types_are_tritons_and_no_name_gets_a_suffix() -> None:
    text = ServerMetrics(lambda: (BUSY,)).text()
    types = dict(line.split()[2:4] for line in text.splitlines() if line.startswith("# TYPE"))
    gauges = {name for name, kind in types.items() if kind == "gauge"}
    assert gauges == {"nv_inference_pending_request_count", "nv_model_load_duration_secs"}
    assert set(types.values()) == {"counter", "gauge"}
    assert "_total" not in text


def test_the_text_is_read_back_by_the_prometheus_parser() -> None:
    metrics = ServerMetrics(
        lambda: (BUSY, dataclasses.replace(BUSY, name="other")),
        host=HostProbe(),
        gpus=lambda: (GpuReading("GPU-1", utilization=0.5, energy_joules=1.5),),
        refusals=lambda: {"NOT_FOUND": 3},
    )
    families = {family.name: family for family in text_string_to_metric_families(metrics.text())}
    assert len(families["nv_inference_request_failure"].samples) == 8
    assert families["nv_gpu_utilization"].samples[0].labels == {"gpu_uuid": "GPU-1"}
    assert families["infer_refused_requests"].samples[0].value == 3
    assert families["nv_cpu_memory_used_bytes"].samples[0].value > 0


def test_the_memory_of_every_worker_is_a_gauge_with_model_version_and_instance() -> None:
    memory = [InstanceMemory("m", "1", "m_0_0", 1000), InstanceMemory("m", "1", "m_0_1", 2000)]
    text = ServerMetrics(tuple, memory=lambda: memory).text()
    assert "# TYPE infer_instance_memory_bytes gauge" in text
    assert 'infer_instance_memory_bytes{instance="m_0_1",model="m",version="1"} 2000' in text
    assert "infer_instance_memory_bytes" not in ServerMetrics(tuple).text()


def test_batches_are_counted_by_what_limited_them_where_there_is_a_batcher() -> None:
    batched = ModelSnapshot("b", "1", batch_limits={"full": 0, "shape differs": 3})
    text = ServerMetrics(lambda: (BUSY, batched)).text()
    assert samples("\n".join(line for line in text.splitlines() if line.startswith("infer_"))) == {
        'infer_batches_total{model="b",reason="full",version="1"}': 0,
        'infer_batches_total{model="b",reason="shape differs",version="1"}': 3,
    }
    assert "# TYPE infer_batches_total counter" in text
    parsed = {family.name: family for family in text_string_to_metric_families(text)}
    assert parsed["infer_batches"].samples[1].labels == {"model": "b", "version": "1", "reason": "shape differs"}


def test_a_server_without_a_batcher_has_tritons_families_only() -> None:
    assert "infer_batches" not in ServerMetrics(lambda: (BUSY,)).text()


@pytest.mark.parametrize("name", ["infer_batches_total", "infer_instance_memory_bytes", "infer_refused_requests_total"])
def test_families_of_our_own_are_not_for_models_to_take(name: str) -> None:
    assert name in SERVER_FAMILIES


def test_a_metric_tag_becomes_a_label_with_an_underscore_and_is_escaped() -> None:
    snapshot = ModelSnapshot("m", "2", metric_tags={"team": 'a"b\\c\nd'})
    text = ServerMetrics(lambda: (snapshot,)).text()
    assert r'nv_inference_count{_team="a\"b\\c\nd",model="m",version="2"} 0' in text
    parsed = {family.name: family for family in text_string_to_metric_families(text)}
    assert parsed["nv_inference_count"].samples[0].labels["_team"] == 'a"b\\c\nd'


def test_four_failure_reasons_stand_at_zero_before_the_first_request() -> None:
    text = ServerMetrics(lambda: (ModelSnapshot("m", "1"),)).text()
    assert text.count("nv_inference_request_failure{") == 4


def test_a_changed_snapshot_is_shown_and_an_unloaded_model_vanishes() -> None:
    current = [BUSY]
    metrics = ServerMetrics(lambda: current)
    first = metrics.text()
    assert metrics.text() == first
    current[0] = dataclasses.replace(BUSY, pending=0)
    assert 'pending_request_count{model="simple",version="1"} 0' in metrics.text()
    current.clear()
    assert "simple" not in metrics.text()
    assert "# TYPE nv_inference_count counter" in metrics.text()


def test_without_host_and_gpus_their_families_are_absent() -> None:
    text = ServerMetrics(lambda: ()).text()
    assert "nv_cpu" not in text
    assert "nv_gpu" not in text


def test_another_room_may_register_a_collector_of_its_own() -> None:
    class Custom:
        def collect(self) -> list[CounterMetricFamily]:
            family = CounterMetricFamily("mine", "a counter", labels=["x"])
            family.add_metric(["y"], float("inf"))
            return [family]

    metrics = ServerMetrics(lambda: ())
    metrics.registry.register(Custom())
    assert 'mine_total{x="y"} +Inf' in metrics.text()
