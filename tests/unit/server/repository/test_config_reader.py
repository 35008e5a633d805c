from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infer.backends.api.datatypes import Datatype
from infer.backends.api.errors import InvalidArgument
from infer.server.repository import schema
from infer.server.repository.config_reader import config_path, empty, from_document, read
from infer.server.repository.layout import ModelFolder
from infer.server.repository.pbtxt import parse

if TYPE_CHECKING:
    from pathlib import Path


def folder(tmp_path: Path, text: str | bytes | None = None, name: str = "m") -> ModelFolder:
    path = tmp_path / name
    path.mkdir(exist_ok=True)
    if text is not None:
        (path / "config.pbtxt").write_bytes(text.encode() if isinstance(text, str) else text)
    return ModelFolder(name, path, (1,), tmp_path)


BAD = [
    # text, line, column, what the sentence must say
    ('nmae: "x"', 1, 1, ['unknown field "nmae" in inference.ModelConfig', 'did you mean "name"?']),
    (
        'name: "m"\ninput [ {\n  name: "x"\n  dta_type: TYPE_INT32 } ]',
        4,
        3,
        ['"dta_type" in inference.ModelInput', '"data_type"'],
    ),
    ("instance_group [ { kinds: KIND_CPU } ]", 1, 20, ['"kinds" in inference.ModelInstanceGroup', '"kind"']),
    ("quite_another: 1", 1, 1, ['unknown field "quite_another"', "the fields are: backend, batch_input"]),
    ("this is not a config {", 1, 1, ['unknown field "this"']),
    ("name: 3", 1, 7, ["name: Expected string but found: '3'"]),
    ("max_batch_size: eight", 1, 17, ["max_batch_size: Couldn't parse integer: eight"]),
    ("max_batch_size: 1.5", 1, 17, ["max_batch_size: Couldn't parse integer: 1.5"]),
    ("max_batch_size: 99999999999", 1, 17, ["max_batch_size: Value out of range: 99999999999"]),
    ('max_batch_size: "8"', 1, 17, ["max_batch_size: Couldn't parse integer"]),
    ("input [ { dims: [ 99999999999999999999 ] } ]", 1, 19, ["dims: Value out of range"]),
    ("input [ { dims: [ 1, ] } ]", 1, 22, ["dims: Couldn't parse integer: ]"]),
    ("input [\n { data_type: TYPE_INT } ]", 2, 15, ['data_type cannot be "TYPE_INT"', 'did you mean "TYPE_INT32"?']),
    ("input [ { data_type: INT32 } ]", 1, 22, ['data_type cannot be "INT32"', 'did you mean "TYPE_INT32"?']),
    ("input [ { data_type: TYPE_BYTES } ]", 1, 22, ['data_type cannot be "TYPE_BYTES"', 'did you mean "TYPE_STRING"?']),
    ("input [ { format: FORMAT_NHCW } ]", 1, 19, ['format cannot be "FORMAT_NHCW"', '"FORMAT_N']),
    ("instance_group { kind: GPU }", 1, 24, ['kind cannot be "GPU"', '"KIND_GPU"']),
    ("instance_group { kind: kind_cpu }", 1, 24, ['kind cannot be "kind_cpu"', 'did you mean "KIND_CPU"?']),
    ("dynamic_batching { preserve_ordering: yes }", 1, 39, ['preserve_ordering: Expected "true" or "false"']),
    (
        "dynamic_batching { }\nsequence_batching { }",
        2,
        1,
        ["sequence_batching", "dynamic_batching", "scheduling_choice"],
    ),
    ("version_policy { latest { } all { } }", 1, 29, ["all", "latest"]),
    ('name: "m"\nname: "n"', 2, 7, ["name is given twice; keep one of them"]),
    ('parameters { key: "a" value: 3 }', 1, 30, ["value", 'Expected "{"']),
    (
        'parameters { key: "a" value: { int_value: 3 } }',
        1,
        32,
        ['"int_value" in inference.ModelParameter', '"string_value"'],
    ),
    ("input {", 1, 7, ['Expected "}"']),
    ("input [ {", 1, 9, ['Expected "}"']),
    ('name: "m', 1, 7, ["String missing ending quote"]),
    ("input: [ 1 ]", 1, 10, ['input: Expected "{"']),
    ("[foo.bar]: 3", 1, 6, ["extensions"]),
    ("# a comment\n\nmax_batch_size: # eight\n  eight", 4, 3, ["max_batch_size: Couldn't parse integer: eight"]),
    ("name", 1, 5, ['Expected ":"']),
    ("}", 1, 1, []),
    ("name: ", 1, 7, ["name: Expected string but found"]),
    ('{"name": "m"}', 1, 1, []),
]


