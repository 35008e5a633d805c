"""The server's tensors as torch's, and back."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ..api.datatypes import Datatype, encode_bytes, split_bytes
from ..api.errors import InvalidArgument
from ..api.tensor import Tensor
from .worker.values import DTYPES

if TYPE_CHECKING:
    from collections.abc import Sequence

_DTYPES: dict[Datatype, torch.dtype] = {
    datatype: DTYPES[datatype.config_name] for datatype in Datatype if datatype is not Datatype.BYTES
}

# torch says once a process that memory it cannot mark as read-only is read-only. It is: a request's body is lent to
# the model, and whoever lends it sees to it that the model does not write (Script.changes_inputs).
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    torch.frombuffer(b"\0", dtype=torch.uint8)


def borrowed(tensor: Tensor) -> torch.Tensor:
    """A torch tensor over a host tensor's memory; of its own where there is nothing to share."""
    dtype = _DTYPES[tensor.datatype]
    if not tensor.element_count:
        return torch.empty(tensor.shape, dtype=dtype)
    return torch.frombuffer(tensor.buffer, dtype=dtype).view(tensor.shape)


def aligned(tensor: torch.Tensor) -> bool:
    """Whether the elements start where their type wants to; a view into a body starts where its header ends."""
    return not tensor.data_ptr() % tensor.element_size()


def lent(tensor: torch.Tensor) -> memoryview:
    """A host tensor's bytes, without a copy where they lie in order."""
    flat = tensor.contiguous().view(-1) if tensor.dim() else tensor.view(1)
    array: np.ndarray[Any, np.dtype[np.uint8]] = flat.view(torch.uint8).numpy()
    return array.data


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
