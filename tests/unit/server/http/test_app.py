"""The routes answer as Triton's do, byte for byte where clients compare."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

NOT_FOUND = b'{"error":"Not Found"}'
NOT_ALLOWED = b'{"error":"Method Not Allowed"}'


@pytest.mark.parametrize(
    "path",
    [
        "/", "/v1", "/v2/", "/v2/foo", "/v2/health", "/v3/health/ready", "/base/v2/health/ready", "/metrics",
        "/v2/models/simple/", "/v2/models/simple/foo", "/v2/models/simple/versions", "/v2/models//ready",
        "/v2/models/simple/versions/abc", "/v2/models/simple/versions/abc/ready", "/v2/models/simple/versions/-1/stats",
        "/v2/models/simple/versions/1x/config", "/v2/models/simple/versions/abc/infer", "/v2/models/a/b/infer",
        "/v2/repository/models/simple/foo", "/v2/models/simple/trace/setting/x",
    ],
)  # fmt: skip
def test_an_unknown_path_is_not_found(door: Any, path: str) -> None:
    for method in ("GET", "POST"):
        answer = door.call(method, path)
        assert (answer.status, answer.body, answer.headers["content-type"]) == (404, NOT_FOUND, "application/json")


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("/v2", "GET"),
        ("/v2/health/live", "GET"),
        ("/v2/health/ready", "GET"),
        ("/v2/models/simple", "GET"),
        ("/v2/models/simple/ready", "GET"),
        ("/v2/models/simple/config", "GET"),
        ("/v2/models/simple/stats", "GET"),
        ("/v2/models/stats", "GET"),
        ("/v2/models/simple/infer", "POST"),
        ("/v2/models/simple/versions/1/infer", "POST"),
        ("/v2/repository/index", "POST"),
        ("/v2/repository/models/simple/load", "POST"),
        ("/v2/repository/models/simple/unload", "POST"),
    ],
)
def test_any_other_method_is_not_allowed(door: Any, path: str, allowed: str) -> None:
    for method in {"GET", "POST", "PUT", "DELETE", "OPTIONS", "HEAD", "PROPFIND"} - {allowed}:
        answer = door.call(method, path)
        assert (answer.status, answer.headers["content-type"]) == (405, "application/json")
        assert answer.body == (b"" if method == "HEAD" else NOT_ALLOWED)


def test_query_strings_are_ignored(door: Any, two_inputs: list[dict[str, Any]]) -> None:
    assert door.call("GET", "/v2/health/ready?x=1").status == 200
    assert door.call("GET", "/v2/models/simple?x=/infer").json["name"] == "simple"
    assert door.post("/v2/models/simple/infer?x=1&y", {"inputs": two_inputs}).status == 200


def test_the_path_is_matched_as_it_was_sent(door: Any) -> None:
    answer = door.call("GET", "/v2/models/a%20b")
    assert (answer.status, answer.error) == (404, "Request for unknown model: 'a%20b' is not found")
    assert door.call("GET", "/v2/%68ealth/live").status == 404


def test_health_has_kserves_body_under_tritons_status(door: Any) -> None:
    assert (door.call("GET", "/v2/health/live").status, door.call("GET", "/v2/health/live").json) == (
        200,
        {"live": True},
    )
    assert door.call("GET", "/v2/health/ready").json == {"ready": True}
    door.engine.ready = False
    answer = door.call("GET", "/v2/health/ready")
    assert (answer.status, answer.json) == (400, {"ready": False})
    assert door.call("GET", "/v2/health/live").status == 200


def test_while_it_drains_the_server_says_so(door: Any) -> None:
    door.engine.draining = True
    for path in ("/v2/health/live", "/v2/health/ready"):
        answer = door.call("GET", path)
        assert (answer.status, answer.error) == (503, "Server exiting")


def test_server_metadata_is_compact_json(door: Any) -> None:
    answer = door.call("GET", "/v2")
    assert answer.body == (b'{"name":"triton","version":"0.1.0","extensions":["classification","binary_tensor_data"]}')
    assert answer.headers["content-type"] == "application/json"


def test_model_metadata_and_configuration(door: Any) -> None:
    metadata = door.call("GET", "/v2/models/simple/versions/1").json
    assert (metadata["versions"], metadata["platform"]) == (["1"], "fake")
    assert metadata["inputs"][0] == {"name": "INPUT0", "datatype": "INT32", "shape": [-1, 16]}
    assert door.call("GET", "/v2/models/simple/config").json["max_batch_size"] == 8
    assert door.call("GET", "/v2/models/simple/versions/1/config").status == 200


@pytest.mark.parametrize("what", ["", "/config"])
def test_an_unknown_model_or_version_is_named(door: Any, what: str) -> None:
    answer = door.call("GET", f"/v2/models/nope{what}")
    assert (answer.status, answer.error) == (404, "Request for unknown model: 'nope' is not found")
    answer = door.call("GET", f"/v2/models/simple/versions/2{what}")
    assert (answer.status, answer.error) == (404, "Request for unknown model: 'simple' version 2 is not found")
    answer = door.call("GET", f"/v2/models/simple/versions/9223372036854775808{what}")
    assert answer.status == 400
    assert answer.error.startswith("failed to get model version")
    assert door.call("GET", f"/v2/models/simple/versions/{'0' * 30}1{what}").status == 200


def test_model_readiness_is_a_status(door: Any) -> None:
    answer = door.call("GET", "/v2/models/simple/ready")
    assert (answer.status, answer.body) == (200, b"")
    for path in ("/v2/models/nope/ready", "/v2/models/simple/versions/2/ready"):
        answer = door.call("GET", path)
        assert (answer.status, answer.error) == (400, "Model version not ready")


def test_statistics_of_one_and_of_all(door: Any) -> None:
    (one,) = door.call("GET", "/v2/models/simple/stats").json["model_stats"]
    assert (one["name"], one["version"], one["inference_count"]) == ("simple", "1", 0)
    assert len(door.call("GET", "/v2/models/stats").json["model_stats"]) == len(door.engine.models)
    assert door.call("GET", "/v2/models/nope/stats").error == "requested model 'nope' is not available"
    answer = door.call("GET", "/v2/models/simple/versions/2/stats")
    assert (answer.status, answer.error) == (400, "requested model version is not available for model 'simple'")


@pytest.mark.parametrize("path", ["/v2/repository/index", "/v2/repository/myrepo/index"])
@pytest.mark.parametrize("body", [b"", b"{}", b"[]", b'{"ready":false}'])
def test_the_index_lists_every_model(door: Any, path: str, body: bytes) -> None:
    entries = door.call("POST", path, body).json
    assert {"name": "asleep"} in entries
    assert {"name": "simple", "version": "1", "state": "READY"} in entries
    assert {"name": "broken", "version": "1", "state": "UNAVAILABLE", "reason": "unloaded"} in entries


def test_the_index_can_be_of_what_is_ready(door: Any) -> None:
    entries = door.post("/v2/repository/index", {"ready": True}).json
    assert all(entry["state"] == "READY" for entry in entries)


@pytest.mark.parametrize(
    "body", [b'{"ready":"x"}', b'{"ready":1}', b'{"ready":' + b"[" * 250_000 + b"]" * 250_000 + b"}"]
)
def test_ready_must_be_a_boolean(door: Any, body: bytes) -> None:
    answer = door.call("POST", "/v2/repository/index", body)
    assert (answer.status, answer.error) == (400, "Invalid value for 'ready': expected a boolean")
    door.assert_healthy()


def test_an_index_request_that_is_no_json_is_a_parse_error(door: Any) -> None:
    answer = door.call("POST", "/v2/repository/index", b"{")
    assert answer.status == 500
    assert answer.error.startswith("failed to parse the request JSON buffer: ")


def test_load_and_unload_reach_the_engine_in_explicit_mode(door: Any) -> None:
    assert door.post("/v2/repository/models/simple/load", {}).status == 200
    assert door.call("POST", "/v2/repository/models/simple/load").body == b""
    assert door.post("/v2/repository/models/simple/unload", {}).status == 200
    dependents = {"parameters": {"unload_dependents": True}}
    assert door.post("/v2/repository/models/simple/unload", dependents).status == 200
    assert door.engine.changes == [
        ("load", "simple"), ("load", "simple"), ("unload", "simple"), ("unload_all", "simple"),
    ]  # fmt: skip


def test_the_parameters_of_a_load_reach_the_engine_files_decoded(door: Any) -> None:
    parameters = {"config": '{"backend": "python"}', "file:1/model.py": "cGFz\r\ncw==", "file:labels.txt": ""}
    assert door.post("/v2/repository/models/new/load", {"parameters": parameters}).status == 200
    (overrides,) = door.engine.overrides
    assert overrides.config == '{"backend": "python"}'
    assert overrides.files == {"1/model.py": b"pass", "labels.txt": b""}


@pytest.mark.parametrize("mode", ["none", "poll"])
@pytest.mark.parametrize("verb", ["load", "unload"])
def test_models_are_not_changed_in_another_control_mode(door: Any, mode: str, verb: str) -> None:
    door.engine.control_mode = mode
    answer = door.post(f"/v2/repository/models/simple/{verb}", {})
    assert (answer.status, answer.error) == (
        503,
        "explicit model load / unload is not allowed if polling is enabled",
    )
    assert door.engine.changes == []


@pytest.mark.parametrize(
    ("path", "document", "status", "phrase"),
    [
        ("models/simple/load", {"parameters": {"file:1/a": "e"}}, 400, "load parameter 'file:1/a' is not base64"),
        ("models/simple/load", {"parameters": {"file:1/a": 7}}, 500, "attempt to access JSON non-string as string"),
        ("models/simple/load", {"parameters": {"config": "{}", "x": ""}}, 500, "unexpected error on creating Triton"),
        ("models/simple/load", {"parameters": {"config": 5}}, 500, "attempt to access JSON non-string as string"),
        ("models/simple/load", {"parameters": {"foo": "bar"}}, 500, "unexpected error on creating Triton parameter"),
        ("models/simple/load", {"parameters": []}, 500, "failed to get request params."),
        ("models/simple/load", b"{bad", 500, "failed to parse the request JSON buffer"),
        ("models/../load", {}, 400, "model name must not contain path traversal characters"),
        ("models/%20/unload", {"parameters": {"unload_dependents": 1}}, 500, "Unable to parse 'unload_dependents'"),
        ("repo/models/simple/load", {}, 501, "'repository_name' specification is not supported"),
        ("repo/models/simple/unload", {}, 501, "'repository_name' specification is not supported"),
    ],
)
def test_a_wrong_change_is_refused(door: Any, path: str, document: Any, status: int, phrase: str) -> None:
    answer = door.post(f"/v2/repository/{path}", document)
    assert answer.status == status
    assert phrase in answer.error
    assert door.engine.changes == []


def test_a_control_request_over_the_limit_is_refused(make_door: Callable[..., Any]) -> None:
    door = make_door(max_input_size=1000)
    answer = door.post("/v2/repository/models/simple/load", {"parameters": {"config": "x" * 1000}})
    assert answer.status == 400
    assert "request JSON size of 1030 bytes exceeds the maximum allowed input size of 1000 bytes. Use --http-max" in (
        answer.error
    )


def test_a_hundred_requests_on_one_connection_errors_included(door: Any, two_inputs: list[dict[str, Any]]) -> None:
    import http.client

    connection = http.client.HTTPConnection(*door.address, timeout=20)
    body = json.dumps({"inputs": two_inputs})
    for index in range(100):
        if index % 4 == 0:
            connection.request("GET", "/v2/models/nope")
        elif index % 4 == 1:
            connection.request("POST", "/v2/models/simple/infer", "{")
        else:
            connection.request("POST", "/v2/models/simple/infer", body)
        response = connection.getresponse()
        response.read()
        assert response.status == (404, 500, 200, 200)[index % 4]
    connection.close()
