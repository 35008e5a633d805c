"""What a person sees of a server that has started: models, states, reasons, addresses, and a command that works.

Pure functions from snapshots to text; no colours, so that a log file shows the same.
"""

from __future__ import annotations

import math
import shlex
from typing import TYPE_CHECKING, Any

from ..server.addresses import WILDCARDS, host_and_port
from ..tui.curl import infer_command

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ..backends.api.model_config import TensorSpec
    from ..server.lifecycle.signature import ModelSignature
    from ..server.lifecycle.states import IndexEntry

_SAMPLE = "simple"
_MOST_ELEMENTS = 256
"""An example with more numbers is no example; a model with larger inputs is not offered."""

_NOT_IN_JSON = ("FP16", "BF16")
"""Datatypes that have no JSON form in the protocol."""


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Columns as wide as their widest cell, two spaces apart. A line break in a cell starts a line in its column."""
    lines: list[list[str]] = [list(head)]
    for row in rows:
        cells = [cell.splitlines() or [""] for cell in row]
        height = max(len(cell) for cell in cells)
        lines += [[cell[line] if line < len(cell) else "" for cell in cells] for line in range(height)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )


def model_table(index: Iterable[IndexEntry]) -> str:
    """The table of models, versions, states and reasons."""
    rows = [(entry.name, entry.version or "-", entry.state or "not loaded", entry.reason) for entry in index]
    return table(("MODEL", "VERSION", "STATE", "REASON"), rows) if rows else "No models."


def base_url(address: tuple[str, int]) -> str:
    """A URL that reaches a listening address from this machine."""
    return f"http://{host_and_port(address)}"


def start_page(
    index: Sequence[IndexEntry],
    signatures: Mapping[str, ModelSignature],
    *,
    http: tuple[str, int] | None,
    operator: tuple[str, int] | None,
    grpc: tuple[str, int] | None = None,
) -> str:
    """The page that a started server prints. ``signatures`` are those of the models that are ready, by name."""
    addresses: list[tuple[str, str]] = []
    if http is not None:
        addresses.append(("inference", f"{base_url(http)}/v2{_everywhere(http)}"))
    if grpc is not None:
        addresses.append(("grpc", f"{host_and_port(grpc)}{_everywhere(grpc)}"))
    if operator is not None:
        addresses.append(("metrics", f"{base_url(operator)}/metrics{_everywhere(operator)}"))
    parts = [model_table(index), table(("DOOR", "ADDRESS"), addresses) if addresses else "No doors."]
    if http is not None:
        parts.append(f"Try it:\n{example_command(base_url(http), signatures)}")
    return "\n\n".join(parts)


def _everywhere(address: tuple[str, int]) -> str:
    return "  (on every network interface)" if address[0] in WILDCARDS else ""


def example_command(url: str, signatures: Mapping[str, ModelSignature]) -> str:
    """A curl command that works now: an inference where a model's inputs are small enough to show."""
    sizes = {name: _elements(signature) for name, signature in signatures.items()}
    fitting = [name for name, size in sizes.items() if size is not None and size <= _MOST_ELEMENTS]
    if fitting:
        name = _SAMPLE if _SAMPLE in fitting else min(fitting, key=lambda fit: (sizes[fit] or 0, fit))
        return infer_command(url, f"/v2/models/{name}/infer", example_request(signatures[name]))
    if signatures:
        return f"curl -s {shlex.quote(f'{url}/v2/models/{min(signatures)}')}"
    return f"curl -s {url}/v2"


def example_request(signature: ModelSignature) -> dict[str, Any]:
    """A request document with small made-up values for every required input."""
    inputs: list[dict[str, Any]] = []
    for spec in _required(signature):
        shape = _shape(signature, spec)
        data = _values(str(spec.datatype), math.prod(shape))
        inputs.append({"name": spec.name, "shape": shape, "datatype": str(spec.datatype), "data": data})
    return {"inputs": inputs}


def _required(signature: ModelSignature) -> list[TensorSpec]:
    return [spec for spec in signature.inputs.values() if not spec.optional]


def _shape(signature: ModelSignature, spec: TensorSpec) -> list[int]:
    return [size if size >= 0 else 1 for size in signature.full_shape(spec)]


def _elements(signature: ModelSignature) -> int | None:
    """How many values an example needs; None where JSON cannot carry it or the model answers in a stream."""
    specs = [*_required(signature), *signature.outputs.values()]
    if signature.decoupled or any(str(spec.datatype) in _NOT_IN_JSON for spec in specs):
        return None
    return sum(math.prod(_shape(signature, spec)) for spec in _required(signature))


def _values(datatype: str, count: int) -> list[Any]:
    if datatype == "BYTES":
        return [f"text {number}" for number in range(count)]
    if datatype == "BOOL":
        return [bool(number % 2) for number in range(count)]
    if datatype.startswith("FP"):
        return [float(number) for number in range(count)]
    return [number % 128 for number in range(count)]
