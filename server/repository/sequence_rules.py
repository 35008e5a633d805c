"""What the control inputs of ``sequence_batching`` must be like for a model to be told where in a sequence it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .problem import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...backends.api.model_config import Document, ModelConfig

_LISTS = ("int32_false_true", "fp32_false_true", "bool_false_true")
_CORRID = "CONTROL_SEQUENCE_CORRID"
_ID_TYPES = ("TYPE_UINT64", "TYPE_INT64", "TYPE_UINT32", "TYPE_INT32", "TYPE_STRING")


def controls(config: ModelConfig, batching: Document) -> Iterator[Problem]:
    """Names, kinds and values of the control tensors."""
    inputs = {spec.name for spec in config.inputs}
    names: set[str] = set()
    kinds: set[str] = set()
    for index, entry in enumerate(batching.get("control_input", ())):
        path = f"sequence_batching.control_input[{index}]"
        name = entry.get("name", "")
        if not name:
            yield Problem(path, f"sequence batching control tensor must have a name for {config.name}")
        elif name in names:
            sentence = f"sequence batching control tensor '{name}' is specified for multiple control kinds"
            yield Problem(path, f"{sentence} for {config.name}")
        elif name in inputs:
            sentence = f"sequence batching control tensor '{name}' is also an input of {config.name}"
            yield Problem(path, f"{sentence}; the server supplies it, so remove it from 'input'")
        names.add(name)
        yield from _entry(config, path, entry, kinds)


def _entry(config: ModelConfig, path: str, entry: Document, kinds: set[str]) -> Iterator[Problem]:
    tensor = f"sequence batching control tensor '{entry.get('name', '')}'"
    listed = entry.get("control", ())
    if not listed:
        sentence = f"{tensor} has no 'control' for {config.name}; give its kind, such as CONTROL_SEQUENCE_START"
        yield Problem(path, sentence)
    elif len(listed) > 1:
        yield Problem(path, f"{tensor} is specified for multiple control kinds for {config.name}")
    for number, control in enumerate(listed):
        yield from _control(config, f"{path}.control[{number}]", control, kinds)


def _control(config: ModelConfig, path: str, control: Document, kinds: set[str]) -> Iterator[Problem]:
    kind, name = control.get("kind", "CONTROL_SEQUENCE_START"), config.name
    if kind in kinds:
        yield Problem(path, f"sequence batching specifies multiple {kind} tensors for {name}")
    kinds.add(kind)
    given = [field for field in _LISTS if control.get(field)]
    if kind == _CORRID:
        datatype = control.get("data_type", "TYPE_INVALID")
        lists = "'int32_false_true', 'fp32_false_true' nor 'bool_false_true'"
        if given:
            yield Problem(path, f"sequence batching must not specify either {lists} for {kind} for {name}")
        if datatype not in _ID_TYPES:
            sentence = f"unexpected data type for control {kind} for {name}: {datatype}"
            yield Problem(f"{path}.data_type", f"{sentence}; use one of {', '.join(_ID_TYPES)}")
        return
    lists = "'int32_false_true', 'fp32_false_true' or 'bool_false_true'"
    if not given:
        yield Problem(path, f"sequence batching must specify either {lists} for {kind} for {name}")
    elif len(given) > 1:
        yield Problem(path, f"sequence batching specifies more than one from {lists} for {kind} for {name}")
    elif len(control[given[0]]) != 2:  # noqa: PLR2004  one value for false, one for true
        sentence = f"sequence batching control '{given[0]}' must have exactly 2 entries for {kind} for {name}"
        yield Problem(f"{path}.{given[0]}", f"{sentence}, not {len(control[given[0]])}")
