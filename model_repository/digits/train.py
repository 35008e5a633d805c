"""Train the digits classifier and write ``1/model.onnx`` beside this script.

    python model_repository/digits/train.py

A small neural network on scikit-learn's digits (1,797 images of 8 by 8, grey values 0 to 16): trained on four fifths,
tried on the rest. :func:`split` gives the same rest to whoever wants to check the served model.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from onnx import TensorProto, checker, helper, numpy_helper
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier

if TYPE_CHECKING:
    from numpy.typing import NDArray

SEED = 7
BLACK = 16.0
"""The darkest grey value; the network sees values from 0 to 1."""
LEAST_ACCURACY = 0.95
TARGET = Path(__file__).parent / "1" / "model.onnx"


def split() -> list[NDArray[Any]]:
    """Training images, held-out images, training digits, held-out digits; always the same."""
    images, digits = load_digits(return_X_y=True)
    return train_test_split(images.astype("float32"), digits, test_size=0.2, random_state=SEED, stratify=digits)


def main() -> None:
    """Train, try, write."""
    network, accuracy = trained()
    content = onnx_bytes(network)
    TARGET.parent.mkdir(exist_ok=True)
    TARGET.write_bytes(content)
    sys.stdout.write(f"{accuracy:.1%} of the held-out digits are right; {TARGET} has {len(content)} bytes\n")


def trained() -> tuple[MLPClassifier, float]:
    """The network, and which share of the held-out digits it names; the same each time."""
    train_images, test_images, train_digits, test_digits = split()
    network = MLPClassifier(hidden_layer_sizes=(64,), alpha=1e-3, max_iter=400, random_state=SEED)
    network.fit(train_images / BLACK, train_digits)
    accuracy = float(network.score(test_images / BLACK, test_digits))
    if accuracy < LEAST_ACCURACY:
        raise SystemExit(f"only {accuracy:.1%} of the held-out digits are right, fewer than {LEAST_ACCURACY:.0%}")
    return network, accuracy


def onnx_bytes(network: MLPClassifier) -> bytes:
    """The network as an ONNX model: ``image`` FP32 [batch, 64] in, ``probabilities`` FP32 [batch, 10] out."""
    (first, second), (first_bias, second_bias) = network.coefs_, network.intercepts_
    weights = {
        "first": first / BLACK,
        "first_bias": first_bias,
        "second": second,
        "second_bias": second_bias,
    }
    graph = helper.make_graph(
        [
            helper.make_node("Gemm", ["image", "first", "first_bias"], ["sums"]),
            helper.make_node("Relu", ["sums"], ["hidden"]),
            helper.make_node("Gemm", ["hidden", "second", "second_bias"], ["scores"]),
            helper.make_node("Softmax", ["scores"], ["probabilities"], axis=1),
        ],
        "digits",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 64])],
        [helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, ["batch", 10])],
        [numpy_helper.from_array(array.astype(np.float32), name) for name, array in weights.items()],
    )
    model = helper.make_model(graph, producer_name="infer", opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    checker.check_model(model)
    return model.SerializeToString()


if __name__ == "__main__":
    main()
