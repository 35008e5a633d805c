"""A model that is unloaded goes at once: no circle of objects keeps it until the garbage collector comes by.

A server has the collector come rarely, because requests leave nothing for it. Models that are loaded and unloaded
all day must not either: each has the memory that its workers' frames are received into.
"""

from __future__ import annotations

import gc
import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import infer

if TYPE_CHECKING:
    from pathlib import Path

LIMIT_S = 20
TENSORS = """
input [{ name: "IN" data_type: TYPE_INT32 dims: [-1] }]
output [{ name: "OUT" data_type: TYPE_INT32 dims: [-1] }]
"""
ONE = "instance_group [{ kind: KIND_CPU count: 1 }]\n"
ECHO = """
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", each.inputs()[0].as_numpy())]) for each in requests]
"""
SENDER = """
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        for each in requests:
            response = pb_utils.InferenceResponse([pb_utils.Tensor("OUT", each.inputs()[0].as_numpy())])
            each.get_response_sender().send(response, pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"""
PYTHON = f'backend: "python"\n{TENSORS}'
MODELS = {
    "one instance": (PYTHON + ONE, ECHO),
    "two instances": (PYTHON + ONE.replace("1", "2"), ECHO),
    "a batcher": (PYTHON + ONE + "max_batch_size: 4\ndynamic_batching { }\n", ECHO),
    "decoupled": (PYTHON + ONE + "model_transaction_policy { decoupled: true }\n", SENDER),
}


def come_and_go(server: infer.Server, gone: threading.Event) -> None:
    """Load, ask, unload, and wait until it is gone."""
    server.load("m")
    answer = next(iter(server.stream("m", {"IN": np.array([[5]], np.int32)})))
    assert answer["OUT"].tolist() == [[5]]
    server.unload("m")
    for _ in range(LIMIT_S * 100):
        if all(entry.state == "UNAVAILABLE" for entry in server.index()):
            return
        gone.wait(0.01)
    pytest.fail(f"not unloaded: {server.index()}")


def garbage() -> list[Any]:
    """Objects of ours that only a round of the collector can free."""
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        gc.collect()
        return [each for each in gc.garbage if type(each).__module__.startswith("infer.")]
    finally:
        gc.set_debug(0)
        gc.garbage.clear()


@pytest.mark.parametrize(("config", "source"), MODELS.values(), ids=MODELS.keys())
def test_a_model_that_comes_and_goes_leaves_nothing_for_the_garbage_collector(
    tmp_path: Path, config: str, source: str
) -> None:
    if "max_batch_size" not in config:
        config = config.replace("dims: [-1]", "dims: [-1, -1]")
    (tmp_path / "m" / "1").mkdir(parents=True)
    (tmp_path / "m" / "config.pbtxt").write_text(config)
    (tmp_path / "m" / "1" / "model.py").write_text(source)
    with infer.Server(tmp_path, model_control_mode="explicit") as server:
        come_and_go(server, threading.Event())
        gc.collect()
        gc.disable()
        try:
            come_and_go(server, threading.Event())
            assert garbage() == []
        finally:
            gc.enable()
