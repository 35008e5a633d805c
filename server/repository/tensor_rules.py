"""Rules for inputs, outputs, and the tensors computed for a batch. Pure."""

from __future__ import annotations

import itertools
from math import prod
from typing import TYPE_CHECKING

from .problem import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ...backends.api.model_config import Document, ModelConfig, TensorSpec

_IMAGE_DIMS = 3


def tensors(config: ModelConfig) -> Iterator[Problem]:
    """Names, datatypes, dims, reshapes and formats of inputs and outputs."""
    for kind, specs in (("input", config.inputs), ("output", config.outputs)):
        entries: Sequence[Document] = config.document.get(kind, ())
        typed = [index for index, entry in enumerate(entries) if entry["data_type"] != "TYPE_INVALID"]
        yield from _untyped(config.name, kind, entries)
        seen: set[str] = set()
        for index, spec in zip(typed, specs, strict=True):
            label = f"model {kind} '{spec.name}'" if spec.name else f"model {kind}"
            path = f"{kind}[{index}]"
            place = f"for {config.name} ({path})"
            for field, phrase in _tensor(config, spec):
                yield Problem(f"{path}.{field}", f"{label} {phrase} {place}")
            if spec.name in seen:
                yield Problem(f"{path}.name", f"{label} is declared twice {place}; give each {kind} a name of its own")
            seen.add(spec.name)
            for field, sentence in _formats(config, spec, entries[index], label):
                yield Problem(f"{path}.{field}", f"{sentence} {place}")


def _untyped(name: str, kind: str, entries: Sequence[Document]) -> Iterator[Problem]:
    """The inputs or outputs that neither the configuration nor the model itself has given a type."""
    for index, entry in enumerate(entries):
        if entry["data_type"] == "TYPE_INVALID":
            label = f"'{entry['name']}' " if entry["name"] else ""
            path = f"{kind}[{index}].data_type"
            sentence = f"model {kind} {label}must specify 'data_type' for {name} ({path}, one of "
            yield Problem(path, f"{sentence}TYPE_FP32, TYPE_INT32, TYPE_STRING, …)")


def _tensor(config: ModelConfig, spec: TensorSpec) -> Iterator[tuple[str, str]]:
    """What is wrong with one input or output: the field, and a phrase without the tensor's label and place."""
    if not spec.name:
        yield "name", "must specify 'name'"
    if not spec.dims:
        yield "dims", "must specify 'dims'"
    for dim in spec.dims:
        if dim < 1 and dim != -1:
            wanted = "dimension must be integer >= 1, or -1 to indicate a variable-size dimension"
            yield "dims", f"{wanted}, not {dim},"
    if spec.reshape is not None:
        phrase = _reshape(config, spec.dims, spec.reshape)
        if phrase:
            yield "reshape", phrase


def _reshape(config: ModelConfig, dims: Sequence[int], reshape: Sequence[int]) -> str:
    """What is wrong with a reshape, or ""."""
    for dim in reshape:
        if dim < 1 and dim != -1:
            wanted = "reshape dimensions must be integer >= 1, or -1 to indicate a variable-size dimension"
            return f"{wanted}, not {dim},"
    if not reshape and config.max_batch_size == 0:
        return "cannot have empty reshape for non-batching model as scalar tensors are not supported"
    before, after = _segments(dims), _segments(reshape)
    both = f"dims {list(dims)} and reshape {list(reshape)}"
    if len(before) != len(after) and len(before) > 1 and len(after) > 1:
        return f"has different number of variable-size dimensions for {both}"
    return f"has different size for {both}" if before != after else ""


def _segments(dims: Sequence[int]) -> list[int]:
    """Element counts between the variable-size dimensions."""
    segments: list[list[int]] = [[]]
    for dim in dims:
        if dim == -1:
            segments.append([])
        else:
            segments[-1].append(dim)
    return [prod(segment) for segment in segments]


