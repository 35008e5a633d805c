"""What a person types for a model's inputs, as arrays that fit: literals, files, standard input."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, cast

import numpy as np

from ..backends.api.datatypes import Datatype
from .failure import ClientError, Kind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

_FILE = "@"

Document = dict[str, Any]


def usage(what: str, why: str, fix: str) -> ClientError:
    """The failure of a command line."""
    return ClientError(what, why, fix, kind=Kind.USAGE)


def from_options(options: Sequence[str]) -> Document:
    """Values by input name from ``NAME=VALUE`` and ``NAME=@FILE.npy``."""
    given: Document = {}
    for option in options:
        name, equals, text = option.partition("=")
        if not equals or not name:
            raise usage(f"input '{option}' has no value", "it must be NAME=VALUE", "for example: -i 'INPUT0=[1,2]'")
        given[name] = _load_array(name, text[len(_FILE) :]) if text.startswith(_FILE) else literal(text)
    return given


def literal(text: str) -> Any:  # noqa: ANN401  a JSON value
    """A JSON value; what is not JSON is a text."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def _load_array(name: str, path: str) -> NDArray[Any]:
    try:
        loaded: Any = np.load(Path(path), allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise usage(f"input '{name}' cannot be read from {path}", str(error), "name a .npy file") from error
    if not isinstance(loaded, np.ndarray):
        raise usage(f"input '{name}' cannot be read from {path}", "it holds several arrays", "name a .npy file")
    array = cast("NDArray[Any]", loaded)
    return np.char.encode(array, "utf-8") if array.dtype.kind == "U" else array


def from_stdin(stream: TextIO) -> Document:
    """Values by input name, or a whole request document, from JSON on a stream."""
    example = "for example: -i 'INPUT0=[1,2]'   or   echo '{\"INPUT0\": [1,2]}' | infer call MODEL"
    if stream.isatty():
        raise usage("there are no inputs", "neither -i nor standard input gives any", example)
    try:
        document: Any = json.loads(stream.read())
    except ValueError as error:
        raise usage("standard input is not JSON", str(error), example) from error
    if not isinstance(document, dict):
        raise usage("standard input is not a JSON object", f"it is {type(document).__name__}", example)
    return cast("Document", document)


def to_array(name: str, datatype: Datatype, value: Any) -> NDArray[Any]:  # noqa: ANN401  a JSON value or an array
    """The value as an array of the input's datatype; ClientError where it is not one."""
    try:
        if datatype is Datatype.BYTES:
            array = np.asarray(value, dtype=np.object_)
            elements = [item if isinstance(item, bytes) else str(item).encode() for item in array.ravel().tolist()]
            texts: NDArray[np.object_] = np.empty(len(elements), dtype=np.object_)
            texts[:] = elements
            return texts.reshape(array.shape)
        if isinstance(value, np.ndarray):
            return cast("NDArray[Any]", value).astype(datatype.numpy, casting="same_kind", copy=False)
        # The text of an integer is exact where a detour over float64 is not.
        array = np.asarray(value)
        if array.dtype.kind not in "biuf" or (array.dtype.kind == "f" and datatype.numpy.kind in "iu"):
            got = json.dumps(value)[:80]
            raise usage(f"input '{name}' takes {datatype}", f"got {got}", "give values of that kind")
        return np.asarray(value, dtype=datatype.numpy)
    except (ValueError, TypeError, OverflowError) as error:
        raise usage(f"input '{name}' takes {datatype}", str(error), "give values of that kind") from error


def fit(array: NDArray[Any], name: str, shape: Sequence[int]) -> NDArray[Any]:
    """The array in a shape that the model takes: as it is, with a batch of one, or a flat list folded.

    A shape that cannot be made to fit is refused with both shapes.
    """
    for candidate in (array.shape, (1, *array.shape)):
        if _fits(candidate, shape):
            return array.reshape(candidate)
    fixed = math.prod(size for size in shape if size >= 0)
    free = sum(size < 0 for size in shape)
    if array.ndim <= 1 and fixed and array.size % fixed == 0 and (free or array.size == fixed):
        # The first free dimension takes what is over, the others are 1.
        rest = iter([array.size // fixed] + [1] * free)
        return array.reshape([size if size >= 0 else next(rest) for size in shape])
    raise usage(
        f"input '{name}' has the wrong shape",
        f"it takes {list(shape)} (-1 is any size), got {list(array.shape)}",
        "give as many values as the shape has elements",
    )


def _fits(given: Sequence[int], shape: Sequence[int]) -> bool:
    return len(given) == len(shape) and all(want in (-1, size) for want, size in zip(shape, given, strict=True))
