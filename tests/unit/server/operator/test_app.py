from __future__ import annotations

import contextlib
import http.client
import threading
from typing import TYPE_CHECKING

import pytest
from prometheus_client.parser import text_string_to_metric_families

from infer.server.operator.service import OperatorSettings

if TYPE_CHECKING:
    from tests.unit.server.operator.conftest import Door


@pytest.mark.parametrize("path", ["/metrics", "/metrics/"])
def test_metrics_are_prometheus_text_under_tritons_names(door: Door, path: str) -> None:
    answer = door.get(path)
    assert answer.status == 200
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    families = {family.name: family for family in text_string_to_metric_families(answer.body.decode())}
    assert families["nv_inference_request_success"].samples[0].value == 5
    assert families["infer_refused_requests"].samples[0].labels == {"code": "NOT_FOUND"}


def test_another_method_on_metrics_is_refused(door: Door) -> None:
    answer = door.post("/metrics")
    assert answer.status == 405
    assert answer.json == {"error": "Method Not Allowed"}


@pytest.mark.parametrize("path", ["/", "/other", "/v2x"])
def test_a_path_that_is_not_ours_gets_tritons_empty_answer(door: Door, path: str) -> None:
    answer = door.get(path)
    assert (answer.status, answer.body) == (200, b"")


@pytest.mark.parametrize("path", ["/v2/nothing", "/v2/", "/v2/models/simple/versions/x/stats", "/v2/models/a/b/c"])
def test_an_unknown_path_of_our_api_is_not_found(door: Door, path: str) -> None:
    answer = door.get(path)
    assert answer.status == 404
    assert answer.json == {"error": "Not Found"}


def test_live_and_ready_have_empty_bodies(door: Door) -> None:
    for path in (
        "/v2/health/live",
        "/v2/health/ready",
        "/v2/models/simple/ready",
        "/v2/models/simple/versions/3/ready",
    ):
        answer = door.get(path)
        assert (answer.status, answer.body) == (200, b""), path


def test_not_ready_is_400(door: Door) -> None:
    door.engine.ready = False
    assert door.get("/v2/health/ready").status == 400
    assert door.get("/v2/health/live").status == 200


def test_a_server_that_exits_says_so(door: Door) -> None:
    door.engine.draining = True
    for path in ("/v2/health/live", "/v2/health/ready"):
        answer = door.get(path)
        assert (answer.status, answer.json) == (503, {"error": "Server exiting"})


@pytest.mark.parametrize("path", ["/v2/models/nope/ready", "/v2/models/simple/versions/2/ready"])
def test_a_model_that_does_not_serve_is_not_ready(door: Door, path: str) -> None:
    answer = door.get(path)
    assert (answer.status, answer.json) == (400, {"error": "Model version not ready"})


def test_server_metadata(door: Door) -> None:
    answer = door.get("/v2")
    assert answer.body == b'{"name":"triton","version":"1.2.3","extensions":["statistics"]}'
    assert answer.headers["content-type"] == "application/json"


def test_model_metadata_names_all_ready_versions_or_the_one_asked_for(door: Door) -> None:
    document = door.get("/v2/models/simple").json
    assert document["versions"] == ["1", "3"]
    assert document["inputs"] == [{"name": "IN", "datatype": "INT32", "shape": [-1, 16]}]
    assert document["outputs"] == [{"name": "OUT", "datatype": "BYTES", "shape": [-1, -1]}]
    assert door.get("/v2/models/simple/versions/1").json["versions"] == ["1"]


def test_model_config(door: Door) -> None:
    assert door.get("/v2/models/simple/config").json["max_batch_size"] == 8


def test_an_unknown_model_has_the_protocols_status_and_sentence(door: Door) -> None:
    for path in ("/v2/models/nope", "/v2/models/nope/config"):
        answer = door.get(path)
        assert answer.status == 404
        assert answer.json == {"error": "Request for unknown model: 'nope' is not found"}
    answer = door.get("/v2/models/nope/stats")
    assert (answer.status, answer.json) == (400, {"error": "requested model 'nope' is not available"})


def test_statistics_of_all_of_one_model_and_of_one_version(door: Door) -> None:
    for path, version in (("stats", "3"), ("simple/stats", "3"), ("simple/versions/1/stats", "1")):
        (entry,) = door.get(f"/v2/models/{path}").json["model_stats"]
        assert (entry["name"], entry["version"]) == ("simple", version)
        assert entry["inference_stats"]["success"] == {"count": 5, "ns": 7}


def test_the_index_lists_states_and_reasons(door: Door) -> None:
    everything = [
        {"name": "bad", "version": "1", "state": "UNAVAILABLE", "reason": "no file"},
        {"name": "simple", "version": "3", "state": "READY"},
    ]
    assert door.get("/v2/repository/index").json == everything
    assert door.post("/v2/repository/index").json == everything
    assert door.post("/v2/repository/index", {}).json == everything
    assert door.get("/v2/repository/index?ready=true").json == everything[1:]
    assert door.post("/v2/repository/index", {"ready": True}).json == everything[1:]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'{"ready":"x"}', "Invalid value for 'ready': expected a boolean"),
        (b"[1]", "expected a JSON object as the body, got list"),
        (b"{", "failed to parse the request JSON buffer"),
        (b"[" * 100_000, "failed to parse the request JSON buffer"),
    ],
)
def test_a_bad_index_request_is_refused_with_a_sentence(door: Door, body: bytes, message: str) -> None:
    answer = door.ask("POST", "/v2/repository/index", body)
    assert answer.status == 400
    assert message in answer.json["error"]


@pytest.mark.parametrize("settings", [OperatorSettings(port=0, max_body_bytes=1 << 20)])
def test_a_body_beyond_the_limit_is_refused(door: Door) -> None:
    connection = http.client.HTTPConnection(*door.service.address, timeout=20)
    with contextlib.closing(connection):
        connection.putrequest("POST", "/v2/repository/index")
        connection.putheader("Content-Length", "1100000")
        connection.endheaders()
        assert connection.getresponse().status == 413


def test_what_nobody_foresaw_is_500_without_its_details(door: Door, caplog: pytest.LogCaptureFixture) -> None:
    answer = door.get("/v2/models/broken")
    assert answer.status == 500
    assert answer.json == {"error": "internal error: RuntimeError; the server's log has the details"}
    assert "a secret" in caplog.text


def test_the_door_answers_while_the_loop_is_saturated(door: Door) -> None:
    release = threading.Event()
    held = threading.Event()

    def hold() -> None:
        held.set()
        release.wait(20)

    door.loop.call_soon(hold)
    assert held.wait(10)
    try:
        for path in ("/metrics", "/v2", "/v2/health/ready", "/v2/models/stats", "/v2/models/simple/config"):
            assert door.get(path).status == 200
        assert door.post("/v2/repository/index").status == 200
    finally:
        release.set()
