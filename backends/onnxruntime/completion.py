"""Fill in what an ONNX graph knows of itself: batch size, inputs, outputs, the dynamic batcher. Pure."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ..api.errors import LoadFailed
from ..api.model_config import ModelConfig
from .graph import batch_input_names

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..api.model_config import Document
    from .graph import Graph, GraphTensor

logger = logging.getLogger(__name__)


def is_complete(config: ModelConfig) -> bool:
    """Whether the configuration declares both sides, so that there is nothing to ask the graph for."""
    return bool(config.inputs and config.outputs)


def completed(config: ModelConfig, graph: Graph, default_max_batch_size: int) -> ModelConfig:
    """The configuration with the sides that it leaves out.

    Raises LoadFailed where it asks for batches of a graph that has no batch dimension, and for tensors that have no
    wire form. What is computed for each batch is no input of the clients' and does not decide whether it batches.
    """
    graph = graph.without_inputs(batch_input_names(config))
    document = dict(config.document)
    max_batch_size = config.max_batch_size
    if graph.batchable:
        if max_batch_size == 0:
            max_batch_size = default_max_batch_size
            logger.warning(
                "autofilled max_batch_size to %d for model '%s' since batching is supported but no max_batch_size "
                "is specified in model configuration. Must specify max_batch_size to utilize autofill with a larger "
                "max batch size",
                max_batch_size,
                config.name,
                extra={"model": config.name},
            )
        if max_batch_size > 1 and not config.scheduling:
            document["dynamic_batching"] = {}
    elif max_batch_size > 0:
        msg = (
            f"autofill failed for model '{config.name}': model does not support batching while non-zero max_batch_size "
            f"is specified ({max_batch_size}); set max_batch_size: 0, or export it with a variable first dimension"
        )
        raise LoadFailed(msg)
    document["max_batch_size"] = max_batch_size
    batching = max_batch_size > 0
    if not config.inputs:
        document["input"] = _entries(graph.inputs.values(), config.name, batching=batching)
    if not config.outputs:
        document["output"] = _entries(graph.outputs.values(), config.name, batching=batching)
        _shape_scattered(document, config)
    return ModelConfig.from_document(document)


def _entries(tensors: Iterable[GraphTensor], model: str, *, batching: bool) -> list[Document]:
    entries: list[Document] = []
    for tensor in tensors:
        dims = list(tensor.shape[1:] if batching else tensor.shape)
        entry: Document = {
            "name": tensor.name,
            "data_type": tensor.known_datatype(model).config_name,
            "dims": dims or [1],
        }
        if not dims and batching:
            # Clients see [batch, 1]; the graph sees [batch].
            entry["reshape"] = {"shape": []}
        entries.append(entry)
    return entries


def _shape_scattered(document: Document, config: ModelConfig) -> None:
    """Give outputs that are divided by the shapes of an input that input's dims, in place of the graph's flat one."""
    dims = {entry["name"]: entry["dims"] for entry in document["input"]}
    sources = {
        name: source for entry in config.batch_outputs for name in entry.target_names for source in entry.source_inputs
    }
    for entry in document["output"]:
        source = sources.get(entry["name"])
        if source in dims:
            entry["dims"] = list(dims[source])
            entry.pop("reshape", None)
