"""What a started server prints can be read, and its last line can be used."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace

from infer.app.console import base_url, example_command, example_request, model_table, start_page, table
from infer.backends.api.datatypes import Datatype
from infer.backends.api.model_config import ModelConfig, TensorSpec
from infer.server.lifecycle.signature import ModelSignature
from infer.server.lifecycle.states import IndexEntry

EMPTY = ModelConfig.from_document({"name": "m"})


def signature(*inputs: TensorSpec, name: str = "m", max_batch_size: int = 0) -> ModelSignature:
    outputs = (TensorSpec("OUT", Datatype.FP32, (1,)),)
    return ModelSignature(
        replace(EMPTY, name=name, inputs=inputs, outputs=outputs, max_batch_size=max_batch_size),
    )


def test_columns_are_as_wide_as_their_widest_cell() -> None:
    assert table(("A", "B"), [("x", "1"), ("long", "2")]) == "A     B\nx     1\nlong  2"


def test_a_reason_of_several_lines_stays_in_its_column() -> None:
    index = [IndexEntry("bad", "1", "UNAVAILABLE", "model.py:3\nValueError: no")]
    assert model_table(index).splitlines() == [
        "MODEL  VERSION  STATE        REASON",
        "bad    1        UNAVAILABLE  model.py:3",
        "                             ValueError: no",
    ]


def test_an_empty_index_is_a_sentence() -> None:
    assert model_table([]) == "No models."


def test_an_address_for_everyone_is_shown_as_one_that_works_here() -> None:
    assert base_url(("0.0.0.0", 8000)) == "http://127.0.0.1:8000"
    assert base_url(("::", 1)) == "http://[::1]:1"
    assert base_url(("10.0.0.1", 2)) == "http://10.0.0.1:2"


def test_an_example_has_every_required_input_in_a_shape_that_fits() -> None:
    specs = (
        TensorSpec("A", Datatype.INT32, (-1, 2)),
        TensorSpec("B", Datatype.BYTES, (1,)),
        TensorSpec("C", Datatype.BOOL, (2,)),
        TensorSpec("D", Datatype.FP64, (1,), optional=True),
    )
    assert example_request(signature(*specs, max_batch_size=4)) == {
        "inputs": [
            {"name": "A", "shape": [1, 1, 2], "datatype": "INT32", "data": [0, 1]},
            {"name": "B", "shape": [1, 1], "datatype": "BYTES", "data": ["text 0"]},
            {"name": "C", "shape": [1, 2], "datatype": "BOOL", "data": [False, True]},
        ]
    }


def test_the_example_prefers_the_sample_then_the_smallest_model() -> None:
    small = signature(TensorSpec("A", Datatype.INT32, (1,)))
    large = signature(TensorSpec("A", Datatype.INT32, (9,)))
    assert "/models/simple/infer" in example_command("http://h:1", {"simple": large, "a": small})
    assert "/models/a/infer" in example_command("http://h:1", {"b": large, "a": small})


def test_the_example_is_one_shell_command_with_a_json_body() -> None:
    command = example_command("http://h:1", {"m": signature(TensorSpec("it's", Datatype.FP32, (2,)))})
    words = shlex.split(command)
    assert words[:3] == ["curl", "-s", "http://h:1/v2/models/m/infer"]
    assert json.loads(words[4])["inputs"][0] == {"name": "it's", "shape": [2], "datatype": "FP32", "data": [0.0, 1.0]}


def test_where_no_inference_can_be_shown_the_metadata_is() -> None:
    half = signature(TensorSpec("A", Datatype.FP16, (1,)))
    huge = signature(TensorSpec("A", Datatype.FP32, (3, 224, 224)))
    assert example_command("http://h:1", {"x": half, "m": huge}) == "curl -s http://h:1/v2/models/m"
    assert example_command("http://h:1", {}) == "curl -s http://h:1/v2"


def test_the_page_names_states_and_addresses_and_ends_with_the_command() -> None:
    page = start_page(
        [IndexEntry("m", "1", "READY"), IndexEntry("bad", "1", "UNAVAILABLE", "no such file")],
        {"m": signature(TensorSpec("A", Datatype.INT32, (1,)))},
        http=("0.0.0.0", 8000),
        operator=("127.0.0.1", 8002),
        grpc=("::", 8001),
    )
    assert "bad    1        UNAVAILABLE  no such file" in page
    assert "inference  http://127.0.0.1:8000/v2  (on every network interface)" in page
    assert "grpc       [::1]:8001  (on every network interface)" in page
    assert "metrics    http://127.0.0.1:8002/metrics\n" in page
    assert page.splitlines()[-1].startswith("curl -s http://127.0.0.1:8000/v2/models/m/infer")


def test_a_server_without_doors_says_so() -> None:
    assert start_page([], {}, http=None, operator=None) == "No models.\n\nNo doors."
