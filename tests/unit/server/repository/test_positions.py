from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from infer.backends.api.errors import InvalidArgument
from infer.server.repository import autofill, config_reader, layout, rules
from infer.server.repository.positions import position, positions
from infer.server.repository.problem import UnsoundConfig

if TYPE_CHECKING:
    from pathlib import Path

TEXT = """\
# name: "not this one"
name: "a # b" 'and { more'
input [
  { name: "x" dims: [ 1, 2 ] },
  {
    name: "y"
    reshape { shape: [ ] }
  }
]
output < name: "z" >; output { name: "w" }
dynamic_batching { preferred_batch_size: 4 preferred_batch_size: 5 }
parameters { key: "k" value: { string_value: "v" } }
max_batch_size: -1
"""


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("name", (2, 1)),
        ("input", (3, 1)),
        ("input[0]", (3, 1)),
        ("input[0].dims", (4, 15)),
        ("input[1]", (5, 3)),
        ("input[1].name", (6, 5)),
        ("input[1].reshape", (7, 5)),
        ("input[1].dims", (5, 3)),
        ("input[7].dims", (3, 1)),
        ("output[0].name", (10, 10)),
        ("output[1].name", (10, 32)),
        ("dynamic_batching.preferred_batch_size", (11, 20)),
        ("dynamic_batching.preferred_batch_size[1]", (11, 44)),
        ("parameters", (12, 1)),
        ("max_batch_size", (13, 1)),
    ],
)
def test_a_field_is_found_at_its_line_or_at_that_of_what_is_around_it(path: str, place: tuple[int, int]) -> None:
    assert position(TEXT, path) == place


def test_a_field_that_is_not_there_has_no_place() -> None:
    assert position(TEXT, "version_policy.latest") is None
    assert position(TEXT, "") is None
    assert positions("") == {}


@pytest.mark.parametrize(
    ("text", "line", "phrase"),
    [
        ('backend: "python"\nmax_batch_size: -1', 2, "'max_batch_size' must be non-negative"),
        (
            'backend: "python"\ninput [\n { name: "x" data_type: TYPE_FP32\n   dims: [ 0 ] } ]',
            4,
            "dimension must be integer",
        ),
        ('backend: "python"\ninput [\n { name: "x"\n  data_type: TYPE_FP32 } ]', 2, "must specify 'dims'"),
        ('backend: "python"\n\ninstance_group {\n kind: KIND_CPU\n gpus: 0 }', 5, "but specifies one or more GPUs"),
        ('backend: "python"\ndynamic_batching {\n\n preferred_batch_size: 3 }', 4, "must be <= max batch size"),
        ('backend: "onnxruntime"\nplatform: "tensorrt_plan"', 2, "unexpected 'platform' and 'backend' pair"),
    ],
)
def test_an_unsound_config_is_refused_with_file_and_line(tmp_path: Path, text: str, line: int, phrase: str) -> None:
    (tmp_path / "m").mkdir()
    file = tmp_path / "m" / "config.pbtxt"
    file.write_text(text)
    folder = layout.find([tmp_path], "m")
    with pytest.raises(UnsoundConfig) as caught:
        rules.check(autofill.complete(autofill.identify(config_reader.read(folder), folder, [])))
    error = config_reader.located(folder, caught.value)
    assert isinstance(error, InvalidArgument)
    assert str(error).startswith(f"{file}:{line}:")
    assert phrase in str(error)


def test_a_problem_of_a_model_without_a_file_keeps_its_sentence(tmp_path: Path) -> None:
    (tmp_path / "m").mkdir()
    with pytest.raises(UnsoundConfig) as caught:
        rules.check(config_reader.from_document({"name": "m", "backend": "p", "max_batch_size": -1}, source="m"))
    assert config_reader.located(layout.find([tmp_path], "m"), caught.value) is caught.value
