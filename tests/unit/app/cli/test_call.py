"""`infer call`: what is asked for, and how the answer is shown."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from infer.app.cli import call
from infer.app.cli.output import Format
from infer.app.failures import CommandError, ExitCode, exit_code
from infer.tui import stream
from infer.tui.client import Client, Reply
from infer.tui.failure import ClientError, Failure
from infer.tui.inference import Answer, OutputTensor

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

METADATA = {
    "inputs": [{"name": "X", "datatype": "FP32", "shape": [-1]}],
    "outputs": [{"name": "Y", "datatype": "FP32", "shape": [-1]}],
}
ANSWER = {"model_name": "m", "outputs": [{"name": "Y", "datatype": "FP32", "shape": [2], "data": [0.5, 2.0]}]}


@pytest.fixture(autouse=True)
def sent(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str, Any]]:
    """A server that answers every request; address, path and document of each."""
    found: list[tuple[str, str, Any]] = []

    def request(self: Client, _method: str, path: str, body: bytes = b"", _headers: Any = None) -> Reply:
        found.append((self.url, path, json.loads(body)))
        return Reply(200, {}, json.dumps(ANSWER).encode())

    monkeypatch.setattr(Client, "request", request)
    monkeypatch.setattr(Client, "get", lambda _self, _path: METADATA)
    return found


def refusal(**options: Any) -> Failure:
    with pytest.raises(Failure) as caught:
        call.call("m", ["X=[1,2]"], **options)
    return caught.value


def test_an_answer_is_text_json_or_names(capsys: pytest.CaptureFixture[str]) -> None:
    call.call("m", ["X=[1,2]"])
    assert capsys.readouterr().out == "Y  FP32 [2]\n  [0.5, 2.0]\n"
    call.call("m", ["X=[1,2]"], output=Format.JSON)
    assert json.loads(capsys.readouterr().out) == ANSWER
    call.call("m", ["X=[1,2]"], output=Format.NAME)
    assert capsys.readouterr().out == "Y\n"


def test_everything_that_is_said_is_sent(sent: list[tuple[str, str, Any]]) -> None:
    call.call(
        "m", ["X=[1,2]"], "3", "7", outputs=["Y"], parameters=["priority=2", "on=true", "name=x y"],
        shapes=["X=2,1"], datatypes=["X=INT32"], url="http://h:1",
    )  # fmt: skip
    ((url, path, document),) = sent
    assert (url, path) == ("http://h:1", "/v2/models/m/versions/3/infer")
    assert document["inputs"] == [{"name": "X", "shape": [2, 1], "datatype": "INT32", "data": [1, 2]}]
    assert (document["id"], document["outputs"]) == ("7", [{"name": "Y"}])
    assert document["parameters"] == {"priority": 2, "on": True, "name": "x y", "binary_data_output": True}


def test_the_curl_command_is_beside_the_data(capsys: pytest.CaptureFixture[str]) -> None:
    call.call("m", ["X=[1,2]"], curl=True, url="http://h:1")
    captured = capsys.readouterr()
    assert captured.err.startswith("curl -s http://h:1/v2/models/m/infer -d ")
    assert "curl" not in captured.out


def test_repetitions_are_timed_and_the_last_answer_is_shown(
    sent: list[tuple[str, str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    call.call("m", ["X=[1,2]"], repeat=5)
    captured = capsys.readouterr()
    assert len(sent) == 5
    assert captured.out.count("Y  FP32") == 1
    assert captured.err.startswith("5 calls: mean ")


def test_the_summary_is_in_milliseconds() -> None:
    times = [0.001] * 98 + [0.002, 0.010]
    assert call.summary(times) == (
        "100 calls: mean 1.10 ms, p50 1.00, p99 10.00, min 1.00, max 10.00; 909/s"
    )  # fmt: skip


def test_an_answer_is_saved_for_numpy(home: Path) -> None:
    call.call("m", ["X=[1,2]"], save="answer")
    with np.load(home / "work" / "answer") as saved:
        assert saved["Y"].tolist() == [0.5, 2.0]


def test_a_file_that_cannot_be_written_is_named() -> None:
    assert "nowhere/answer.npz cannot be written" in refusal(save="nowhere/answer.npz").what


@pytest.mark.parametrize(
    "options",
    [
        {"parameters": ["x"]},
        {"parameters": ["=x"]},
        {"shapes": ["X"]},
        {"shapes": ["X=a,b"]},
        {"shapes": ["X=-1"]},
        {"datatypes": ["X"]},
        {"stream": True, "repeat": 2},
    ],
)
def test_options_that_cannot_be_are_usage_errors(options: dict[str, Any], sent: list[tuple[str, str, Any]]) -> None:
    failure = refusal(**options)
    assert isinstance(failure, CommandError)
    assert exit_code(failure) is ExitCode.USAGE
    assert sent == []


class TestStreams:
    """Responses as they come, from a stand-in for the stream."""

    @pytest.fixture(autouse=True)
    def responses(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Answer | Exception]]:
        self.asked: list[tuple[str, float]] = []
        self.coming: list[Answer | Exception] = [
            Answer({"id": str(number)}, (OutputTensor("Y", "FP32", (1,), [float(number)]),)) for number in range(2)
        ]

        def answers(_request: Any, address: str, timeout: float) -> Iterator[Answer]:
            self.asked.append((address, timeout))
            for one in self.coming:
                if isinstance(one, Exception):
                    raise one
                yield one

        monkeypatch.setattr(stream, "stream", answers)
        return iter([])

    def test_json_is_an_object_a_line(self, capsys: pytest.CaptureFixture[str]) -> None:
        call.call("m", ["X=1"], stream=True, output=Format.JSON, grpc_url="h:1", timeout=5.0)
        lines = capsys.readouterr().out.splitlines()
        assert [json.loads(line)["outputs"][0]["data"] for line in lines] == [[0.0], [1.0]]
        assert self.asked == [("h:1", 5.0)]

    def test_people_see_when_each_came(self, capsys: pytest.CaptureFixture[str]) -> None:
        call.call("m", ["X=1"], stream=True, curl=True)
        captured = capsys.readouterr()
        assert captured.out.splitlines() == ["Y  FP32 [1]", "  [0.0]", "Y  FP32 [1]", "  [1.0]"]
        assert captured.err.splitlines()[0].startswith("response 1 after ")
        assert "curl does not speak" in captured.err
        assert self.asked == [("127.0.0.1:8001", 60.0)]

    def test_what_came_before_a_failure_is_shown(self, capsys: pytest.CaptureFixture[str]) -> None:
        self.coming.append(ClientError("the server refused the request", "enough"))
        assert refusal(stream=True, output=Format.JSON).why == "enough"
        assert len(capsys.readouterr().out.splitlines()) == 2

    def test_no_response_is_a_note(self, capsys: pytest.CaptureFixture[str]) -> None:
        self.coming.clear()
        call.call("m", ["X=1"], stream=True)
        assert capsys.readouterr().err == "note: the model sent no response\n"

    def test_responses_are_saved_by_number(self, home: Path) -> None:
        call.call("m", ["X=1"], stream=True, save="all.npz")
        with np.load(home / "work" / "all.npz") as saved:
            assert sorted(saved) == ["Y.0", "Y.1"]
