"""Train the digits classifier and write it as TorchScript, ``1/model.pt`` beside this script.

    python model_repository/digits_torch/export.py

The same network as the sample ``digits``, trained by that sample's script: 64 grey values, 64 hidden units, ten
probabilities.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import torch

HERE = Path(__file__).parent
TARGET = HERE / "1" / "model.pt"


class Digits(torch.nn.Module):
    """``image`` FP32 [batch, 64] in, ``probabilities`` FP32 [batch, 10] out."""

    def __init__(self, network: Any, black: float) -> None:  # noqa: ANN401  scikit-learn's MLPClassifier
        super().__init__()
        (first, second), (first_bias, second_bias) = network.coefs_, network.intercepts_
        self.hidden = _linear(first / black, first_bias)
        self.scores = _linear(second, second_bias)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        """The probability of each digit."""
        return torch.softmax(self.scores(torch.relu(self.hidden(image))), dim=1)


def main() -> None:
    """Train, write, compare with what was trained."""
    training = _training()
    network, accuracy = training.trained()
    module = Digits(network, training.BLACK).eval()
    TARGET.parent.mkdir(exist_ok=True)
    torch.jit.script(module).save(TARGET)
    images = training.split()[1]
    with torch.inference_mode():
        answers = torch.jit.load(TARGET)(torch.from_numpy(images)).argmax(dim=1).numpy()
    if (answers != network.predict(images / training.BLACK)).any():
        raise SystemExit("the module does not answer as the network that it was made of")
    size = TARGET.stat().st_size
    sys.stdout.write(f"{accuracy:.1%} of {len(images)} held-out digits are right; {TARGET} has {size} bytes\n")


def _linear(weights: Any, bias: Any) -> torch.nn.Linear:  # noqa: ANN401  numpy arrays
    layer = torch.nn.Linear(*weights.shape)
    layer.weight = torch.nn.Parameter(torch.tensor(weights.T, dtype=torch.float32))
    layer.bias = torch.nn.Parameter(torch.tensor(bias, dtype=torch.float32))
    return layer


def _training() -> Any:  # noqa: ANN401  a module
    """The training script of the sample ``digits``."""
    path = HERE.parent / "digits" / "train.py"
    spec = importlib.util.spec_from_file_location("digits_training", path)
    if spec is None or spec.loader is None:
        raise SystemExit(f"{path} is not there")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    main()
