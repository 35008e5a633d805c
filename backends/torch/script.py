"""A TorchScript module in the server's process: loaded, its names bound, run. It releases the GIL while it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import torch

from ..api.errors import BackendFailure, LoadFailed
from .worker.modules import script_arguments
from .worker.naming import NamingError, bind_inputs, bind_outputs, pick

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from .worker.options import TorchOptions

_jit = cast("Any", torch.jit)
"""Has no annotations."""


class Script:
    """A loaded module. :meth:`run` may be called from several threads where the module keeps no state.

    ``changes_inputs`` says that an operator of it may write into its inputs. ``memory`` holds the addresses of its
    parameters and buffers, which an output may be a view of.
    """

    def __init__(
        self, model: str, module: torch.jit.ScriptModule, inputs: Sequence[str], outputs: Sequence[str]
    ) -> None:
        self._model = model
        self._names = tuple(outputs)
        self._binding = bind_inputs(model, inputs, script_arguments(module))
        self._places = bind_outputs(model, outputs)
        # The bound method of the module's own forward: nn.Module.__call__ looks for hooks, which none has.
        self._forward: Callable[..., Any] = module.forward
        self.changes_inputs = _writes(module)
        tensors = (*module.parameters(), *module.buffers())
        self.memory = frozenset(tensor.untyped_storage().data_ptr() for tensor in tensors)

    def run(self, feed: Mapping[str, Any]) -> list[Any]:
        """The configured outputs, in order. Raises BackendFailure with torch's reason, or with what does not fit."""
        args, kwargs = self._binding.call(feed)
        try:
            result = self._forward(*args, **kwargs)
        except Exception as exc:  # what a TorchScript module raises shares no base but Exception
            msg = f"PyTorch error in model '{self._model}': {exc}"
            raise BackendFailure(msg) from exc
        try:
            return pick(result, self._names, self._places)
        except NamingError as exc:
            msg = f"PyTorch error in model '{self._model}': {exc}"
            raise BackendFailure(msg) from exc


def open_script(
    model: str, path: Path, device: torch.device | None, inputs: Sequence[str], outputs: Sequence[str]
) -> Script:
    """Load a file onto a device (None: where the module puts itself). Blocking; releases the GIL for most of the time.

    Raises LoadFailed with the file and torch's reason.
    """
    try:
        module = cast("torch.jit.ScriptModule", _jit.load(path, map_location=device))
    except Exception as exc:  # torch raises RuntimeError, ValueError and others for files it cannot read
        msg = f"failed to load model '{model}' from '{path}': {exc}"
        raise LoadFailed(msg) from exc
    module.eval()
    try:
        return Script(model, module, inputs, outputs)
    except NamingError as exc:
        msg = f"failed to load model '{model}': {exc}"
        raise LoadFailed(msg) from exc


def mode(options: TorchOptions) -> Callable[[], Any]:
    """The context in which a model runs: no gradients, and in inference mode no bookkeeping for them either."""
    return torch.inference_mode if options.inference_mode else torch.no_grad


def unoptimized() -> Any:  # noqa: ANN401  a context manager
    """The context of DISABLE_OPTIMIZED_EXECUTION."""
    return _jit.optimized_execution(False)  # noqa: FBT003  torch's own signature


def _writes(module: torch.jit.ScriptModule) -> bool:
    """Whether any operator of forward(), however deep, writes into one of its arguments."""
    schemas = {schema for schema in _schemas(cast("Any", module).inlined_graph) if "!" in schema}
    return any(_writes_argument(schema) for schema in schemas)


def _schemas(block: Any) -> Iterator[str]:  # noqa: ANN401  a graph, or a block of one
    for node in block.nodes():
        yield node.schema()
        for inner in node.blocks():
            yield from _schemas(inner)


def _writes_argument(schema: str) -> bool:
    """Whether an operator's schema marks an argument as written, as in ``add_(Tensor(a!) self, …)``."""
    arguments, _, _ = schema.rpartition(" -> ")
    return "!" in arguments