def _formats(config: ModelConfig, spec: TensorSpec, entry: Document, label: str) -> Iterator[tuple[str, str]]:
    tensorrt = config.platform == "tensorrt_plan"
    if entry.get("format", "FORMAT_NONE") != "FORMAT_NONE" and len(spec.dims) != _IMAGE_DIMS:
        yield "format", f"model input NHWC/NCHW require 3 dims, {label} has {len(spec.dims)},"
    if spec.is_shape_tensor and not tensorrt:
        yield "is_shape_tensor", f"{label}: shape tensors are only supported for TensorRT platform,"
    if entry.get("is_non_linear_format_io", False):
        if not tensorrt:
            yield "is_non_linear_format_io", f"{label}: Non-linear IO format is only supported for TensorRT platform,"
        elif len(spec.dims) != _IMAGE_DIMS:
            yield "dims", f"{label}: Non-linear IO format requires 3 dims, not {len(spec.dims)},"


def batch_inputs(config: ModelConfig) -> Iterator[Problem]:
    """Inputs that are computed for each batch."""
    names = {spec.name for spec in config.inputs}
    taken = set(names)
    for index, entry in enumerate(config.document.get("batch_input", ())):
        path = f"batch_input[{index}]"
        kind, sources, datatype = entry.get("kind", ""), entry.get("source_input", []), entry.get("data_type", "")
        if datatype not in ("TYPE_INT32", "TYPE_FP32"):
            wanted = "batch input data type must be TYPE_INT32 or TYPE_FP32"
            yield Problem(f"{path}.data_type", f"{wanted} for {config.name}, not {datatype}")
        yield from _sources(config, f"batch input kind '{kind}'", path, sources, names)
        for target in entry.get("target_name", ()):
            if target in taken:
                sentence = f"target input name '{target}' in batch_input of {config.name} is the name of another input"
                yield Problem(f"{path}.target_name", f"{sentence}; clients send an input, or it is computed")
            taken.add(target)


def batch_outputs(config: ModelConfig) -> Iterator[Problem]:
    """Outputs that are split by the shapes of an input."""
    inputs, outputs = {spec.name for spec in config.inputs}, {spec.name for spec in config.outputs}
    seen: set[str] = set()
    for index, entry in enumerate(config.document.get("batch_output", ())):
        path = f"batch_output[{index}]"
        for target in entry.get("target_name", ()):
            where = f"in batch_output of {config.name}"
            if target not in outputs:
                sentence = f"unknown target output name '{target}' {where}; {_declared(outputs)}"
                yield Problem(f"{path}.target_name", sentence)
            if target in seen:
                sentence = f"target output name '{target}' can only be specified once, {where}"
                yield Problem(f"{path}.target_name", sentence)
            seen.add(target)
        kind = entry.get("kind", "")
        yield from _sources(config, f"batch output kind '{kind}'", path, entry.get("source_input", []), inputs)
    yield from _reach(config)


def _reach(config: ModelConfig) -> Iterator[Problem]:
    """Variable-size dimensions of batch outputs that their source input does not have."""
    ranks = {spec.name: len(_inside(spec)) for spec in config.inputs}
    dims = {spec.name: _inside(spec) for spec in config.outputs}
    for index, entry in enumerate(config.batch_outputs):
        for source, target in itertools.product(entry.source_inputs, entry.target_names):
            if source in ranks and -1 in dims.get(target, ())[ranks[source] :]:
                sentence = (
                    f"batch output '{target}' of {config.name} takes the variable sizes of its dims "
                    f"{list(dims[target])} from input '{source}', which has {ranks[source]} dims; give the sizes"
                )
                yield Problem(f"batch_output[{index}].source_input", sentence)


def _inside(spec: TensorSpec) -> tuple[int, ...]:
    """The dims that the backend sees."""
    return spec.dims if spec.reshape is None else spec.reshape


def _sources(config: ModelConfig, what: str, path: str, sources: Sequence[str], inputs: set[str]) -> Iterator[Problem]:
    field = f"{path}.source_input"
    if len(sources) != 1:
        yield Problem(field, f"{what} expects 1 source input, got {len(sources)} for {config.name}")
    for source in sources:
        if source not in inputs:
            where = f"in {path.partition('[')[0]} of {config.name}"
            yield Problem(field, f"unknown source input name '{source}' {where}; {_declared(inputs)}")


def _declared(names: set[str]) -> str:
    return f"declared are: {', '.join(sorted(names)) or 'none'}"
