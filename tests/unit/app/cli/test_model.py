"""`infer model …` shows what the operator's door says, in three forms."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from infer.app.cli import model
from infer.app.cli.output import Format
from infer.app.failures import CommandError, ExitCode

if TYPE_CHECKING:
    from .conftest import Door

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
def served(door: Door) -> Door:
    """A door that answers from the tables above."""
    door.index = [dict(row) for row in INDEX]
    door.documents = DOCUMENTS
    return door


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


def test_percentiles_stand_beside_the_means_where_the_server_counts_by_latency(
    door: Door, capsys: pytest.CaptureFixture[str]
) -> None:
    latency = [[100.0, 98], [5000.0, 2]]
    door.overview = {"models": [{"name": "a", "version": "1", "latency": latency}, {"name": "a", "version": "2"}]}
    model.stats()
    assert capsys.readouterr().out.splitlines()[1].split()[-3:] == ["3000", "100", "5000"]


def test_what_mostly_limits_batches_stands_last_where_there_is_a_batcher(
    door: Door, capsys: pytest.CaptureFixture[str]
) -> None:
    limits = {"full": 1, "shape differs": 3, "no others": 0}
    door.overview = {"models": [{"name": "a", "version": "1", "batch_limits": limits}]}
    model.stats()
    head, row = capsys.readouterr().out.splitlines()
    assert head.endswith("  LIMITED BY")
    assert row.endswith("  shape differs 75 %")


def test_one_models_statistics_are_asked_for_by_its_path(door: Door, capsys: pytest.CaptureFixture[str]) -> None:
    door.documents = {"/v2/models/a/versions/2/stats": DOCUMENTS["/v2/models/stats"]}
    model.stats("a", "2", output=Format.NAME)
    model.stats("a", "2", output=Format.JSON)
    assert capsys.readouterr().out.startswith("a\n{")


def test_names_and_globs_choose_what_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    model.list_models(["b", "?"], output=Format.NAME)
    model.list_models(["zz*"], output=Format.NAME)
    model.list_models(["c"], output=Format.NAME)
    assert capsys.readouterr().out == "a\nb\nc\nc\n"


def test_a_name_that_is_not_listed_is_not_found_and_the_nearest_is_named(door: Door) -> None:
    door.index.append({"name": "resnet"})
    with pytest.raises(CommandError) as caught:
        model.list_models(["resnt"])
    assert caught.value.code is ExitCode.NOT_FOUND
    assert "did you mean 'resnet'?" in caught.value.fix


def test_readiness_is_waited_for(door: Door, capsys: pytest.CaptureFixture[str]) -> None:
    plain, asked = door.request, 0

    def request(*words: Any) -> Any:
        nonlocal asked
        asked += 1
        if asked == 2:
            door.set_state("b", "READY")
        return plain(*words)

    door.request = request
    model.ready("b", wait=True, timeout=20.0)
    assert capsys.readouterr().out == "b is ready\n"
    assert asked == 2


def test_a_wait_for_readiness_ends_with_its_time_and_the_last_known_state() -> None:
    with pytest.raises(CommandError) as caught:
        model.ready("b", wait=True, timeout=0.01)
    assert caught.value.code is ExitCode.NOT_READY
    assert caught.value.why == "version 1 UNAVAILABLE: no such file"


def test_metadata_and_configuration_are_names_for_loops(capsys: pytest.CaptureFixture[str]) -> None:
    model.metadata("a", output=Format.NAME)
    model.config("a", output=Format.NAME)
    model.ready("a", output=Format.NAME)
    model.metadata("a", output=Format.JSON)
    assert capsys.readouterr().out.startswith("a\na\na\n{")


def test_the_configuration_says_how_it_is_printed_and_whom_is_asked(
    door: Door, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("INFER_OUTPUT", "name")
    monkeypatch.setenv("INFER_URL", "http://elsewhere:9")
    model.list_models()
    assert capsys.readouterr().out == "a\nb\nc\n"
    assert set(door.asked) == {"http://elsewhere:9"}
