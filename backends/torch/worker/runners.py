"""What executes in a worker: one ``run(feed)`` over a ``model.py``, TorchScript, an exported program or a package."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import torch
import torch.utils._pytree as pytree

from . import leaves, naming
from .archive import Format, format_of, package_models
from .modules import CODE, ModuleError, load_module, python_arguments, script_arguments
from .naming import Argument, NamingError, bind_inputs, bind_outputs

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from .options import TorchOptions
    from .values import Spec

    Run = Callable[[Mapping[str, Any]], list[Any]]
    """Named inputs in, the configured outputs in their order out."""

_TOO_FEW_ROWS = "dim value is too small at 0, expected it to be >= 2, but got: 1"


@dataclass(frozen=True, slots=True)
class Request:
    """What to open: the model's name, its tensors, its options, and the device (None: where the model puts itself).

    ``batching`` says that the first dimension of all tensors is the batch.
    """

    model: str
    inputs: tuple[Spec, ...]
    outputs: tuple[Spec, ...]
    options: TorchOptions
    device: torch.device | None = None
    batching: bool = False

    @property
    def input_names(self) -> list[str]:
        """The configured inputs, in order."""
        return [spec.name for spec in self.inputs]

    @property
    def output_names(self) -> list[str]:
        """The configured outputs, in order."""
        return [spec.name for spec in self.outputs]


def candidates(filename: str) -> tuple[str, ...]:
    """The files that may be the model, the first one first: the configured name, then Triton's two."""
    return tuple(dict.fromkeys(name for name in (filename, "model.py", "model.pt") if name))


def find(folder: Path, filename: str) -> Path:
    """The file of a version folder that is the model; a state dict is not, it belongs to a ``model.py``.

    Raises ModuleError naming the places looked at.
    """
    for name in candidates(filename):
        path = folder / name
        if path.is_file() and (path.suffix == CODE or format_of(path) is not Format.WEIGHTS):
            return path
    names = ", ".join(f"'{name}'" for name in candidates(filename))
    msg = f"no model found in '{folder}': looked for {names}; a state dict alone needs its 'model.py' beside it"
    raise ModuleError(msg)


def open_model(path: Path, request: Request) -> Run:
    """Load a file. Raises ModuleError, NamingError or ArchiveError; what torch raises passes."""
    if path.suffix == CODE:
        module = load_module(path)
        return _module(module, request, python_arguments(module.forward, len(request.inputs)))
    found = format_of(path)
    if found is Format.TORCHSCRIPT:
        module = cast("Any", torch.jit).load(path, map_location=request.device)
        return _module(module, request, script_arguments(module))
    if found is Format.EXPORTED:
        return _program(path, request)
    if found is Format.PACKAGE:
        return _package(path, request)
    msg = f"'{path}' holds {found.value}, which needs a 'model.py' with its torch.nn.Module beside it"
    raise ModuleError(msg)


def _module(module: torch.nn.Module, request: Request, arguments: Sequence[Argument]) -> Run:
    module.eval()
    if request.device is not None:
        module.to(request.device)
    names = request.output_names
    binding = bind_inputs(request.model, request.input_names, arguments)
    places = bind_outputs(request.model, names)
    called: Any = module
    if request.options.compile is not None:
        called = cast("Any", torch).compile(module, **request.options.compile)

    def run(feed: Mapping[str, Any]) -> list[Any]:
        args, kwargs = binding.call(feed)
        return naming.pick(called(*args, **kwargs), names, places)

    return run


def _program(path: Path, request: Request) -> Run:
    """An exported program, as the module that it is the trace of."""
    program = torch.export.load(path)
    if request.device is not None:
        from torch.export.passes import move_to_device_pass  # noqa: PLC0415  where a device is asked for only

        program = move_to_device_pass(program, request.device)
    in_spec: Any = program.call_spec.in_spec
    out_spec: Any = program.call_spec.out_spec
    module = program.module()
    names = [argument.name for argument in python_arguments(module.forward, 0)]

    def call(flat: list[Any]) -> list[Any]:
        args, kwargs = pytree.tree_unflatten(flat, in_spec)
        return pytree.tree_leaves(module(*args, **kwargs))

    return _tree(request, in_spec, out_spec, names, call)


