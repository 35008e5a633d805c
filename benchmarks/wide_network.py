"""Write a classifier with two wide hidden layers and random weights; started by ``runtimes.py``.

    python benchmarks/wide_network.py onnx|torch TARGET FLOATS UNITS

As the samples' networks: FP32 [batch, FLOATS] in, ten probabilities out; the ONNX one with the samples' tensor names.
"""

from __future__ import annotations

import sys
from itertools import pairwise
from pathlib import Path

import numpy as np

CLASSES = 10


def main() -> None:
    """Write the network for the runtime that is asked for."""
    runtime, target = sys.argv[1], Path(sys.argv[2])
    floats, units = map(int, sys.argv[3:5])
    sizes = (floats, units, units, CLASSES)
    generator = np.random.default_rng(7)
    layers = [
        (generator.standard_normal(pair, dtype=np.float32) / np.float32(pair[0] ** 0.5), np.zeros(pair[1], np.float32))
        for pair in pairwise(sizes)
    ]
    {"onnx": _onnx, "torch": _torch}[runtime](layers, target)


def _onnx(layers: list[tuple[np.ndarray, np.ndarray]], target: Path) -> None:
    from onnx import TensorProto, helper, numpy_helper, save  # noqa: PLC0415  only one of the runtimes is needed

    nodes, weights, value = [], [], "image"
    for index, (weight, bias) in enumerate(layers):
        names = [f"weight{index}", f"bias{index}"]
        weights += [numpy_helper.from_array(array, name) for array, name in zip((weight, bias), names, strict=True)]
        nodes.append(helper.make_node("Gemm", [value, *names], [f"sums{index}"]))
        value = f"sums{index}"
        if index < len(layers) - 1:
            nodes.append(helper.make_node("Relu", [value], [f"hidden{index}"]))
            value = f"hidden{index}"
    nodes.append(helper.make_node("Softmax", [value], ["probabilities"], axis=1))
    first = helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", layers[0][0].shape[0]])
    last = helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, ["batch", CLASSES])
    graph = helper.make_graph(nodes, "wide", [first], [last], weights)
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(target))


def _torch(layers: list[tuple[np.ndarray, np.ndarray]], target: Path) -> None:
    import torch  # noqa: PLC0415  only one of the runtimes is needed

    modules: list[torch.nn.Module] = []
    for weight, bias in layers:
        linear = torch.nn.Linear(*weight.shape)
        linear.weight.data, linear.bias.data = torch.from_numpy(weight.T.copy()), torch.from_numpy(bias)
        modules += [linear, torch.nn.ReLU()]

    class Wide(torch.nn.Module):
        """Names its argument as the samples' input."""

        def __init__(self) -> None:
            super().__init__()
            self.network = torch.nn.Sequential(*modules[:-1], torch.nn.Softmax(dim=1))

        def forward(self, image: torch.Tensor) -> torch.Tensor:
            """The probabilities."""
            return self.network(image)

    torch.jit.script(Wide().eval()).save(str(target))


if __name__ == "__main__":
    main()
