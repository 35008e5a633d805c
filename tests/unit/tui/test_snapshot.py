"""A picture of a server is read as far as the server tells it."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from infer.tui.snapshot import (
    Duration,
    Instance,
    LogRecord,
    ModelSnapshot,
    Overview,
    Server,
    parse_log,
    parse_model,
    parse_overview,
)

DOCUMENT: dict[str, Any] = {
    "schema": 1,
    "server": {"id": "triton", "version": "0.1.0", "pid": 7, "now": 12.5, "ready": True, "http": None, "news": 1},
    "host": {"cpu_utilization": 0.5, "cpu_count": 2, "load_1m": 0.1, "memory_total_bytes": 8, "memory_used_bytes": 4},
    "gpus": [{"index": 1, "uuid": "GPU-1", "utilization": 0.25, "smell": "burnt"}],
    "gpu_reason": "",
    "models": [
        {
            "name": "m",
            "version": "1",
            "state": "READY",
            "depends_on": ["step"],
            "instances": [
                {"name": "m_0_0", "kind": "KIND_CPU", "device": -1, "state": "idle", "pid": 8, "memory_bytes": 100},
                {"name": "m_0_1", "memory_bytes": None},
            ],
            "success": 3,
            "failures": {"REJECTED": 2, "TIMEOUT": 1},
            "durations": {"request": {"count": 3, "ns": 900, "mean": 300}},
            "latency": [[100, 2], [200.5, 1]],
            "batches": [[1, 3]],
            "batch_limits": {"full": 1, "shape differs": 3, "no others": 0},
        },
        {"name": "never"},
    ],
    "refused": {"NOT_FOUND": 4},
    "log_last": 9,
}


def test_an_overview_is_read() -> None:
    overview = parse_overview(DOCUMENT)
    row = overview.models[0]
    assert overview.server == Server("triton", "0.1.0", pid=7, now=12.5, ready=True)
    assert overview.host is not None
    assert overview.host.cpu_count == 2
    assert overview.gpus[0].utilization == 0.25
    assert row.instances[0] == Instance("m_0_0", "KIND_CPU", -1, "idle", 8, 100)
    assert row.durations == {"request": Duration(3, 900)}
    assert row.latency == ((100.0, 2), (200.5, 1))
    assert row.depends_on == ("step",)
    assert (overview.refused, overview.log_last) == ({"NOT_FOUND": 4}, 9)


def test_a_model_that_was_never_loaded_is_a_row_without_version_and_counts() -> None:
    row = parse_overview(DOCUMENT).models[1]
    assert row == ModelSnapshot("never")
    assert (row.key, row.failed, row.memory_bytes, row.latency) == (("never", ""), 0, None, None)


def test_an_empty_document_is_a_server_that_tells_nothing() -> None:
    assert parse_overview({}) == Overview(Server())


@pytest.mark.parametrize("host", [None, {}])
def test_a_server_that_does_not_look_at_its_machine_has_no_host(host: Any) -> None:
    assert parse_overview({"host": host}).host is None


def test_a_picture_survives_the_way_through_json() -> None:
    overview = parse_overview(DOCUMENT)
    again = parse_overview(json.loads(json.dumps(dataclasses.asdict(overview))))
    assert again == overview


def test_failures_of_all_reasons_and_memory_of_all_workers_are_summed() -> None:
    row = parse_overview(DOCUMENT).models[0]
    assert (row.failed, row.memory_bytes) == (3, 100)


def test_what_limits_batches_is_told_in_shares_the_most_frequent_first() -> None:
    overview = parse_overview(DOCUMENT)
    assert overview.models[0].limit_shares == [("shape differs", 0.75), ("full", 0.25)]
    assert overview.models[1].limit_shares == []
    assert ModelSnapshot("m", batch_limits={"full": 0}).limit_shares == []


def test_a_version_is_found_by_name_and_number() -> None:
    overview = Overview(Server(), (ModelSnapshot("m", "1"), ModelSnapshot("m", "2")))
    assert overview.model("m", "2") is overview.models[1]
    assert overview.model("m") is overview.models[0]
    assert overview.model("m", "3") is overview.model("n") is None


def test_dependents_are_the_models_that_name_it_as_a_step_each_once() -> None:
    rows = (ModelSnapshot("e", "1", depends_on=("m",)), ModelSnapshot("e", "2", depends_on=("m", "n")))
    assert Overview(Server(), rows).dependents("m") == ("e",)
    assert Overview(Server(), rows).dependents("e") == ()


def test_a_log_page_is_read() -> None:
    record = {"seq": 5, "time": 1.5, "level": "INFO", "message": "hello [b]", "unknown": 1}
    page = parse_log({"last": 6, "lost": 2, "records": [record]})
    assert (page.last, page.lost) == (6, 2)
    assert page.records == (LogRecord(5, 1.5, "INFO", "hello [b]"),)
    assert parse_log({}).records == ()


def test_quantiles_that_a_server_tells_itself_are_kept() -> None:
    assert parse_model({"name": "m", "quantiles": [[0.5, 653]]}).quantiles == ((0.5, 653.0),)
