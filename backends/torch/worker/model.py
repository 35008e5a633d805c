"""The program that serves eager PyTorch: ``TritonPythonModel`` over a user's module, run by the Python backend.

A batch is the requests' inputs joined along the first dimension, one call, and the outputs split again.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
import triton_python_backend_utils as pb_utils  # pyright: ignore[reportMissingImports]

from . import options, runners
from .archive import ArchiveError
from .modules import CODE, ModuleError
from .naming import NamingError
from .values import TEXT, Spec, ValueMismatch, checked, specs

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_SENTENCES = (ArchiveError, ModuleError, NamingError, ValueMismatch)
pb: Any = pb_utils
_from_numpy: Callable[[Any], torch.Tensor] = cast("Any", torch).from_numpy


class TritonPythonModel:
    """One instance."""

    def initialize(self, args: dict[str, str]) -> None:
        """Load the model; an exception's text is the reason of the failed load."""
        config: dict[str, Any] = json.loads(args["model_config"])
        self._name = args["model_name"]
        self._batching = config.get("max_batch_size", 0) > 0
        self._inputs = specs(self._name, config.get("input", ()))
        self._outputs = specs(self._name, config.get("output", ()))
        self._by_name = {spec.name: spec for spec in self._inputs}
        parameters = {key: entry.get("string_value", "") for key, entry in config.get("parameters", {}).items()}
        self._options = options.read(self._name, parameters)
        self._device = _device(args)
        path = runners.find(Path(pb.get_model_dir()), config.get("default_model_filename", ""))
        _set_threads(self._options, eager=path.suffix == CODE or config.get("runtime") == "model.py")
        self._mode = torch.inference_mode if self._options.inference_mode else torch.no_grad
        request = runners.Request(self._name, self._inputs, self._outputs, self._options, self._device, self._batching)
        try:
            self._run = runners.open_model(path, request)
        except _SENTENCES as exc:
            msg = f"failed to load model '{self._name}': {exc}"
            raise pb.ModelLoadError(msg) from exc
        except Exception as exc:
            msg = f"failed to load model '{self._name}' from '{path}': {type(exc).__name__}: {exc}"
            raise pb.ModelLoadError(msg) from exc

    def execute(self, requests: Sequence[Any]) -> list[Any]:
        """Answer every request; where a call fails, the requests in it get the reason."""
        responses: list[Any] = [None] * len(requests)
        for group in self._groups(requests):
            answers = self._guarded([requests[index] for index in group])
            for index, answer in zip(group, answers, strict=True):
                responses[index] = answer
        return responses

    def _guarded(self, requests: Sequence[Any]) -> list[Any]:
        """The answers, or for each the error that there is none."""
        try:
            return self._answer(requests)
        except UnicodeDecodeError as exc:
            if len(requests) > 1:
                # The text of one request cannot be decoded; the others are answered.
                return [answer for request in requests for answer in self._guarded([request])]
            text = f"model '{self._name}' takes UTF-8 text: {exc}"
            error = pb.TritonError(text, pb.TritonError.INVALID_ARG)
        except Exception as exc:  # noqa: BLE001  the border to the user's code
            text = str(exc) if isinstance(exc, _SENTENCES) else f"{type(exc).__name__}: {exc}"
            error = pb.TritonError(f"PyTorch error in model '{self._name}': {text}")
        return [pb.InferenceResponse(error=error) for _ in requests]

    def _groups(self, requests: Sequence[Any]) -> list[list[int]]:
        """Which requests are executed together: those that give the same inputs, but for their rows."""
        if not self._batching or len(requests) == 1:
            return [[index] for index in range(len(requests))]
        groups: dict[Any, list[int]] = {}
        for index, request in enumerate(requests):
            key = tuple((tensor.name(), *tensor.shape()[1:]) for tensor in request.inputs())
            groups.setdefault(key, []).append(index)
        return list(groups.values())

    def _answer(self, requests: Sequence[Any]) -> list[Any]:
        rows = [request.inputs()[0].shape()[0] if self._batching and request.inputs() else 1 for request in requests]
        feed = {
            tensor.name(): self._joined(tensor.name(), [request.inputs()[place] for request in requests])
            for place, tensor in enumerate(requests[0].inputs())
        }
        with self._mode():
            values = self._run(feed)
            if self._options.clean_cache and self._device is not None and self._device.type == "cuda":
                torch.cuda.empty_cache()
        parts = [
            _split(spec, value, rows, batching=self._batching)
            for spec, value in zip(self._outputs, values, strict=True)
        ]
        return [pb.InferenceResponse([part[index] for part in parts]) for index in range(len(requests))]

    def _joined(self, name: str, tensors: Sequence[Any]) -> Any:  # noqa: ANN401  a tensor or a list of str
        if self._by_name[name].data_type == TEXT:
            return [text.decode() for tensor in tensors for text in tensor.as_numpy().ravel().tolist()]
        values = [_from_pb(tensor) for tensor in tensors]
        joined = values[0] if len(values) == 1 else torch.cat(values)
        return joined if self._device is None else joined.to(self._device)


def _device(args: dict[str, str]) -> torch.device | None:
    """Where an instance's model and inputs are; None leaves it to the model (KIND_MODEL)."""
    kind = args["model_instance_kind"]
    if kind == "GPU":
        return torch.device("cuda", int(args["model_instance_device_id"]))
    return None if kind == "MODEL" else torch.device("cpu")


def _set_threads(chosen: options.TorchOptions, *, eager: bool) -> None:
    """Threads of this process: those that the parameters name; a ``model.py`` has one where they name none."""
    intra = chosen.eager_threads if eager else chosen.intra_op_threads
    inter = chosen.eager_interop_threads if eager else chosen.inter_op_threads
    if intra is not None:
        torch.set_num_threads(intra)
    if inter is not None:
        torch.set_num_interop_threads(inter)


def _from_pb(tensor: Any) -> torch.Tensor:  # noqa: ANN401  pb_utils.Tensor
    if tensor.datatype() != "BF16":
        return _from_numpy(tensor.as_numpy())
    return _from_numpy(tensor.as_bytes()).view(torch.bfloat16).reshape(tensor.shape())


def _split(spec: Spec, value: object, rows: Sequence[int], *, batching: bool) -> list[Any]:
    """An output's share of every request, as tensors of the Python backend."""
    whole, shape = checked(spec, value, batching=batching, rows=sum(rows))
    if spec.data_type == TEXT:
        array = np.array([text.encode() for text in whole], dtype=object).reshape(shape)
    else:
        tensor = whole.detach().cpu().contiguous().reshape(shape)
        if spec.data_type == "TYPE_BF16":
            return [
                pb.Tensor.from_bytes(spec.name, "BF16", part.shape, part.reshape(-1).view(torch.uint8).numpy())
                for part in (tensor.split(list(rows)) if batching else [tensor])
            ]
        array = tensor.numpy()
    if not batching:
        return [pb.Tensor(spec.name, array)]
    ends = np.cumsum(rows)[:-1]
    return [pb.Tensor(spec.name, part) for part in np.split(array, ends)]
