"""Values to begin with, for a model's inputs, and what a person may write into a field of the form."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from . import inference

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

Document = Mapping[str, Any]
Filled = tuple[Document, str]
"""An input as the metadata has it, and the text of its field."""

MOST_SHOWN = 64
"""An input with more elements begins with a word instead of its values."""

ZEROS, ONES, RANDOM = "@zeros", "@ones", "@random"
WORDS = (ZEROS, ONES, RANDOM)
"""What fills an input, whatever its size; free dimensions are 1."""

_TEXTS = ("hello", "world")


def example(spec: Document) -> str:
    """The text that a field begins with: values that the model takes."""
    shape = concrete(spec["shape"])
    count = math.prod(shape)
    datatype = str(spec["datatype"])
    if count > MOST_SHOWN:
        return ZEROS if datatype != "BYTES" else ONES
    if datatype == "BYTES":
        values: list[Any] = [_TEXTS[number % len(_TEXTS)] for number in range(count)]
    elif datatype == "BOOL":
        values = [number % 2 == 0 for number in range(count)]
    elif datatype.startswith(("FP", "BF")):
        values = [float(number) for number in range(count)]
    else:
        values = list(range(count))
    nested = fold(values, shape)
    return json.dumps(nested if shape else values[0], separators=(",", ":"))


def concrete(shape: Sequence[int]) -> list[int]:
    """The shape with free dimensions of 1."""
    return [size if size >= 0 else 1 for size in shape]


def fold(values: Sequence[Any], shape: Sequence[int]) -> list[Any]:
    """A flat list in nested lists, as the shape says; without elements it is empty."""
    folded = list(values)
    for size in reversed(shape[1:]):
        folded = [folded[start : start + size] for start in range(0, len(folded), size)] if size else []
    return folded


def read(spec: Document, text: str) -> Any:  # noqa: ANN401  a JSON value or an array
    """The value that a field's text stands for. Raises ClientError for a file that cannot be read."""
    name, wanted = str(spec["name"]), text.strip()
    if wanted in WORDS:
        return fill(spec, wanted)
    return inference.from_options([f"{name}={wanted}"])[name]


def read_all(filled: Sequence[Filled]) -> dict[str, Any]:
    """Values by input name. Raises ClientError as :func:`read` does."""
    return {str(spec["name"]): read(spec, text) for spec, text in filled}


def fill(spec: Document, word: str) -> NDArray[Any]:
    """An array of the input's whole shape: zeros, ones, or numbers of 0..1 (0..9 for whole ones), always the same."""
    import numpy as np

    from ..backends.api.datatypes import BY_WIRE_NAME

    shape, datatype = concrete(spec["shape"]), str(spec["datatype"])
    random = np.random.default_rng(0)
    if datatype == "BYTES":
        texts: NDArray[Any] = np.full(shape, {ZEROS: b"", ONES: b"text"}.get(word, b"a longer text"), dtype=np.object_)
        return texts
    if word == RANDOM:
        whole = not datatype.startswith(("FP", "BF"))
        values = random.integers(0, 2 if datatype == "BOOL" else 10, shape) if whole else random.random(shape)
    else:
        values = np.full(shape, int(word == ONES))
    return values.astype(BY_WIRE_NAME[datatype].numpy)
