"""A row says what a model version is, does and did; an idle one's is made once."""

from __future__ import annotations

import gc
import json
import weakref
from types import SimpleNamespace
from typing import Any

import orjson
import pytest

from infer.backends.api.backend import InstanceSpec
from infer.backends.api.errors import FailureReason
from infer.backends.api.model_config import InstanceKind, ModelConfig
from infer.server.lifecycle.states import IndexEntry
from infer.server.observe.latency import bucket, upper_bound_us
from infer.server.observe.metrics import InstanceMemory
from infer.server.observe.statistics import BatchLimit, ModelStatistics
from infer.server.operator.model_rows import (
    InstanceState,
    ModelRows,
    depends_on,
    instance_row,
    model_row,
    worker_memory,
)
from infer.server.scheduling.pool import InstancePicture

READY = IndexEntry("m", "1", "READY")


class Served:
    """A loaded version with one instance of a worker, pid 7, that holds ``memory`` bytes."""

    def __init__(self) -> None:
        document = {"name": "m", "backend": "python", "max_batch_size": 8}
        self.config = ModelConfig.from_document(document)
        self.statistics = ModelStatistics("m", 1)
        self.placement = {"m_0_0": InstanceSpec("m_0_0", InstanceKind.CPU)}
        self.picture = InstancePicture("m_0_0", "idle", 7, 0)
        self.memory: int | None = 1000
        self.scheduler: Any = SimpleNamespace(in_flight=0, instances=SimpleNamespace(pictures=lambda: (self.picture,)))
        self.asked: list[int] = []

    def memory_of(self, pid: int) -> int | None:
        self.asked.append(pid)
        return self.memory

    def count(self) -> None:
        self.statistics.record_success(2, total_ns=9000, queue_ns=1, input_ns=2, infer_ns=3, output_ns=4)


@pytest.fixture
def served() -> Served:
    return Served()


def test_memory_is_asked_of_loaded_versions_that_have_a_process(served: Served) -> None:
    rows: Any = [(READY, served), (IndexEntry("other"), None)]
    assert worker_memory(rows, served.memory_of) == [InstanceMemory("m", "1", "m_0_0", 1000)]
    assert served.asked == [7]
    served.memory = None
    assert worker_memory(rows, served.memory_of) == []
    served.picture = InstancePicture("m_0_0", "idle", 0, 0)
    served.memory = 5
    assert worker_memory(rows, served.memory_of) == []


def render(rows: ModelRows, served: Any, entry: IndexEntry = READY) -> orjson.Fragment:
    (fragment,) = rows.render([(entry, served)])
    return fragment


def read(fragment: orjson.Fragment) -> dict[str, Any]:
    return json.loads(orjson.dumps(fragment))


def test_a_model_that_was_never_loaded_has_a_name_and_zeros() -> None:
    row = read(render(ModelRows(), None, IndexEntry("m")))
    none = {"count": 0, "ns": 0}
    assert row == {
        "name": "m",
        "version": "",
        "state": "",
        "reason": "",
        "backend": "",
        "max_batch_size": 0,
        "depends_on": [],
        "instances": [],
        "success": 0,
        "failures": {},
        "inference_count": 0,
        "execution_count": 0,
        "pending": 0,
        "in_flight": 0,
        "durations": dict.fromkeys(("request", "queue", "compute_input", "compute_infer", "compute_output"), none),
        "latency": [],
        "batches": [],
        "batch_limits": {},
        "load_duration_s": 0.0,
        "last_inference_ms": 0,
    }


def test_a_model_that_failed_to_load_has_its_reason() -> None:
    row = model_row(IndexEntry("m", "3", "UNAVAILABLE", "no file"))
    assert (row["version"], row["state"], row["reason"]) == ("3", "UNAVAILABLE", "no file")


def test_a_row_has_what_was_counted(served: Served) -> None:
    served.count()
    served.statistics.record_batch(2, input_ns=1, infer_ns=1, output_ns=1)
    served.statistics.record_failure(FailureReason.REJECTED, 5)
    served.statistics.has_batcher()
    served.statistics.record_limit(BatchLimit.SHAPE)
    served.statistics.pending = 3
    served.statistics.load_duration_s = 1.5
    served.scheduler.in_flight = 4
    row = read(render(ModelRows(served.memory_of), served))
    assert (row["backend"], row["max_batch_size"]) == ("python", 8)
    assert (row["success"], row["inference_count"], row["execution_count"]) == (1, 2, 1)
    assert row["failures"] == {"REJECTED": 1, "CANCELED": 0, "BACKEND": 0, "OTHER": 0}
    assert (row["pending"], row["in_flight"]) == (3, 4)
    assert row["durations"] == {
        "request": {"count": 1, "ns": 9000},
        "queue": {"count": 1, "ns": 1},
        "compute_input": {"count": 1, "ns": 2},
        "compute_infer": {"count": 1, "ns": 3},
        "compute_output": {"count": 1, "ns": 4},
    }
    assert row["latency"] == [[upper_bound_us(bucket(9000)), 1]]
    assert row["batches"] == [[2, 1]]
    assert row["batch_limits"] == {limit.value: int(limit is BatchLimit.SHAPE) for limit in BatchLimit}
    assert row["load_duration_s"] == 1.5
    assert row["last_inference_ms"] > 1_600_000_000_000