def _package(path: Path, request: Request) -> Run:
    """An AOTInductor package. Its code trusts the shapes it is given, so its own check of them is switched on."""
    os.environ.setdefault("AOTI_RUNTIME_CHECK_INPUTS", "1")
    models = package_models(path)
    if "model" not in models and len(models) != 1:
        msg = f"'{path}' holds several models ({', '.join(models)}), and none of them is called 'model'"
        raise ModuleError(msg)
    name = "model" if "model" in models else models[0]
    index = request.device.index if request.device is not None and request.device.type == "cuda" else -1
    loader = cast("Any", torch._C)._aoti.AOTIModelPackageLoader(str(path), name, False, 1, index)  # noqa: SLF001, FBT003  # pyright: ignore[reportPrivateUsage]
    device = str(loader.get_metadata().get("AOTI_DEVICE_KEY", "cpu"))
    wanted = request.device.type if request.device is not None else device
    if device != wanted:
        kind = "KIND_GPU" if device == "cuda" else "KIND_CPU"
        msg = f"'{path}' was compiled for {device}, and its instance runs on {wanted}; set kind: {kind}"
        raise ModuleError(msg)
    in_spec, out_spec = (pytree.treespec_loads(text) for text in loader.get_call_spec())
    call = _AtLeastTwoRows(loader.boxed_run) if request.batching else loader.boxed_run
    return _tree(request, in_spec, out_spec, (), call)


class _AtLeastTwoRows:
    """A package that batches, for batches of one row too.

    torch compiles a variable dimension for two and more, and the package's check refuses one whatever range the export
    named. Such a package gets the row twice, once it has said so; what it makes of the second is dropped.
    """

    def __init__(self, call: Callable[[list[torch.Tensor]], list[torch.Tensor]]) -> None:
        self._call = call
        self._doubles = False

    def __call__(self, flat: list[torch.Tensor]) -> list[torch.Tensor]:
        """Call the package; a copy of the list is handed over, because it is emptied."""
        if any(tensor.shape[:1] != (1,) for tensor in flat):
            return self._call(list(flat))
        if not self._doubles:
            try:
                return self._call(list(flat))
            except RuntimeError as exc:
                if _TOO_FEW_ROWS not in str(exc):
                    raise
            self._doubles = True
        return [tensor[:1] for tensor in self._call([torch.cat((tensor, tensor)) for tensor in flat])]


def _tree(
    request: Request,
    in_spec: Any,  # noqa: ANN401  pytree's
    out_spec: Any,  # noqa: ANN401  pytree's
    arguments: Sequence[str],
    call: Callable[[list[Any]], list[Any]],
) -> Run:
    """A model that takes all tensors of its arguments' tree, in order, and gives all of its result's."""
    paths = leaves.input_paths(pytree.tree_unflatten(list(range(in_spec.num_leaves)), in_spec), arguments)
    places = leaves.bind(request.model, "input", request.input_names, paths)
    order = [name for _, name in sorted(zip(places, request.input_names, strict=True))]
    names = request.output_names
    bind_outputs(request.model, names[:1])
    results = leaves.output_paths(pytree.tree_unflatten(list(range(out_spec.num_leaves)), out_spec))
    chosen = leaves.bind(request.model, "output", names, results)

    def run(feed: Mapping[str, Any]) -> list[Any]:
        missing = [name for name in order if name not in feed]
        if missing:
            msg = f"input '{missing[0]}' is not in the request, and the model has no default for it"
            raise NamingError(msg)
        values = call([feed[name] for name in order])
        return [values[place] for place in chosen]

    return run