@pytest.mark.parametrize(("text", "line", "column", "phrases"), BAD, ids=[row[0][:40] for row in BAD])
def test_a_bad_file_is_refused_with_file_line_column_field_and_remedy(
    tmp_path: Path, text: str, line: int, column: int, phrases: list[str]
) -> None:
    with pytest.raises(InvalidArgument) as caught:
        read(folder(tmp_path, text))
    sentence = str(caught.value)
    assert sentence.startswith(f"{tmp_path / 'm' / 'config.pbtxt'}:{line}:{column}: ")
    for phrase in phrases:
        assert phrase in sentence
    assert "\n" not in sentence


def test_a_file_that_is_not_utf8_is_refused_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match=r"config\.pbtxt:2: byte 0xff is not UTF-8; save the file as UTF-8 text"):
        read(folder(tmp_path, b'name: "m"\n# \xff'))


def test_a_byte_order_mark_does_no_harm(tmp_path: Path) -> None:
    config = read(folder(tmp_path, b'\xef\xbb\xbfname: "m"'))
    assert config is not None
    assert config.name == "m"


def test_a_config_that_cannot_be_opened_is_refused_with_the_systems_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = folder(tmp_path, 'name: "m"')

    def refuse(_self: object) -> bytes:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(type(found.path), "read_bytes", refuse)
    with pytest.raises(InvalidArgument, match=r"config\.pbtxt: failed to open text file for read: Permission denied"):
        read(found)


def test_without_a_file_there_is_no_config(tmp_path: Path) -> None:
    assert read(folder(tmp_path)) is None


def test_an_empty_file_is_an_empty_config_with_the_folders_name(tmp_path: Path) -> None:
    config = read(folder(tmp_path, ""))
    assert config is not None
    assert config.document["name"] == "m"
    assert config == empty("m")


def test_a_name_that_differs_from_the_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="unexpected directory name 'm' for model 'n', directory name must equal"):
        read(folder(tmp_path, 'name: "n"'))


@pytest.mark.parametrize("kind", ["input", "output"])
def test_a_tensor_without_a_datatype_is_read_for_the_model_to_complete(tmp_path: Path, kind: str) -> None:
    config = read(folder(tmp_path, f'{kind} [ {{ name: "x" }} ]'))
    assert config is not None
    assert [(entry["name"], entry["data_type"]) for entry in config.document[kind]] == [("x", "TYPE_INVALID")]


def test_a_batch_input_without_a_datatype_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument) as caught:
        read(folder(tmp_path, 'batch_input [ { source_input: "x" } ]'))
    assert "batch input data type must be TYPE_INT32 or TYPE_FP32 for m; set batch_input[0].data_type" in str(
        caught.value
    )


def test_the_document_has_triton_s_json_form(tmp_path: Path) -> None:
    text = """
      backend: "python" max_batch_size: 8
      input [ { name: "x" data_type: TYPE_STRING dims: [ -1, 2 ] reshape { shape: [ 9223372036854775807 ] } } ]
      output [ { name: "y" data_type: TYPE_BF16 dims: [ 1 ] label_filename: "l.txt" } ]
      dynamic_batching { max_queue_delay_microseconds: 18446744073709551615
        priority_queue_policy { key: 1 value { default_timeout_microseconds: 5 } } }
      version_policy { specific { versions: [ 1, 3 ] } }
      parameters { key: "a" value { string_value: "b" } }
    """
    config = read(folder(tmp_path, text))
    assert config is not None
    document = json.loads(json.dumps(config.document))
    assert document["input"] == [
        {
            "name": "x",
            "data_type": "TYPE_STRING",
            "format": "FORMAT_NONE",
            "dims": [-1, 2],
            "reshape": {"shape": [9223372036854775807]},
            "is_shape_tensor": False,
            "allow_ragged_batch": False,
            "optional": False,
            "is_non_linear_format_io": False,
        }
    ]
    batching = document["dynamic_batching"]
    assert batching["max_queue_delay_microseconds"] == 18446744073709551615
    assert batching["priority_queue_policy"]["1"]["default_timeout_microseconds"] == 5
    assert "default_queue_policy" not in batching
    assert document["version_policy"] == {"specific": {"versions": [1, 3]}}
    assert "optimization" not in document
    assert list(document)[:5] == ["name", "platform", "backend", "runtime", "version_policy"]
    assert config.inputs[0].datatype is Datatype.BYTES
    assert config.outputs[0].datatype is Datatype.BF16
    assert config.inputs[0].reshape == (9223372036854775807,)
    assert config.version_policy.specific == (1, 3)
    assert config.parameters == {"a": "b"}
    assert config.scheduling == "dynamic_batching"


def test_a_custom_config_is_used_where_it_exists(tmp_path: Path) -> None:
    found = folder(tmp_path, "max_batch_size: 1")
    (found.path / "configs").mkdir()
    (found.path / "configs" / "h100.pbtxt").write_text("max_batch_size: 64")
    (found.path / "configs" / "config.pbtxt").write_text("max_batch_size: 32")
    sizes = {
        name: config.max_batch_size
        for name in ("", "h100", "a100", "config")
        if (config := read(found, config_name=name))
    }
    assert sizes == {"": 1, "h100": 64, "a100": 1, "config": 32}
    assert config_path(found.path / "nowhere") is None


