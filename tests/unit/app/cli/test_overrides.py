"""`infer model load` turns files and texts of this machine into the parameters of a load."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING

import pytest

from infer.app.cli.overrides import load_parameters
from infer.app.failures import CommandError, ExitCode

if TYPE_CHECKING:
    from pathlib import Path

TEXT = '{"backend": "python", "max_batch_size": 2}'


def failure(config: str, *files: str) -> CommandError:
    with pytest.raises(CommandError) as caught:
        load_parameters(config, files)
    assert caught.value.code is ExitCode.USAGE
    return caught.value


def test_nothing_given_is_no_parameter() -> None:
    assert load_parameters("", []) == {}


def test_a_configuration_is_json_or_a_file_of_it(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text("\ufeff" + TEXT)
    assert load_parameters(TEXT, []) == load_parameters(str(path), []) == {"config": TEXT}
    assert load_parameters(" \n" + TEXT, []) == {"config": " \n" + TEXT}


def test_a_config_pbtxt_is_sent_as_json(tmp_path: Path) -> None:
    path = tmp_path / "config.pbtxt"
    path.write_text(
        'backend: "python"\ninstance_group [{ kind: KIND_CPU }]\nversion_policy { specific { versions: [3] } }'
    )
    document = json.loads(load_parameters(str(path), [])["config"])
    assert document["backend"] == "python"
    assert document["instance_group"][0]["kind"] == "KIND_CPU"
    assert document["version_policy"] == {"specific": {"versions": [3]}}


def test_a_config_pbtxt_that_is_none_is_refused_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "config.pbtxt"
    path.write_text('backend: "python"\nmax_batch_sise: 4\n')
    assert f"{path}:2:" in failure(str(path)).why


def test_files_are_sent_as_base64_under_their_place_in_the_model(tmp_path: Path) -> None:
    path = tmp_path / "a=b.bin"
    path.write_bytes(b"\0\xff")
    parameters = load_parameters(TEXT, [f"1/model.bin={path}", f"file:2/model.bin={path}"])
    content = base64.b64encode(b"\0\xff").decode()
    assert parameters == {"config": TEXT, "file:1/model.bin": content, "file:2/model.bin": content}


@pytest.mark.parametrize("given", ["1/model.bin", "=local", "1/model.bin=", "file:=local", ""])
def test_a_file_without_its_place_or_its_source_is_a_usage_error(given: str) -> None:
    assert "PATH=LOCAL" in failure(TEXT, given).why


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    assert str(gone) in failure(str(gone)).what
    assert failure(TEXT, f"1/a={gone}").why == "No such file or directory"
    assert failure(TEXT, f"1/a={tmp_path}").why == "Is a directory"


def test_a_configuration_that_is_no_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_bytes(b"\xff\xfe")
    assert "is not UTF-8 text" in failure(str(path)).what


def test_files_want_a_configuration(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.touch()
    assert "--config FILE" in failure("", f"1/a={path}").fix