def test_a_platform_stands_for_a_backend_that_is_not_named(served: Served) -> None:
    served.config = ModelConfig.from_document({"name": "m", "platform": "ensemble"})
    assert model_row(READY, served.config)["backend"] == "ensemble"


def test_the_row_of_an_idle_model_is_made_once(served: Served) -> None:
    rows = ModelRows(served.memory_of)
    first = render(rows, served)
    assert render(rows, served) is first
    unloaded = render(rows, None, IndexEntry("m"))
    assert read(unloaded)["state"] == ""
    rows = ModelRows()
    first = render(rows, None, IndexEntry("x"))
    assert render(rows, None, IndexEntry("x")) is first


def test_whatever_changes_shows_in_the_next_row(served: Served) -> None:
    rows = ModelRows(served.memory_of)

    def row(entry: IndexEntry = READY) -> dict[str, Any]:
        return read(render(rows, served, entry))

    row()
    served.count()
    assert row()["success"] == 1
    served.scheduler.in_flight = 1
    assert row()["in_flight"] == 1
    served.picture = served.picture._replace(state="busy")
    assert row()["instances"][0]["state"] == "busy"
    served.memory = 2000
    assert row()["instances"][0]["memory_bytes"] == 2000
    served.picture = served.picture._replace(restarts=1)
    assert row()["instances"][0]["restarts"] == 1
    down = IndexEntry("m", "1", "UNAVAILABLE", "instance 'm_0_0' died")
    assert row(down)["reason"] == "instance 'm_0_0' died"
    assert row()["state"] == "READY"


def test_a_version_that_was_loaded_anew_begins_at_zero(served: Served) -> None:
    rows = ModelRows(served.memory_of)
    served.count()
    render(rows, served)
    served.statistics = ModelStatistics("m", 1)
    served.statistics.load_duration_s = 0.7
    assert read(render(rows, served))["success"] == 0


def test_a_version_that_was_loaded_with_another_configuration_shows_it_before_its_first_request(served: Served) -> None:
    rows = ModelRows(served.memory_of)
    assert read(render(rows, served))["max_batch_size"] == 8
    served.config = ModelConfig.from_document({"name": "m", "backend": "python", "max_batch_size": 4})
    served.statistics.load_duration_s = 0.7
    assert read(render(rows, served))["max_batch_size"] == 4


def test_no_row_keeps_a_model_alive_that_was_unloaded() -> None:
    rows, served = ModelRows(lambda pid: None), Served()
    render(rows, served)
    watched = weakref.ref(served)
    del served
    gc.collect()
    assert watched() is None


def test_rows_come_in_the_order_of_the_index_and_versions_are_kept_apart(served: Served) -> None:
    entries = [(IndexEntry("a"), None), (IndexEntry("m", "0", "UNAVAILABLE", "gone"), None), (READY, served)]
    rows: Any = ModelRows(served.memory_of)
    rendered = [read(fragment) for fragment in rows.render(entries)]
    assert [(row["name"], row["state"]) for row in rendered] == [("a", ""), ("m", "UNAVAILABLE"), ("m", "READY")]
    rows.render([])
    assert rows._known == {}


def test_memory_is_asked_for_workers_only(served: Served) -> None:
    rows = ModelRows(served.memory_of)
    render(rows, served)
    assert served.asked == [7]
    served.picture = served.picture._replace(pid=0)
    (instance,) = read(render(rows, served))["instances"]
    assert (instance["pid"], instance["memory_bytes"]) == (None, None)
    assert served.asked == [7]


@pytest.mark.parametrize(
    ("spec", "kind", "device"),
    [
        (InstanceSpec("i", InstanceKind.CPU), "KIND_CPU", -1),
        (InstanceSpec("i", InstanceKind.GPU, 2), "KIND_GPU", 2),
        (InstanceSpec("i", InstanceKind.MODEL), "KIND_MODEL", -1),
        (None, "", -1),
    ],
)
def test_an_instance_has_a_kind_and_a_device(spec: InstanceSpec | None, kind: str, device: int) -> None:
    row = instance_row(InstanceState(InstancePicture("i", "restarting", 0, 4), spec, None))
    assert row == {
        "name": "i",
        "kind": kind,
        "device": device,
        "state": "restarting",
        "pid": None,
        "memory_bytes": None,
        "restarts": 4,
    }


def test_an_ensemble_depends_on_the_models_of_its_steps_each_once() -> None:
    steps = [{"model_name": name} for name in ("resize", "classify", "resize")]
    assert depends_on({"ensemble_scheduling": {"step": steps}}) == ["resize", "classify"]
    assert depends_on({"ensemble_scheduling": {}}) == []
    assert depends_on({"ensemble_scheduling": {"step": [{}]}}) == []
    assert depends_on({"name": "m"}) == []
