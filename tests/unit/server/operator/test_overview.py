"""The overview has everything a dashboard shows, and answers while the loop is saturated."""

from __future__ import annotations

import json
import os
import threading
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from infer.backends.api.backend import InstanceSpec
from infer.backends.api.model_config import InstanceKind, ModelConfig
from infer.server.observe.gpu import GpuReading
from infer.server.observe.host import HostReading
from infer.server.observe.statistics import ModelStatistics
from infer.server.operator.overview import Sources, document, reachable
from infer.server.operator.service import OperatorService, OperatorSettings
from infer.server.scheduling.pool import InstancePicture

if TYPE_CHECKING:
    from tests.unit.server.operator.conftest import Door


def served() -> Any:
    """What the engine has loaded for ``simple``: one worker, which is this process."""
    picture = InstancePicture("simple_0_0", "busy", os.getpid(), 1)
    return SimpleNamespace(
        config=ModelConfig.from_document({"name": "simple", "backend": "python"}),
        statistics=ModelStatistics("simple", 3),
        placement={"simple_0_0": InstanceSpec("simple_0_0", InstanceKind.CPU)},
        scheduler=SimpleNamespace(in_flight=2, instances=SimpleNamespace(pictures=lambda: (picture,))),
    )


def overview(door: Door) -> Any:
    answer = door.get("/v2/operator/overview")
    assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
    return answer.json


def test_the_whole_document_is_there(door: Door) -> None:
    found = overview(door)
    assert set(found) == {"schema", "server", "host", "gpus", "gpu_reason", "models", "refused", "log_last"}
    assert found["schema"] == 1
    assert found["refused"] == {"NOT_FOUND": 2}
    assert found["log_last"] == 0
    assert [(row["name"], row["state"], row["reason"]) for row in found["models"]] == [
        ("bad", "UNAVAILABLE", "no file"),
        ("simple", "READY", ""),
    ]


@pytest.mark.parametrize(
    "settings", [OperatorSettings(port=0, name="default", log_file="/tmp/x.log", control_key="the-key")]
)
def test_the_server_says_who_and_where_it_is(door: Door) -> None:
    server = overview(door)["server"]
    before = time.time()
    assert (server["id"], server["version"], server["name"]) == ("triton", "1.2.3", "default")
    assert (server["pid"], server["log_file"]) == (os.getpid(), "/tmp/x.log")
    assert before - 60 < server["started_at"] <= server["now"] <= before + 60
    assert (server["live"], server["ready"], server["draining"]) == (True, True, False)
    assert server["control_mode"] == "explicit"
    assert server["http"] == "127.0.0.1:80"
    assert server["grpc"] is None
    assert server["operator"] == f"127.0.0.1:{door.service.address[1]}"
    assert server["memory_bytes"] > 1 << 20
    assert server["cpu_s"] > 0


def test_a_server_that_stops_or_is_not_ready_says_so(door: Door) -> None:
    door.engine.ready = door.engine.live = False
    door.engine.draining = True
    server = overview(door)["server"]
    assert (server["live"], server["ready"], server["draining"]) == (False, False, True)


def test_a_client_is_told_whether_it_may_change_things(door: Door) -> None:
    assert overview(door)["server"]["changes"] == ""
    door.headers = {}
    assert "Authorization: Bearer KEY" in overview(door)["server"]["changes"]
    door.headers = {"Authorization": "Bearer wrong"}
    assert "not the control key" in overview(door)["server"]["changes"]


def test_a_worker_is_shown_with_its_memory(door: Door) -> None:
    door.engine.opened["simple"] = served()
    row = overview(door)["models"][1]
    (instance,) = row["instances"]
    assert instance.pop("memory_bytes") > 1 << 20
    assert instance == {
        "name": "simple_0_0",
        "kind": "KIND_CPU",
        "device": -1,
        "state": "busy",
        "pid": os.getpid(),
        "restarts": 1,
    }
    assert row["in_flight"] == 2


def test_the_machine_is_shown(door: Door) -> None:
    host = overview(door)["host"]
    assert set(host) == {"cpu_utilization", "cpu_count", "load_1m", "memory_total_bytes", "memory_used_bytes"}
    assert host["memory_total_bytes"] > host["memory_used_bytes"] > 0


@pytest.mark.parametrize("settings", [OperatorSettings(port=0, host_metrics=False, gpu_metrics=False)])
def test_what_is_not_measured_is_not_made_up(door: Door) -> None:
    found = overview(door)
    assert found["host"] is None
    assert found["gpus"] == []
    assert "--allow-gpu-metrics=false" in found["gpu_reason"]


def test_either_gpus_or_the_reason_why_there_are_none(door: Door) -> None:
    found = overview(door)
    assert bool(found["gpus"]) != bool(found["gpu_reason"])


def test_a_gpu_has_all_its_fields() -> None:
    gpu = GpuReading("GPU-1", 0.5, 100, 10, 50.0, 700.0, 3.5, 41.0, 2, "NVIDIA H200")
    sources = Sources(host=lambda: HostReading(0.5, 10, 5, 2, 1.5), gpus=lambda: ((gpu,), "none"), log_last=lambda: 9)
    found = json.loads(orjson.dumps(document({}, [], {}, sources)))
    assert found["gpus"] == [
        {
            "index": 2,
            "uuid": "GPU-1",
            "name": "NVIDIA H200",
            "utilization": 0.5,
            "memory_total_bytes": 100,
            "memory_used_bytes": 10,
            "power_usage_watts": 50.0,
            "power_limit_watts": 700.0,
            "temperature_celsius": 41.0,
            "energy_joules": 3.5,
        }
    ]
    assert (found["gpu_reason"], found["log_last"], found["host"]["load_1m"]) == ("", 9, 1.5)


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        (None, None),
        (("10.0.0.1", 8000), "10.0.0.1:8000"),
        (("0.0.0.0", 8000), "127.0.0.1:8000"),
        (("", 8000), "127.0.0.1:8000"),
        (("::", 8000), "[::1]:8000"),
        (("fe80::1", 8000), "[fe80::1]:8000"),
    ],
)
def test_an_address_is_one_that_reaches_the_door_from_this_machine(
    address: tuple[str, int] | None, expected: str | None
) -> None:
    assert reachable(address) == expected


def test_it_answers_while_the_loop_is_saturated(door: Door) -> None:
    release, held = threading.Event(), threading.Event()

    def hold() -> None:
        held.set()
        release.wait(20)

    door.engine.opened["simple"] = served()
    door.loop.call_soon(hold)
    assert held.wait(10)
    try:
        assert overview(door)["models"][1]["in_flight"] == 2
        assert door.get("/v2/operator/log").status == 200
    finally:
        release.set()


def test_other_methods_are_refused(door: Door) -> None:
    for path in ("overview", "log"):
        assert door.post(f"/v2/operator/{path}").status == 405
    assert door.get("/v2/operator").status == 404


def test_a_door_of_its_own_accord_has_no_records_and_no_other_doors(door: Door) -> None:
    service = OperatorService(door.engine, OperatorSettings(port=0, control_key="the-key"))
    service.start()
    try:
        door.service, before = service, door.service
        assert overview(door)["server"]["http"] is None
        assert door.get("/v2/operator/log").json == {"last": 0, "lost": 0, "records": []}
        door.service = before
    finally:
        service.stop()
