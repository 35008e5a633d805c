"""Small ONNX files, made here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from onnx import TensorProto, helper, save

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ValueInfo = tuple[str, str, list[int | str] | None]
Node = tuple[str, list[str], list[str], dict[str, Any]]


def graph_of(inputs: list[ValueInfo], outputs: list[ValueInfo], nodes: list[Node], values: list[Any]) -> Any:
    def info(entry: ValueInfo) -> Any:
        name, element, shape = entry
        return helper.make_tensor_value_info(name, getattr(TensorProto, element), shape)

    made = [helper.make_node(operator, into, out, **attributes) for operator, into, out, attributes in nodes]
    graph = helper.make_graph(made, "g", [info(entry) for entry in inputs], [info(entry) for entry in outputs], values)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.fixture
def onnx_file(tmp_path: Path) -> Callable[..., Path]:
    """``onnx_file(inputs, outputs, nodes)`` writes ``1/model.onnx`` and returns its path.

    A tensor is (name, element type, shape); a node (operator, inputs, outputs, attributes).
    """

    def write(
        inputs: list[ValueInfo],
        outputs: list[ValueInfo],
        nodes: list[Node],
        values: list[Any] | None = None,
    ) -> Path:
        path = tmp_path / "1" / "model.onnx"
        save(graph_of(inputs, outputs, nodes, values or []), path)
        return path

    return write