BAD_DOCUMENTS = [
    ({"foo": 1}, ['unknown field "foo" in inference.ModelConfig', "the fields are: "]),
    ({"max_batch_sise": 1}, ['did you mean "max_batch_size"?']),
    ({"input": [{"name": "x"}, {"nam": "y"}]}, ['unknown field "input[1].nam" in inference.ModelInput']),
    ({"input": [{"data_type": "TYPE_FLOAT"}]}, ['input[0].data_type cannot be "TYPE_FLOAT"', '"TYPE_']),
    ({"input": {"name": "x"}}, ["input must be a list"]),
    ({"input": ["x"]}, ["input[0] must be an object with fields, not 'x'"]),
    ({"parameters": ["x"]}, ["parameters must be an object of key and value"]),
    ({"parameters": {"a": {"str": "b"}}}, ["unknown field \"parameters['a'].str\""]),
    ({"max_batch_size": "many"}, ["max_batch_size"]),
    ({"max_batch_size": 2**40}, ["max_batch_size"]),
    ({"name": 3}, ["name"]),
    ({"dynamic_batching": {}, "sequence_batching": {}}, ["scheduling_choice"]),
    ([], ["the configuration must be an object with fields"]),
]


@pytest.mark.parametrize(("document", "phrases"), BAD_DOCUMENTS, ids=[str(row[0])[:40] for row in BAD_DOCUMENTS])
def test_a_bad_document_is_refused_with_source_path_and_remedy(document: dict[str, object], phrases: list[str]) -> None:
    with pytest.raises(InvalidArgument) as caught:
        from_document(document, source="override of m")
    assert str(caught.value).startswith("override of m: ")
    for phrase in phrases:
        assert phrase in str(caught.value)


def test_a_document_may_leave_fields_out_and_write_enumerators_and_names_in_any_case() -> None:
    config = from_document(
        {
            "name": "m",
            "maxBatchSize": 4,
            "input": [{"name": "x", "dataType": "type_fp32", "dims": ["3"]}],
            "runtime": None,
        },
        source="m",
    )
    assert config.max_batch_size == 4
    assert config.inputs[0].datatype is Datatype.FP32
    assert config.inputs[0].dims == (3,)


def test_a_document_of_another_model_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="unexpected directory name 'm' for model 'n'"):
        from_document({"name": "n"}, source="override", name="m")
    assert from_document({}, source="override", name="m").name == "m"


_numbers = st.integers(-(2**31), 2**31 - 1)
_documents = st.fixed_dictionaries(
    {"name": st.text(max_size=5)},
    optional={
        "max_batch_size": _numbers,
        "metric_tags": st.dictionaries(st.text(max_size=3), st.text(max_size=3), max_size=2),
        "input": st.lists(
            st.fixed_dictionaries(
                {"name": st.text(max_size=3), "dims": st.lists(st.integers(-(2**63), 2**63 - 1), max_size=3)},
                optional={"data_type": st.sampled_from(["TYPE_FP32", "TYPE_STRING"]), "optional": st.booleans()},
            ),
            max_size=2,
        ),
        "dynamic_batching": st.fixed_dictionaries(
            {}, optional={"max_queue_delay_microseconds": st.integers(0, 2**64 - 1)}
        ),
    },
)


@given(_documents)
def test_a_normalised_document_is_a_fixed_point_and_keeps_what_was_given(document: dict[str, object]) -> None:
    once = schema.normalised(document, source="x")
    assert schema.normalised(once, source="x") == once
    assert once["name"] == document["name"]
    assert once["max_batch_size"] == document.get("max_batch_size", 0)
    assert json.loads(json.dumps(once)) == once


@given(st.text(alphabet='name:"{}[]<>,;#\n 0123456789.-_abTYPE\\', max_size=60))
def test_any_text_is_either_read_or_refused_with_its_place(text: str) -> None:
    try:
        parse(text, source="config.pbtxt")
    except InvalidArgument as error:
        place = str(error).split(":")
        assert place[0] == "config.pbtxt"
        assert place[1].isdigit()
        assert place[2].isdigit()


def test_reading_a_config_imports_neither_grpc_nor_the_client_package(tmp_path: Path) -> None:
    folder(tmp_path, 'name: "m"')
    program = (
        "import sys, pathlib; from infer.server.repository import layout, config_reader; "
        f"config_reader.read(layout.find([pathlib.Path({str(tmp_path)!r})], 'm')); "
        "print(sorted(m for m in sys.modules if m.split('.')[0] in ('grpc', 'tritonclient', 'onnxruntime')))"
    )
    output = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert output.stdout.strip() == "[]"
