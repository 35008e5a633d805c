"""The server, its models, their statistics and the repository index as documents, integers as numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ...backends.api.model_config import TensorSpec
    from ..lifecycle.models import ServedModel
    from ..lifecycle.signature import ModelSignature
    from ..lifecycle.states import IndexEntry
    from ..observe.statistics import Duration, ModelSnapshot

Document = dict[str, Any]


def server_metadata(name: str, version: str, extensions: Iterable[str]) -> Document:
    """``GET /v2``."""
    return {"name": name, "version": version, "extensions": list(extensions)}


def model_metadata(model: ServedModel, versions: Iterable[int]) -> Document:
    """``GET /v2/models/m``: ``versions`` are those to name, ``platform`` falls back on the backend's name."""
    signature = model.signature
    return {
        "name": model.name,
        "versions": [str(version) for version in versions],
        "platform": model.config.platform or model.config.backend,
        "inputs": [_tensor(signature, spec) for spec in signature.inputs.values()],
        "outputs": [_tensor(signature, spec) for spec in signature.outputs.values()],
    }


def model_config(model: ServedModel) -> Document:
    """``GET /v2/models/m/config``: the whole configuration after auto-completion."""
    return model.config.document


def statistics(snapshots: Sequence[ModelSnapshot]) -> Document:
    """``GET /v2/models/m/stats``."""
    return {"model_stats": [_model_statistics(snapshot) for snapshot in snapshots]}


def index(entries: Iterable[IndexEntry]) -> list[Document]:
    """``POST /v2/repository/index``: keys with nothing to say are left out."""
    documents: list[Document] = []
    for entry in entries:
        document: Document = {"name": entry.name}
        if entry.version:
            document["version"] = entry.version
        if entry.state:
            document["state"] = entry.state
        if entry.reason:
            document["reason"] = entry.reason
        documents.append(document)
    return documents


def _tensor(signature: ModelSignature, spec: TensorSpec) -> Document:
    return {"name": spec.name, "datatype": str(spec.datatype), "shape": signature.full_shape(spec)}


def _duration(duration: Duration) -> Document:
    return {"count": duration.count, "ns": duration.ns}


def _model_statistics(snapshot: ModelSnapshot) -> Document:
    return {
        "name": snapshot.name,
        "version": snapshot.version,
        "last_inference": snapshot.last_inference,
        "inference_count": snapshot.inference_count,
        "execution_count": snapshot.execution_count,
        "inference_stats": {
            "success": _duration(snapshot.success),
            "fail": _duration(snapshot.fail),
            "queue": _duration(snapshot.queue),
            "compute_input": _duration(snapshot.compute_input),
            "compute_infer": _duration(snapshot.compute_infer),
            "compute_output": _duration(snapshot.compute_output),
            "cache_hit": _duration(snapshot.cache_hit),
            "cache_miss": _duration(snapshot.cache_miss),
        },
        "response_stats": {
            index: {
                "compute_infer": _duration(response.compute_infer),
                "compute_output": _duration(response.compute_output),
                "success": _duration(response.success),
                "fail": _duration(response.fail),
                "empty_response": _duration(response.empty_response),
                "cancel": _duration(response.cancel),
            }
            for index, response in snapshot.responses
        },
        "batch_stats": [
            {
                "batch_size": batch.batch_size,
                "compute_input": _duration(batch.compute_input),
                "compute_infer": _duration(batch.compute_infer),
                "compute_output": _duration(batch.compute_output),
            }
            for batch in snapshot.batches
        ],
        "memory_usage": [
            {"type": usage.type, "id": usage.id, "byte_size": usage.byte_size} for usage in snapshot.memory_usage
        ],
    }
