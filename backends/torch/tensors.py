"""The server's tensors as torch's, and back."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch

from ..api.datatypes import Datatype, encode_bytes, split_bytes
from ..api.errors import InvalidArgument
from ..api.tensor import Tensor
from .worker.values import DTYPES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

_DTYPES: dict[Datatype, torch.dtype] = {
    datatype: DTYPES[datatype.config_name] for datatype in Datatype if datatype is not Datatype.BYTES
}

_from_numpy: Callable[[NDArray[Any]], torch.Tensor] = cast("Any", torch).from_numpy

# torch says once a process that memory it cannot mark as read-only is read-only. It is: a request's body is lent to
# the model, and whoever lends it sees to it that the model does not write (Script.changes_inputs).
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    torch.frombuffer(b"\0", dtype=torch.uint8)
    _from_numpy(np.frombuffer(b"\0", dtype=np.uint8))


def borrowed(tensor: Tensor) -> torch.Tensor:
    """A torch tensor over a host tensor's memory; of its own where there is nothing to share."""
    if tensor.datatype is Datatype.BF16 or not tensor.byte_size:
        dtype = _DTYPES[tensor.datatype]
        whole = torch.frombuffer(tensor.buffer, dtype=dtype) if tensor.byte_size else torch.empty(0, dtype=dtype)
        return whole.view(tensor.shape)
    # PERF: numpy makes and shapes a view in a fifth of the time that torch takes.
    return _from_numpy(tensor.as_numpy())


def aligned(tensor: torch.Tensor) -> bool:
    """Whether the elements start where their type wants to; a view into a body starts where its header ends."""
    return not tensor.data_ptr() % tensor.element_size()


def lent(tensor: torch.Tensor) -> memoryview:
    """A host tensor's bytes, without a copy where they lie in order."""
    plain = tensor.detach() if tensor.requires_grad else tensor
    array: NDArray[Any] = (plain.view(torch.int16) if plain.dtype is torch.bfloat16 else plain).numpy()
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


def texts(model: str, name: str, tensor: Tensor) -> list[str]:
    """The elements of a BYTES tensor as text. Raises InvalidArgument for what is not UTF-8."""
    try:
        return [element.decode() for element in split_bytes(tensor.view)]
    except UnicodeDecodeError as exc:
        msg = (
            f"input '{name}' of model '{model}' is not UTF-8 text, which PyTorch's strings are: byte "
            f"0x{exc.object[exc.start]:02x} at position {exc.start}; encode the text as UTF-8"
        )
        raise InvalidArgument(msg) from exc
    except ValueError as exc:
        msg = f"input '{name}' of model '{model}': {exc}"
        raise InvalidArgument(msg) from exc


def text_tensor(strings: Sequence[str], shape: tuple[int, ...]) -> Tensor:
    """Strings as a BYTES tensor."""
    array = np.empty(len(strings), dtype=np.object_)
    array[:] = [text.encode() for text in strings]
    return Tensor(Datatype.BYTES, shape, encode_bytes(array))
