"""What a load is given is read, or refused in a sentence, before anything is written or loaded."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from infer.backends.api.errors import InvalidArgument
from infer.server.lifecycle.overrides import LoadOverrides, check_files, parse_config

CONFIG = {
    "backend": "python",
    "max_batch_size": 4,
    "input": [{"name": "IN", "data_type": "TYPE_FP32", "dims": [-1]}],
    "output": [{"name": "OUT", "data_type": "TYPE_FP32", "dims": [-1]}],
}


def test_no_override_is_false_and_an_empty_configuration_is_one() -> None:
    assert not LoadOverrides()
    assert LoadOverrides("")
    assert LoadOverrides(files={"1/a": b""})


@pytest.mark.parametrize(
    "changes",
    [
        {"name": "m"},
        {"input": [{"name": "IN", "data_type": "type_fp32", "dims": ["-1"]}]},
        {"instance_group": [{"kind": "kind_cpu", "count": 1}]},
        {"maxBatchSize": 4, "max_batch_size": 4},
    ],
    ids=["the same name", "lower case and numbers as text", "enumerators", "camel case"],
)
def test_a_configuration_is_read_as_protobuf_reads_json(changes: dict[str, Any]) -> None:
    config = parse_config(json.dumps(CONFIG | changes), "m")
    assert (config.name, config.backend, config.max_batch_size) == ("m", "python", 4)
    assert config.inputs[0].dims == (-1,)


@pytest.mark.parametrize(
    ("text", "phrase"),
    [
        ("", "it is not JSON: Expecting value"),
        ("{not json", "it is not JSON: Expecting property name"),
        ("[]", "it must be a JSON object"),
        ("[" * 100_000, "it is nested too deeply"),
        ('{"x": ' + "9" * 10_000 + "}", "it is not JSON"),
        ('{"backend": "\udc80"}', "it is not UTF-8 text"),
        (r'{"backend": "\ud800"}', "it is not UTF-8 text"),
        ('{"foo": 1}', 'unknown field "foo" in inference.ModelConfig; the fields are'),
        ('{"max_batch_sise": 1}', 'did you mean "max_batch_size"?'),
        ('{"max_batch_size": "many"}', "max_batch_size"),
        ('{"max_batch_size": 1e400}', "max_batch_size"),
        ('{"max_batch_size": 99999999999}', "max_batch_size"),
        ('{"input": {}}', "input must be a list"),
        ('{"input": [{"name": "IN", "data_type": "TYPE_FP33"}]}', 'input[0].data_type cannot be "TYPE_FP33"'),
        ('{"batch_input": [{"source_input": ["IN"]}]}', "batch input data type must be"),
        ('{"name": "other"}', "unexpected directory name 'm' for model 'other'"),
        ('{"parameters": {"a": 1}}', "parameters"),
    ],
)
def test_a_configuration_that_cannot_be_is_refused_and_says_why(text: str, phrase: str) -> None:
    with pytest.raises(InvalidArgument, match=r"^Invalid config override: ") as caught:
        parse_config(text, "m")
    assert phrase in str(caught.value)
    assert len(str(caught.value)) < 1000


def test_a_huge_configuration_is_read() -> None:
    parameters = {f"key{number}": {"string_value": "x" * 100} for number in range(5_000)}
    assert len(parse_config(json.dumps(CONFIG | {"parameters": parameters}), "m").parameters) == 5_000


def test_a_path_from_the_root_is_one_from_the_models_folder() -> None:
    assert check_files(LoadOverrides("{}", {"/1/model.py": b"a", "//2/model.py": b"b"})) == {
        "1/model.py": b"a",
        "2/model.py": b"b",
    }


def test_files_come_by_normal_path() -> None:
    overrides = LoadOverrides("{}", {"1/./model.py": b"a", "2/x/../model.py": b"b", "labels.txt": b"c", "1//d": b"d"})
    assert check_files(overrides) == {"1/model.py": b"a", "2/model.py": b"b", "labels.txt": b"c", "1/d": b"d"}


@pytest.mark.parametrize(
    "path", ["../x", "1/../../x", "..", "/../etc/passwd", "//../x", "a/../../m/x", "1/../../../tmp/x"]
)
def test_a_path_that_leads_out_of_the_model_is_refused(path: str) -> None:
    with pytest.raises(InvalidArgument, match=rf"'{re.escape(path)}' must stay within model directory"):
        check_files(LoadOverrides("{}", {path: b""}))


@pytest.mark.parametrize("path", ["", ".", "1/..", "1/", "1/a\0b", "./", "/", "//"])
def test_a_path_that_names_no_file_is_refused(path: str) -> None:
    with pytest.raises(InvalidArgument, match=r"names no file; write file:<version>/<path>"):
        check_files(LoadOverrides("{}", {path: b""}))


def test_a_path_of_any_length_and_content_is_shown_in_a_sentence() -> None:
    with pytest.raises(InvalidArgument) as caught:
        check_files(LoadOverrides("{}", {"../" + "\udc80\n" * 100_000: b""}))
    assert len(str(caught.value)) < 400
    assert "\\udc80" in str(caught.value)


def test_a_file_given_twice_is_refused() -> None:
    with pytest.raises(InvalidArgument, match=r"'1/./a' is given twice"):
        check_files(LoadOverrides("{}", {"1/a": b"", "1/./a": b""}))


def test_files_without_a_configuration_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="Load parameter 'config' must be specified for model file override"):
        check_files(LoadOverrides(files={"1/model.py": b""}))
