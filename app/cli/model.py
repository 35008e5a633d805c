"""``infer model …``: what a running server serves. Talks to the operator's door; changes are in ``model_changes``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...tui.client import Client, error_text, model_path
from ..changing import index, overview_of, state, when_ready
from ..failures import CommandError, ExitCode
from ..selection import is_glob, matching, nearest
from . import model_changes
from .options import Context, Model, Models, Output, Timeout, Url, Version
from .output import Format, print_json, print_table
from .target import CHANGE_WAIT_S, open_target
from .tree import Tree

if TYPE_CHECKING:
    from ...tui.snapshot import ModelSnapshot

_HEADINGS = {"Look": ("list", "ready", "metadata", "config", "stats"), "Change": ("load", "unload", "reload")}

app = Tree(
    name="model",
    headings=_HEADINGS,
)
model_changes.register(app)

Row = dict[str, Any]


@app.callback()
def model() -> None:
    """Look at the models of a running server, load and unload them.

    Examples:
    infer model list
    infer model load simple
    infer model metadata simple
    """


@app.command("list")
def list_models(
    names: Models = None,
    *,
    ready: Annotated[bool, typer.Option("--ready", help="Only those that are ready.")] = False,
    url: Url = None,
    context: Context = None,
    timeout: Timeout = None,
    output: Output = None,
) -> None:
    """List models, versions, states and reasons.

    Examples:
    infer model list
    infer model list 'dig*' --ready
    infer model list -o name
    """
    target = open_target(url, context, timeout, output)
    rows = _chosen(index(target.client, ready_only=ready), names or [])
    if target.output is Format.JSON:
        print_json(rows)
    elif target.output is Format.NAME:
        for name in dict.fromkeys(str(row["name"]) for row in rows):
            print(name)
    else:
        cells = [[str(row.get(key, "")) for key in ("name", "version", "state", "reason")] for row in rows]
        print_table(("MODEL", "VERSION", "STATE", "REASON"), cells)


def _chosen(rows: list[Row], patterns: list[str]) -> list[Row]:
    """The rows of the models meant. A name that is none of them is not found; a glob may fit nothing."""
    if not patterns:
        return rows
    known = [str(row["name"]) for row in rows]
    for pattern in patterns:
        if not is_glob(pattern) and pattern not in known:
            raise not_found(pattern, known, "the server's index does not hold it")
    wanted = {name for pattern in patterns for name in ((pattern,) if pattern in known else matching(pattern, known))}
    return [row for row in rows if row["name"] in wanted]


def not_found(name: str, known: list[str], why: str, version: str = "") -> CommandError:
    """The failure of naming a model or a version that is not there."""
    near = nearest(name, known) if name not in known else ""
    fix = (
        f"did you mean '{near}'? see what is there: infer model list" if near else "see what is there: infer model list"
    )
    what = f"version {version} of model '{name}'" if version else f"model '{name}'"
    return CommandError(f"there is no {what}", why, fix, code=ExitCode.NOT_FOUND)


@app.command()
def ready(
    name: Model,
    version: Version = "",
    *,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until it is, for --timeout seconds at most.")] = False,
    url: Url = None,
    context: Context = None,
    timeout: Timeout = None,
    output: Output = None,
) -> None:
    """Tell whether a model is ready: exit code 0 yes, 4 not ready, 3 unknown.

    Examples:
    infer model ready simple
    infer model ready simple --wait --timeout 60 && echo go
    """
    target = open_target(url, context, timeout, output, wait_s=CHANGE_WAIT_S if wait else 30.0)
    reply = when_ready(target.client, name, version, target.wait_s if wait else 0.0)
    all_rows = index(target.client)
    rows = [row for row in all_rows if row["name"] == name and version in ("", str(row.get("version", "")))]
    if target.output is Format.JSON:
        print_json({"name": name, "ready": reply.ok, "versions": rows})
    if not rows and not reply.ok:
        raise not_found(name, [str(row["name"]) for row in all_rows], error_text(reply), version)
    if not reply.ok:
        reasons = "; ".join(state(row) for row in rows)
        fix = f"wait for it: infer model ready {name} --wait   or load it: infer model load {name}"
        raise CommandError(f"model '{name}' is not ready", reasons, fix, code=ExitCode.NOT_READY)
    if target.output is Format.NAME:
        print(name)
    elif target.output is Format.TABLE:
        print(f"{name} is ready")


@app.command()
def metadata(
    name: Model,
    version: Version = "",
    *,
    url: Url = None,
    context: Context = None,
    timeout: Timeout = None,
    output: Output = None,
) -> None:
    """Print a model's inputs and outputs.

    Examples:
    infer model metadata simple
    infer model metadata simple -o json
    """
    target = open_target(url, context, timeout, output)
    document: Row = target.client.get(model_path(name, version))
    if target.output is Format.JSON:
        print_json(document)
    elif target.output is Format.NAME:
        print(document["name"])
    else:
        versions = ", ".join(str(number) for number in document.get("versions", []))
        print(f"{document['name']}  platform {document.get('platform', '')}  versions {versions}\n")
        cells = [
            [tensor["name"], direction[:-1], tensor["datatype"], str(tensor["shape"])]
            for direction in ("inputs", "outputs")
            for tensor in document.get(direction, [])
        ]
        print_table(("TENSOR", "DIRECTION", "DATATYPE", "SHAPE"), cells)


@app.command()
def config(
    name: Model,
    version: Version = "",
    *,
    url: Url = None,
    context: Context = None,
    timeout: Timeout = None,
    output: Output = None,
) -> None:
    """Print a model's configuration as it is in force, what was filled in included.

    Examples:
    infer model config simple
    infer model config simple -o table
    """
    target = open_target(url, context, timeout, output, form=Format.JSON)
    document: Row = target.client.get(model_path(name, version, "/config"))
    if target.output is Format.JSON:
        print_json(document)
    elif target.output is Format.NAME:
        print(document["name"])
    else:
        print_table(("KEY", "VALUE"), [[key, str(value)] for key, value in document.items() if value not in ("", [])])


@app.command()
def stats(
    name: Annotated[str, typer.Argument(metavar="[MODEL]", help="One model; all where not given.")] = "",
    version: Version = "",
    *,
    url: Url = None,
    context: Context = None,
    timeout: Timeout = None,
    output: Output = None,
) -> None:
    """Print counts, mean times and percentiles of requests since each model was loaded. Times are in microseconds.

    Examples:
    infer model stats
    infer model stats simple -o json
    """
    target = open_target(url, context, timeout, output)
    path = model_path(name, version, "/stats") if name else "/v2/models/stats"
    document: Row = target.client.get(path)
    models: list[Row] = document.get("model_stats", [])
    if target.output is Format.JSON:
        print_json(document)
    elif target.output is Format.NAME:
        for found in dict.fromkeys(str(row["name"]) for row in models):
            print(found)
    else:
        known = _known_to_us(target.client)
        head = (
            "MODEL",
            "VERSION",
            "REQUESTS",
            "FAILED",
            "ROWS",
            "EXECUTIONS",
            "QUEUE",
            "COMPUTE",
            "MEAN",
            "P50",
            "P99",
            "LIMITED BY",
        )
        print_table(head, [_stats_cells(row, known) for row in models])


def _known_to_us(client: Client) -> dict[tuple[str, str], tuple[str, str, str]]:
    """p50, p99 and what mostly kept batches small, of each version and as far as the server counts it."""
    from ...tui.rates import percentile

    overview = overview_of(client)
    models = overview.models if overview else ()
    return {
        row.key: (figure(percentile(row.latency, 0.5)), figure(percentile(row.latency, 0.99)), _main_limit(row))
        for row in models
    }


def _main_limit(row: ModelSnapshot) -> str:
    """The most frequent reason for which batches were no larger; empty without a batcher."""
    return next((f"{reason} {share * 100:.0f} %" for reason, share in row.limit_shares), "")


def _stats_cells(row: Row, known: dict[tuple[str, str], tuple[str, str, str]]) -> list[str]:
    phases: dict[str, dict[str, int]] = row["inference_stats"]
    return [
        row["name"],
        str(row["version"]),
        str(phases["success"]["count"]),
        str(phases["fail"]["count"]),
        str(row["inference_count"]),
        str(row["execution_count"]),
        _mean(phases["queue"]),
        _mean(phases["compute_infer"]),
        _mean(phases["success"]),
        *known.get((row["name"], str(row["version"])), ("", "", "")),
    ]


def figure(value: float | None) -> str:
    """A number for a column; empty for none."""
    return "" if value is None else f"{value:.0f}"


def _mean(duration: dict[str, int]) -> str:
    """Mean microseconds of a duration, or nothing where it never happened."""
    return f"{duration['ns'] / duration['count'] / 1000:.0f}" if duration["count"] else ""
