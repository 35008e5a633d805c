"""The models of the made-up server: several backends, every state, a few of them busy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .demo_traffic import Traffic
from .snapshot import Instance

MIB = 1 << 20

_NO_TRAFFIC = Traffic()


@dataclass(frozen=True, slots=True)
class Tensor:
    """An input or output as the metadata names it."""

    name: str
    datatype: str
    shape: tuple[int, ...]

    def document(self) -> dict[str, Any]:
        """The entry of the metadata."""
        return {"name": self.name, "datatype": self.datatype, "shape": list(self.shape)}


@dataclass(frozen=True, slots=True)
class DemoModel:
    """One model. ``settled_s`` is how long after the demo's start ``state`` turns into ``later`` (0: it stays)."""

    name: str
    backend: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    version: str = "1"
    state: str = "READY"
    reason: str = ""
    later: str = ""
    settled_s: float = 0.0
    max_batch_size: int = 0
    depends_on: tuple[str, ...] = ()
    instances: tuple[Instance, ...] = ()
    traffic: Traffic = _NO_TRAFFIC
    load_s: float = 2.0
    decoupled: bool = False
    old_versions: tuple[str, ...] = ()

    def metadata(self) -> dict[str, Any]:
        """What ``/v2/models/NAME`` answers."""
        return {
            "name": self.name,
            "versions": [self.version or "1"],
            "platform": self.backend,
            "inputs": [tensor.document() for tensor in self.inputs],
            "outputs": [tensor.document() for tensor in self.outputs],
        }

    def config(self) -> dict[str, Any]:
        """What ``/v2/models/NAME/config`` answers."""
        batched = 1 if self.max_batch_size else 0
        tensors = {
            direction: [
                {"name": one.name, "data_type": f"TYPE_{one.datatype}", "dims": list(one.shape[batched:])}
                for one in listed
            ]
            for direction, listed in (("input", self.inputs), ("output", self.outputs))
        }
        document: dict[str, Any] = {
            "name": self.name,
            "backend": self.backend,
            "max_batch_size": self.max_batch_size,
            **tensors,
        }
        if self.traffic.largest_batch > 1:
            sizes = [self.traffic.largest_batch]
            document["dynamic_batching"] = {"preferred_batch_size": sizes, "max_queue_delay_microseconds": 500}
        if self.instances:
            kind = self.instances[0].kind
            document["instance_group"] = [{"name": f"{self.name}_0", "kind": kind, "count": len(self.instances)}]
        if self.depends_on:
            document["ensemble_scheduling"] = {"step": [{"model_name": step} for step in self.depends_on]}
        document["model_transaction_policy"] = {"decoupled": self.decoupled}
        return document


def _gpu(name: str, device: int, state: str = "idle") -> Instance:
    return Instance(f"{name}_0_{device}", "KIND_GPU", device, state)


def _worker(name: str, number: int, memory_mib: int, *, state: str = "idle", restarts: int = 0) -> Instance:
    pid = 5000 + sum(name.encode()) % 900 + number
    return Instance(f"{name}_0_{number}", "KIND_CPU", -1, state, pid, memory_mib * MIB, restarts)


