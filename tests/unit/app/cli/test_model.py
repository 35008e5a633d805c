"""`infer model …` shows what the operator's door says, in three forms."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from infer.app.cli import model
from infer.app.cli.output import Format
from infer.app.failures import CommandError, ExitCode
from infer.tui.client import Client, Reply

if TYPE_CHECKING:
    from pathlib import Path

INDEX: list[dict[str, Any]] = [
    {"name": "a", "version": "1", "state": "READY"},
    {"name": "a", "version": "2", "state": "READY"},
    {"name": "b", "version": "1", "state": "UNAVAILABLE", "reason": "no such file"},
    {"name": "c"},
]
PHASE = {"count": 2, "ns": 6_000_000}
DOCUMENTS: dict[str, Any] = {
    "/v2/models/a": {
        "name": "a",
        "versions": ["1", "2"],
        "platform": "python",
        "inputs": [{"name": "X", "datatype": "INT32", "shape": [-1, 4]}],
        "outputs": [{"name": "Y", "datatype": "BYTES", "shape": [1]}],
    },
    "/v2/models/a/config": {"name": "a", "backend": "python", "input": [], "max_batch_size": 0},
    "/v2/models/stats": {
        "model_stats": [
            {
                "name": "a",
                "version": "1",
                "inference_count": 4,
                "execution_count": 2,
                "inference_stats": {
                    "success": PHASE,
                    "fail": {"count": 0, "ns": 0},
                    "queue": {"count": 0, "ns": 0},
                    "compute_infer": PHASE,
                },
            }
        ]
    },
}


@pytest.fixture(autouse=True)
def changes(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Any]]:
    """A door that answers from the tables above; what it was asked to change."""
    asked: list[tuple[str, Any]] = []

    def post(_self: Client, path: str, document: Any = None) -> Any:
        if path != "/v2/repository/index":
            asked.append((path, document))
            return {}
        return [row for row in INDEX if row.get("state") == "READY"] if document.get("ready") else INDEX

    def request(_self: Client, _method: str, path: str, *_rest: Any) -> Reply:
        ready = path == "/v2/models/a/ready"
        return Reply(200 if ready else 400, {}, b"" if ready else b'{"error":"not ready"}')

    monkeypatch.setattr(Client, "post", post)
    monkeypatch.setattr(Client, "get", lambda _self, path: DOCUMENTS[path])
    monkeypatch.setattr(Client, "request", request)
    return asked


def test_the_list_is_a_table_with_reasons(capsys: pytest.CaptureFixture[str]) -> None:
    model.list_models()
    assert capsys.readouterr().out.splitlines() == [
        "MODEL  VERSION  STATE        REASON",
        "a      1        READY",
        "a      2        READY",
        "b      1        UNAVAILABLE  no such file",
        "c",
    ]


def test_the_list_is_json_or_names_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    model.list_models(output=Format.JSON)
    assert json.loads(capsys.readouterr().out) == INDEX
    model.list_models(ready=True, output=Format.NAME)
    assert capsys.readouterr().out == "a\n"


def test_a_ready_model_is_a_sentence_and_exit_code_zero(capsys: pytest.CaptureFixture[str]) -> None:
    model.ready("a")
    assert capsys.readouterr().out == "a is ready\n"


def test_a_model_that_is_not_ready_says_why() -> None:
    with pytest.raises(CommandError) as caught:
        model.ready("b")
    assert caught.value.code is ExitCode.NOT_READY
    assert caught.value.why == "version 1 UNAVAILABLE: no such file"


@pytest.mark.parametrize(("name", "version"), [("nobody", ""), ("b", "9")])
def test_an_unknown_model_or_version_is_not_found(name: str, version: str) -> None:
    with pytest.raises(CommandError) as caught:
        model.ready(name, version)
    assert caught.value.code is ExitCode.NOT_FOUND


def test_readiness_as_json_is_printed_also_where_the_answer_is_no(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(CommandError):
        model.ready("b", output=Format.JSON)
    assert json.loads(capsys.readouterr().out) == {"name": "b", "ready": False, "versions": [INDEX[2]]}


def test_metadata_is_a_table_of_tensors(capsys: pytest.CaptureFixture[str]) -> None:
    model.metadata("a")
    assert capsys.readouterr().out.splitlines() == [
        "a  platform python  versions 1, 2",
        "",
        "TENSOR  DIRECTION  DATATYPE  SHAPE",
        "X       input      INT32     [-1, 4]",
        "Y       output     BYTES     [1]",
    ]


def test_a_configuration_is_json_and_as_a_table_leaves_out_what_is_empty(capsys: pytest.CaptureFixture[str]) -> None:
    model.config("a")
    assert json.loads(capsys.readouterr().out) == DOCUMENTS["/v2/models/a/config"]
    model.config("a", output=Format.TABLE)
    assert "input" not in capsys.readouterr().out


def test_statistics_are_counts_and_means(capsys: pytest.CaptureFixture[str]) -> None:
    model.stats()
    head, row = capsys.readouterr().out.splitlines()
    assert head.split("  ")[0] == "MODEL"
    assert row.split() == ["a", "1", "2", "0", "4", "2", "3000", "3000"]


def test_a_load_and_an_unload_say_what_came_of_them(
    capsys: pytest.CaptureFixture[str], changes: list[tuple[str, Any]]
) -> None:
    model.load("a")
    model.unload("b")
    model.unload("nobody")
    assert capsys.readouterr().out.splitlines() == [
        "a  version 1 READY; version 2 READY",
        "b  version 1 UNAVAILABLE: no such file",
        "nobody  not loaded",
    ]
    assert changes == [
        ("/v2/repository/models/a/load", {}),
        ("/v2/repository/models/b/unload", {}),
        ("/v2/repository/models/nobody/unload", {}),
    ]


def test_a_load_sends_its_configuration_and_files(tmp_path: Path, changes: list[tuple[str, Any]]) -> None:
    (tmp_path / "model.py").write_text("pass")
    model.load("a/b", config='{"backend": "python"}', files=[f"1/model.py={tmp_path / 'model.py'}"])
    parameters = {"config": '{"backend": "python"}', "file:1/model.py": "cGFzcw=="}
    assert changes == [("/v2/repository/models/a%2Fb/load", {"parameters": parameters})]


def test_what_came_of_a_change_is_json_or_a_name_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    model.load("a", output=Format.JSON)
    assert json.loads(capsys.readouterr().out) == INDEX[:2]
    model.unload("a", output=Format.NAME)
    assert capsys.readouterr().out == "a\n"
