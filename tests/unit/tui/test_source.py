"""The source that is a server asks the paths of the operator's door, and the HTTP door for inference."""

from __future__ import annotations

import json
from typing import Any

import pytest

from infer.tui import source as module
from infer.tui.client import Client, Reply
from infer.tui.failure import ClientError, Kind
from infer.tui.source import ServerSource

ASKED: list[tuple[str, str, Any]] = []
ANSWERS: dict[str, tuple[int, Any]] = {}
METADATA = {
    "name": "m",
    "inputs": [{"name": "A", "datatype": "INT32", "shape": [1]}],
    "outputs": [{"name": "B", "datatype": "INT32", "shape": [1]}],
}


class ScriptedClient(Client):
    """A client whose server says what a test wants; what it was asked is in ASKED."""

    def request(self, method: str, path: str, body: bytes = b"", headers: Any = None) -> Reply:
        ASKED.append((method, f"{self.url}{path}", body))
        status, document = ANSWERS[path.partition("?")[0]]
        return Reply(status, {}, json.dumps(document).encode())


@pytest.fixture
def source(monkeypatch: pytest.MonkeyPatch) -> ServerSource:
    ASKED.clear()
    ANSWERS.clear()
    ANSWERS["/v2/operator/overview"] = (200, {"server": {"id": "triton", "http": "h:8000"}})
    monkeypatch.setattr(module, "Client", ScriptedClient)
    return ServerSource(ScriptedClient("http://h:8002", 5.0, "secret"), change_timeout_s=99)


def test_the_overview_is_that_of_the_operators_door(source: ServerSource) -> None:
    assert source.overview().server.id == "triton"
    assert source.address == "http://h:8002"
    assert ASKED == [("GET", "http://h:8002/v2/operator/overview", b"")]


def test_a_log_is_asked_for_with_what_is_given_only(source: ServerSource) -> None:
    ANSWERS["/v2/operator/log"] = (200, {"last": 3, "records": []})
    assert source.log().last == 3
    source.log(after=0, limit=5, level="ERROR", model="a b&c")
    assert [path for _, path, _ in ASKED] == [
        "http://h:8002/v2/operator/log?limit=200",
        "http://h:8002/v2/operator/log?limit=5&after=0&level=ERROR&model=a+b%26c",
    ]


def test_metadata_and_configuration_are_those_of_a_version(source: ServerSource) -> None:
    ANSWERS["/v2/models/m/versions/2"] = (200, {"name": "m"})
    ANSWERS["/v2/models/m/config"] = (200, {"backend": "python"})
    assert source.metadata("m", "2") == {"name": "m"}
    assert source.config("m") == {"backend": "python"}


@pytest.mark.parametrize("verb", ["load", "unload"])
def test_changes_are_posted(source: ServerSource, verb: str) -> None:
    ANSWERS[f"/v2/repository/models/m/{verb}"] = (200, {})
    getattr(source, verb)("m")
    assert [("POST", f"http://h:8002/v2/repository/models/m/{verb}", b"{}")] == ASKED


def test_a_refused_change_says_why(source: ServerSource) -> None:
    ANSWERS["/v2/repository/models/m/load"] = (403, {"error": "wrong key"})
    with pytest.raises(ClientError) as caught:
        source.load("m")
    assert (caught.value.kind, caught.value.why) == (Kind.REFUSED, "wrong key")


def test_an_inference_goes_to_the_http_door_that_the_overview_names(source: ServerSource) -> None:
    ANSWERS["/v2/models/m"] = (200, METADATA)
    output = {"name": "B", "datatype": "INT32", "shape": [1], "data": [7]}
    ANSWERS["/v2/models/m/infer"] = (200, {"model_name": "m", "outputs": [output]})
    source.overview()
    answer, curl = source.infer("m", "", {"A": [1]})
    assert answer.tensors[0].values == [7]
    assert curl.startswith("curl -s http://h:8000/v2/models/m/infer")
    assert ASKED[-1][1] == "http://h:8000/v2/models/m/infer"


def test_a_server_without_http_door_cannot_be_called(source: ServerSource) -> None:
    ANSWERS["/v2/operator/overview"] = (200, {"server": {"http": None}})
    source.overview()
    with pytest.raises(ClientError) as caught:
        source.infer("m", "", {})
    assert caught.value.kind is Kind.REFUSED
    assert "--allow-http" in caught.value.fix