MODELS = (
    DemoModel(
        "bert_base",
        "pytorch",
        (Tensor("input_ids", "INT64", (-1, -1)), Tensor("attention_mask", "INT64", (-1, -1))),
        (Tensor("logits", "FP32", (-1, 4)),),
        version="2",
        old_versions=("1",),
        max_batch_size=16,
        instances=(_gpu("bert_base", 1),),
        traffic=Traffic(86, 6_400, 0.3, 60, 0.1, largest_batch=8, waiting=2.2),
        load_s=4.5,
    ),
    DemoModel(
        "classify_text",
        "ensemble",
        (Tensor("text", "BYTES", (-1, 1)),),
        (Tensor("label", "BYTES", (-1, 1)), Tensor("score", "FP32", (-1, 1))),
        max_batch_size=16,
        depends_on=("tokenizer", "bert_base"),
        traffic=Traffic(80, 9_100, 0.3, 60, 0.1),
        load_s=0.2,
    ),
    DemoModel(
        "detector",
        "python",
        (Tensor("image", "UINT8", (-1, -1, 3)),),
        (Tensor("boxes", "FP32", (-1, 4)), Tensor("classes", "INT32", (-1,))),
        instances=(
            _worker("detector", 0, 412, state="busy"),
            _worker("detector", 1, 0, state="restarting", restarts=3),
        ),
        traffic=Traffic(11, 61_000, 0.2, 30, 0.6, waiting=1.4, failures=(("BACKEND", 0.2),)),
        load_s=3.1,
    ),
    DemoModel(
        "fraud_score",
        "onnxruntime",
        (Tensor("features", "FP32", (-1, 32)),),
        (Tensor("score", "FP32", (-1, 1)),),
        version="4",
        state="UNAVAILABLE",
        reason="4/model.onnx is no ONNX model: it begins with 'version https://git-lfs'; fetch it with: git lfs pull",
        max_batch_size=64,
    ),
    DemoModel(
        "ranker",
        "onnxruntime",
        (Tensor("pairs", "FP16", (-1, 128)),),
        (Tensor("scores", "FP16", (-1,)),),
        state="UNLOADING",
        later="UNAVAILABLE",
        settled_s=45,
        reason="unloaded",
        max_batch_size=32,
        instances=(Instance("ranker_0_0", "KIND_CPU", -1, "busy"),),
    ),
    DemoModel(
        "resnet50",
        "onnxruntime",
        (Tensor("image", "FP32", (-1, 3, 224, 224)),),
        (Tensor("scores", "FP32", (-1, 1000)),),
        version="3",
        max_batch_size=32,
        instances=(_gpu("resnet50", 0, "busy"), _gpu("resnet50", 1)),
        traffic=Traffic(238, 3_900, 0.22, 45, 0.0, largest_batch=16, waiting=5.5, failures=(("REJECTED", 0.4),)),
        load_s=2.8,
    ),
    DemoModel(
        "summarize",
        "python",
        (Tensor("prompt", "BYTES", (1,)), Tensor("max_tokens", "INT32", (1,))),
        (Tensor("token", "BYTES", (1,)),),
        instances=(_worker("summarize", 0, 5_840, state="busy"),),
        traffic=Traffic(0.7, 1_720_000, 0.35, 80, 0.4, waiting=3.0, failures=(("TIMEOUT", 0.02),)),
        load_s=9.0,
        decoupled=True,
    ),
    DemoModel(
        "tokenizer",
        "python",
        (Tensor("text", "BYTES", (-1, 1)),),
        (Tensor("input_ids", "INT64", (-1, -1)), Tensor("attention_mask", "INT64", (-1, -1))),
        max_batch_size=64,
        instances=(_worker("tokenizer", 0, 176), _worker("tokenizer", 1, 181, state="busy")),
        traffic=Traffic(92, 620, 0.4, 60, 0.12, largest_batch=4),
        load_s=0.9,
    ),
    DemoModel(
        "translate_de",
        "pytorch",
        (Tensor("tokens", "INT64", (1, -1)),),
        (Tensor("translated", "INT64", (1, -1)),),
        version="",
        state="",
        load_s=6.0,
    ),
    DemoModel(
        "whisper_small",
        "pytorch",
        (Tensor("audio", "FP32", (-1, 480000)), Tensor("gain", "BF16", (1,))),
        (Tensor("transcript", "BYTES", (-1, 1)),),
        state="LOADING",
        later="READY",
        settled_s=90,
        instances=(_gpu("whisper_small", 0),),
        traffic=Traffic(3, 212_000, 0.3, 70, 0.3, waiting=0.6),
        load_s=12.0,
    ),
)
"""By name."""
