"""Control inputs that no model could make sense of are refused with what is wrong and where."""

from __future__ import annotations

import pytest

from infer.server.repository.config_reader import from_document
from infer.server.repository.pbtxt import parse
from infer.server.repository.rules import problems
from infer.server.repository.schema import to_document

HEAD = 'name: "m" backend: "python" max_batch_size: 8 input { name: "x" data_type: TYPE_FP32 dims: 4 } '
START = "kind: CONTROL_SEQUENCE_START"
READY = "kind: CONTROL_SEQUENCE_READY"
CORRID = "kind: CONTROL_SEQUENCE_CORRID"
INTS = "int32_false_true: [ 0, 1 ]"


def found(*entries: str) -> list[tuple[str, str]]:
    text = "".join(f"control_input {{ {entry} }} " for entry in entries)
    document = to_document(parse(f"{HEAD} sequence_batching {{ {text} }}", source="m"))
    return [(problem.path, problem.sentence) for problem in problems(from_document(document, source="m"))]


def control(*bodies: str, name: str = "C") -> str:
    return f'name: "{name}" ' + " ".join(f"control {{ {body} }}" for body in bodies)


@pytest.mark.parametrize(
    ("entries", "path", "sentence"),
    [
        ([control(f"{START} {INTS}", name="")], "", "sequence batching control tensor must have a name for m"),
        (
            [control(f"{START} {INTS}"), control(f"{READY} {INTS}")],
            "",
            "sequence batching control tensor 'C' is specified for multiple control kinds for m",
        ),
        (
            [control(f"{START} {INTS}", f"{READY} {INTS}")],
            "",
            "sequence batching control tensor 'C' is specified for multiple control kinds for m",
        ),
        (
            [control(f"{START} {INTS}"), control(f"{START} {INTS}", name="D")],
            ".control[0]",
            "sequence batching specifies multiple CONTROL_SEQUENCE_START tensors for m",
        ),
        ([control(f"{START} {INTS}", name="x")], "", "control tensor 'x' is also an input of m; the server supplies"),
        ([control()], "", "control tensor 'C' has no 'control' for m; give its kind, such as CONTROL_SEQUENCE_START"),
        (
            [control(START)],
            ".control[0]",
            "must specify either 'int32_false_true', 'fp32_false_true' or 'bool_false_true' for CONTROL_SEQUENCE_START",
        ),
        (
            [control(f"{READY} {INTS} fp32_false_true: [ 0, 1 ]")],
            ".control[0]",
            "specifies more than one from 'int32_false_true', 'fp32_false_true' or 'bool_false_true' for ",
        ),
        (
            [control(f"{START} bool_false_true: [ true ]")],
            ".control[0].bool_false_true",
            "'bool_false_true' must have exactly 2 entries for CONTROL_SEQUENCE_START for m, not 1",
        ),
        (
            [control(f"{START} int32_false_true: [ 0, 1, 2 ]")],
            ".control[0].int32_false_true",
            "must have exactly 2 entries for CONTROL_SEQUENCE_START for m, not 3",
        ),
        (
            [control(f"{CORRID} data_type: TYPE_UINT64 {INTS}")],
            ".control[0]",
            "sequence batching must not specify either 'int32_false_true', 'fp32_false_true' nor 'bool_false_true'",
        ),
        ([control(CORRID)], ".control[0].data_type", "unexpected data type for control CONTROL_SEQUENCE_CORRID for m"),
        (
            [control(f"{CORRID} data_type: TYPE_FP32")],
            ".control[0].data_type",
            "for m: TYPE_FP32; use one of TYPE_UINT64, TYPE_INT64, TYPE_UINT32, TYPE_INT32, TYPE_STRING",
        ),
    ],
)
def test_a_control_that_makes_no_sense_is_refused_with_its_place(entries: list[str], path: str, sentence: str) -> None:
    (problem, *_) = found(*entries)
    where = f"sequence_batching.control_input[{len(entries) - 1}]{path}"
    assert problem[0] == where
    assert sentence in problem[1]


@pytest.mark.parametrize("datatype", ["UINT64", "INT64", "UINT32", "INT32", "STRING"])
def test_sound_controls_are_accepted(datatype: str) -> None:
    assert found(control(f"{CORRID} data_type: TYPE_{datatype}"), control(f"{START} {INTS}", name="S")) == []
    assert found() == []
