"""The network of ``llm_stream``: reads the last characters of a text and says how likely each next one is.

Each character becomes a vector (``embedding``), the vectors of the last :data:`CONTEXT` characters go through one layer
of hidden units, and that gives a score for every character of the alphabet. ``train.py`` makes the weights.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from os import PathLike

    from numpy.typing import NDArray

CONTEXT = 16
PAD = "\n"
"""Stands before the beginning of a text."""


class Network:
    """Weights and the alphabet that they are for. Any thread: it holds no state of a text."""

    def __init__(self, alphabet: str, weights: dict[str, NDArray[np.float32]]) -> None:
        self.alphabet = alphabet
        self.weights = weights
        self._codes = {character: code for code, character in enumerate(alphabet)}

    @classmethod
    def read(cls, path: str | PathLike[str]) -> Network:
        """The network in a file that :meth:`write` made."""
        with np.load(path) as file:
            content = dict(file)
        return cls(str(content.pop("alphabet")), content)

    def write(self, path: str | PathLike[str]) -> None:
        """Keep the network in a ``.npz`` file."""
        content: dict[str, Any] = {"alphabet": np.array(self.alphabet), **self.weights}
        np.savez(path, **content)

    def codes(self, text: str) -> list[int]:
        """Numbers for characters; what the alphabet lacks counts as a space."""
        return [self._codes.get(character, self._codes[" "]) for character in text]

    def scores(self, context: NDArray[np.int64]) -> NDArray[np.float32]:
        """Scores [rows, alphabet] of what comes after each row of ``context``, codes [rows, CONTEXT]."""
        weights = self.weights
        vectors = weights["embedding"][context].reshape(len(context), -1)
        hidden = np.tanh(vectors @ weights["hidden"] + weights["hidden_bias"])
        return hidden @ weights["output"] + weights["output_bias"]


class Text:
    """A text that a network writes: what generating keeps from token to token."""

    def __init__(self, network: Network, prompt: str, temperature: float, seed: int | None) -> None:
        """Begin after ``prompt``. Temperature 0 takes the likeliest character; ``seed`` None differs each time."""
        self._network = network
        self._temperature = temperature
        self._random = np.random.default_rng(seed)
        self._context = np.array([network.codes((PAD * CONTEXT + prompt)[-CONTEXT:])])

    def next_character(self) -> str:
        """Choose a character, write it, and return it."""
        scores = self._network.scores(self._context)[0].astype(np.float64)
        if self._temperature:
            # Gumbel noise turns taking the best into drawing by probability.
            scores = scores / self._temperature + self._random.gumbel(size=len(scores))
        code = int(scores.argmax())
        self._context = np.roll(self._context, -1)
        self._context[0, -1] = code
        return self._network.alphabet[code]
