"""What the compatibility script decides before and after anything runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from compat_plan import EXAMPLES, Example, Placed, absent, chosen, layout, unplanned, without_network
from compat_report import FAILED, PASSED, SKIPPED, Result, failures, judged, table

if TYPE_CHECKING:
    from collections.abc import Sequence

HERE = Path(__file__).resolve().parent


def copy_of(folder: Path, files: Sequence[str]) -> Path:
    """A folder with these files in it, each empty but for its name."""
    for file in files:
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_text(file)
    return folder


def test_all_examples_fit_into_one_repository_of_models() -> None:
    found = layout(EXAMPLES)
    assert found["bls_sync/1/model.py"] == "bls/sync_model.py"
    assert found["bls_sync/config.pbtxt"] == "bls/sync_config.pbtxt"
    assert found["square_int32/1/model.py"] == "decoupled/square_model.py"
    assert found["nobatch_auto_complete/1/model.py"] == "auto_complete/nobatch_model.py"
    assert "nobatch_auto_complete/config.pbtxt" not in found


def test_an_example_brings_the_models_that_its_own_one_calls() -> None:
    (example,) = chosen(["bls_decoupled_async"])
    assert example.loads == {"bls_decoupled_async", "square_int32"}


def test_two_models_under_one_name_are_refused() -> None:
    one, other = (Example(name, name, (Placed("m", f"{name}/model.py"),)) for name in "ab")
    assert layout([one, one]) == {"m/1/model.py": "a/model.py"}
    with pytest.raises(ValueError, match=r"m/1/model.py would be both a/model.py and b/model.py"):
        layout([one, other])


def test_examples_are_chosen_by_name_or_by_folder_and_all_without_a_choice() -> None:
    assert [example.name for example in chosen(["jax", "decoupled"])] == ["decoupled_repeat", "decoupled_square", "jax"]
    assert chosen([]) == [*EXAMPLES]


def test_an_example_that_there_is_not_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(ValueError, match=r"there is no example bsl; there are add_sub, .*bls.*pytorch"):
        chosen(["bsl"])


def test_every_example_has_a_client_or_a_reason() -> None:
    for example in EXAMPLES:
        assert bool(example.client) + bool(example.own_client) + bool(example.skip) == 1, example.name
        assert not example.own_client or (HERE / example.own_client).is_file()


def test_files_that_a_copy_does_not_have_are_named(tmp_path: Path) -> None:
    (example,) = chosen(["add_sub"])
    copy_of(tmp_path, ["add_sub/model.py", "add_sub/client.py"])
    assert absent(example, tmp_path) == ["add_sub/config.pbtxt"]
    copy_of(tmp_path, ["add_sub/config.pbtxt"])
    assert absent(example, tmp_path) == []


def test_examples_that_the_plan_does_not_know_are_named(tmp_path: Path) -> None:
    copy_of(tmp_path, ["add_sub/model.py", "zebra/model.py", "apple/model.py", "README.md"])
    assert unplanned(tmp_path) == ["apple", "zebra"]


def test_standard_ports_are_replaced_and_nothing_else() -> None:
    source = 'connect("localhost:8000"); get("http://localhost:8002/metrics"); x = 8001'
    changed = without_network(source, {8000: 41, 8001: 42, 8002: 43})
    assert changed == 'connect("127.0.0.1:41"); get("http://127.0.0.1:43/metrics"); x = 8001'


def test_a_client_runs_as_the_main_program_with_its_arguments(tmp_path: Path) -> None:
    client = tmp_path / "client.py"
    client.write_text('import sys\nif __name__ == "__main__":\n    print("PASS", "localhost:8001", sys.argv[1:])\n')
    command = [sys.executable, str(HERE / "peer_client.py"), str(client), "1", "2", "3", "--x", "y"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
    assert done.stdout.strip() == "PASS 127.0.0.1:2 ['--x', 'y']"


@pytest.mark.parametrize(
    ("status", "output", "outcome", "reason"),
    [
        (0, "some lines\nPASS: add_sub\n\n", PASSED, "PASS: add_sub"),
        (0, "PASS: repeat\nstream stopped...\n", PASSED, "PASS: repeat"),
        (0, "done", FAILED, "exit status 0: done"),
        (1, "Traceback\nKeyError: 'x'\n", FAILED, "exit status 1: KeyError: 'x'"),
        (1, "PASS: but it ended badly", FAILED, "exit status 1: PASS: but it ended badly"),
        (-9, "", FAILED, "exit status -9: it printed nothing"),
    ],
)
def test_a_client_passes_where_it_says_so_and_ends_well(status: int, output: str, outcome: str, reason: str) -> None:
    assert judged("e", status, output) == Result("e", outcome, reason)


def test_the_table_shows_each_example_on_one_line_and_counts() -> None:
    results = [Result("long_name", FAILED, "one\n\ntwo"), Result("b", PASSED), Result("c", SKIPPED, "no jax")]
    assert table(results).splitlines() == [
        "example    result",
        "long_name  FAIL     one two",
        "b          PASS",
        "c          skipped  no jax",
        "# 1 PASS, 1 FAIL, 1 skipped",
    ]
    assert failures(results) == 1


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["{folder}"], "is no folder; the argument is the root of a copy of python_backend"),
        (["{folder}/copy", "--only", "bsl"], "there is no example bsl"),
    ],
)
def test_a_wrong_call_is_refused_before_anything_starts(tmp_path: Path, words: list[str], sentence: str) -> None:
    (tmp_path / "copy" / "examples").mkdir(parents=True)
    command = [
        sys.executable,
        str(HERE / "python_backend_examples.py"),
        *(word.format(folder=tmp_path) for word in words),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 2
    assert sentence in done.stderr


def test_what_a_copy_does_not_have_is_skipped_with_its_reason(tmp_path: Path) -> None:
    (tmp_path / "examples").mkdir()
    command = [sys.executable, str(HERE / "python_backend_examples.py"), str(tmp_path), "--only", "add_sub"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
    assert "add_sub  skipped  the copy has no add_sub/model.py, add_sub/config.pbtxt, add_sub/client.py" in done.stdout
