"""Train the network of ``llm_stream`` and write ``1/weights.npz`` beside this script.

    python model_repository/llm_stream/train.py

It learns ``text.txt`` by heart, which takes ten seconds: from the characters before each place to the one that stands
there, by gradient descent (Adam) on the cross entropy, all in numpy. The seed makes every run the same, but for
rounding that differs between machines.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

HERE = Path(__file__).parent
TARGET = HERE / "1" / "weights.npz"
SEED = 7
EMBEDDING, HIDDEN = 12, 128
BATCH, EPOCHS = 128, 80
STEP, MEAN, VARIANCE = 3e-3, 0.9, 0.999
"""Adam's step, and how slowly its averages of a gradient and of the gradient's square follow."""
MOST_LOSS = 0.1
"""Nats a character; not knowing anything costs about 3.7."""


def main() -> None:
    """Train, try, write."""
    network = trained(text())
    loss = entropy(network, text())
    if loss > MOST_LOSS:
        raise SystemExit(f"the network knows the text only to {loss:.3f} nats a character, more than {MOST_LOSS}")
    network.write(TARGET)
    sys.stdout.write(f"{loss:.3f} nats a character; {TARGET} has {TARGET.stat().st_size} bytes\n")


def text() -> str:
    """What the network learns."""
    return (HERE / "text.txt").read_text(encoding="utf-8")


def trained(content: str, epochs: int = EPOCHS) -> Any:  # noqa: ANN401  a Network
    """A network that has read a text ``epochs`` times."""
    random = np.random.default_rng(SEED)
    network = untrained(content, random)
    contexts, targets = examples(network, content)
    averages = {name: (np.zeros_like(array), np.zeros_like(array)) for name, array in network.weights.items()}
    steps = epochs * -(-len(targets) // BATCH)
    for step in range(1, steps + 1):
        chosen = random.integers(len(targets), size=BATCH)
        # The step shrinks to nothing, so that the end is calm.
        size = STEP * (1 - (step - 1) / steps) * (1 - VARIANCE**step) ** 0.5 / (1 - MEAN**step)
        for name, gradient in gradients(network, contexts[chosen], targets[chosen]).items():
            mean, variance = averages[name]
            mean += (1 - MEAN) * (gradient - mean)
            variance += (1 - VARIANCE) * (gradient**2 - variance)
            network.weights[name] -= (size * mean / (np.sqrt(variance) + 1e-8)).astype(np.float32)
    return network


def untrained(content: str, random: np.random.Generator) -> Any:  # noqa: ANN401  a Network
    """A network for the characters of a text that knows nothing of it yet."""
    alphabet = "".join(sorted(set(content)))
    inputs = _network.CONTEXT * EMBEDDING
    shapes = {
        "embedding": (len(alphabet), EMBEDDING),
        "hidden": (inputs, HIDDEN),
        "hidden_bias": (HIDDEN,),
        "output": (HIDDEN, len(alphabet)),
        "output_bias": (len(alphabet),),
    }
    scales = {"embedding": 1.0, "hidden": inputs**-0.5, "hidden_bias": 0.0, "output": HIDDEN**-0.5, "output_bias": 0.0}
    weights = {name: (random.normal(size=shape) * scales[name]).astype(np.float32) for name, shape in shapes.items()}
    return _network.Network(alphabet, weights)


def examples(network: Any, content: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:  # noqa: ANN401  a Network
    """For every place of a text the codes before it [places, CONTEXT] and its own [places]."""
    codes = np.array(network.codes(_network.PAD * _network.CONTEXT + content))
    return np.lib.stride_tricks.sliding_window_view(codes, _network.CONTEXT)[:-1], codes[_network.CONTEXT :]


def entropy(network: Any, content: str) -> float:  # noqa: ANN401  a Network
    """How little a text surprises the network: nats a character."""
    contexts, targets = examples(network, content)
    return float(-np.log(_likelihoods(network.scores(contexts))[np.arange(len(targets)), targets]).mean())


def gradients(
    network: Any,  # noqa: ANN401  a Network
    contexts: NDArray[np.int64],
    targets: NDArray[np.int64],
) -> dict[str, NDArray[np.float32]]:
    """The slope of the cross entropy in every weight: the network backwards."""
    weights = network.weights
    vectors = weights["embedding"][contexts].reshape(len(contexts), -1)
    hidden = np.tanh(vectors @ weights["hidden"] + weights["hidden_bias"])
    wrong = _likelihoods(hidden @ weights["output"] + weights["output_bias"])
    wrong[np.arange(len(targets)), targets] -= 1
    wrong /= len(targets)
    inner = (wrong @ weights["output"].T) * (1 - hidden**2)
    embedding = np.zeros_like(weights["embedding"])
    np.add.at(embedding, contexts, (inner @ weights["hidden"].T).reshape(*contexts.shape, -1))
    return {
        "embedding": embedding,
        "hidden": vectors.T @ inner,
        "hidden_bias": inner.sum(axis=0),
        "output": hidden.T @ wrong,
        "output_bias": wrong.sum(axis=0),
    }


def _likelihoods(scores: NDArray[np.float32]) -> NDArray[np.float32]:
    raised = np.exp(scores - scores.max(axis=1, keepdims=True))
    return raised / raised.sum(axis=1, keepdims=True)


def _load_network() -> Any:  # noqa: ANN401  a module
    """The module that the model itself uses."""
    spec = importlib.util.spec_from_file_location("llm_stream_network", HERE / "1" / "network.py")
    if spec is None or spec.loader is None:
        raise SystemExit(f"{HERE / '1' / 'network.py'} is not there")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


_network = _load_network()

if __name__ == "__main__":
    main()
