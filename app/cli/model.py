"""``infer model …``: what a running server serves, and changing it. Talks to the operator's door."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from ...tui.client import OPERATOR_URL, Client, control_path, error_text, model_path
from ..failures import CommandError, ExitCode
from .output import Format, print_json, print_table

app = typer.Typer(
    name="model", help="Look at the models of a running server, load and unload them.", no_args_is_help=True
)

Url = Annotated[str, typer.Option("--url", envvar="INFER_URL", help="The server's operator port.")]
Timeout = Annotated[float, typer.Option("--timeout", help="Seconds to wait for an answer.")]
Output = Annotated[Format, typer.Option("-o", "--output", help="How to print it.")]
Name = Annotated[str, typer.Argument(metavar="MODEL", help="The model's name.")]
Version = Annotated[str, typer.Option("--version", help="One version, by its number.")]
Row = dict[str, Any]


@app.command("list")
def list_models(
    *,
    ready: Annotated[bool, typer.Option("--ready", help="Only those that are ready.")] = False,
    url: Url = OPERATOR_URL,
    timeout: Timeout = 30.0,
    output: Output = Format.TABLE,
) -> None:
    """List models, versions, states and reasons."""
    rows = _index(Client(url, timeout), ready_only=ready)
    if output is Format.JSON:
        print_json(rows)
    elif output is Format.NAME:
        for name in dict.fromkeys(str(row["name"]) for row in rows):
            print(name)
    else:
        cells = [[str(row.get(key, "")) for key in ("name", "version", "state", "reason")] for row in rows]
        print_table(("MODEL", "VERSION", "STATE", "REASON"), cells)


@app.command()
def ready(
    name: Name,
    version: Version = "",
    url: Url = OPERATOR_URL,
    timeout: Timeout = 30.0,
    output: Output = Format.TABLE,
) -> None:
    """Tell whether a model is ready: exit code 0 yes, 4 not ready, 3 unknown."""
    client = Client(url, timeout)
    reply = client.request("GET", model_path(name, version, "/ready"))
    rows = [row for row in _index(client) if row["name"] == name and version in ("", str(row.get("version", "")))]
    if output is Format.JSON:
        print_json({"name": name, "ready": reply.ok, "versions": rows})
    if not rows and not reply.ok:
        wanted = f"version {version} of model '{name}'" if version else f"model '{name}'"
        raise CommandError(
            f"there is no {wanted}", error_text(reply), "see what is there: infer model list", code=ExitCode.NOT_FOUND
        )
    if not reply.ok:
        reasons = "; ".join(_state(row) for row in rows)
        raise CommandError(f"model '{name}' is not ready", reasons, code=ExitCode.NOT_READY)
    if output is Format.NAME:
        print(name)
    elif output is Format.TABLE:
        print(f"{name} is ready")


@app.command()
def metadata(
    name: Name,
    version: Version = "",
    url: Url = OPERATOR_URL,
    timeout: Timeout = 30.0,
    output: Output = Format.TABLE,
) -> None:
    """Print a model's inputs and outputs."""
    document: Row = Client(url, timeout).get(model_path(name, version))
    if output is Format.JSON:
        print_json(document)
    elif output is Format.NAME:
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
    name: Name,
    version: Version = "",
    url: Url = OPERATOR_URL,
    timeout: Timeout = 30.0,
    output: Output = Format.JSON,
) -> None:
    """Print a model's configuration as it is in force, what was filled in included."""
    document: Row = Client(url, timeout).get(model_path(name, version, "/config"))
    if output is Format.JSON:
        print_json(document)
    elif output is Format.NAME:
        print(document["name"])
    else:
        print_table(("KEY", "VALUE"), [[key, str(value)] for key, value in document.items() if value not in ("", [])])


@app.command()
def stats(
    name: Annotated[str, typer.Argument(metavar="[MODEL]", help="One model; all where not given.")] = "",
    version: Version = "",
    url: Url = OPERATOR_URL,
    timeout: Timeout = 30.0,
    output: Output = Format.TABLE,
) -> None:
    """Print counts and mean times of requests."""
    path = model_path(name, version, "/stats") if name else "/v2/models/stats"
    document: Row = Client(url, timeout).get(path)
    models: list[Row] = document.get("model_stats", [])
    if output is Format.JSON:
        print_json(document)
    elif output is Format.NAME:
        for found in dict.fromkeys(str(row["name"]) for row in models):
            print(found)
    else:
        head = ("MODEL", "VERSION", "REQUESTS", "FAILED", "ROWS", "EXECUTIONS", "QUEUE µs", "COMPUTE µs", "REQUEST µs")
        print_table(head, [_stats_cells(row) for row in models])


@app.command()
def load(
    name: Name,
    *,
    config: Annotated[
        str,
        typer.Option(
            "--config",
            metavar="FILE|JSON",
            help="A whole configuration in place of config.pbtxt: JSON, or a file of it (.json, .pbtxt).",
        ),
    ] = "",
    files: Annotated[
        list[str] | None,
        typer.Option(
            "--file",
            metavar="PATH=LOCAL",
            help="A local file as PATH of the model (1/model.onnx=new.onnx); these are all its files. Repeatable.",
        ),
    ] = None,
    url: Url = OPERATOR_URL,
    timeout: Timeout = 600.0,
    output: Output = Format.TABLE,
) -> None:
    """Load a model, or what changed of it; what served before serves until then, and on where it fails.

    Examples: infer model load m · infer model load m --config '{"backend": "python", …}'
    """
    from .overrides import load_parameters

    client = Client(url, timeout)
    parameters = load_parameters(config, files or [])
    client.post(control_path(name, "load"), {"parameters": parameters} if parameters else {})
    _print_change(client, name, output)


@app.command()
def unload(name: Name, url: Url = OPERATOR_URL, timeout: Timeout = 600.0, output: Output = Format.TABLE) -> None:
    """Stop serving a model and wait until its last request is answered; an unknown model is no error."""
    client = Client(url, timeout)
    client.post(control_path(name, "unload"), {})
    _print_change(client, name, output)


def _print_change(client: Client, name: str, output: Format) -> None:
    """What the index says of a model after a change."""
    rows = [row for row in _index(client) if row["name"] == name]
    if output is Format.JSON:
        print_json(rows)
    elif output is Format.NAME:
        print(name)
    else:
        print(f"{name}  " + ("; ".join(_state(row) for row in rows) or "not loaded"))


def _index(client: Client, *, ready_only: bool = False) -> list[Row]:
    rows: list[Row] = client.post("/v2/repository/index", {"ready": True} if ready_only else {})
    return rows


def _state(row: Row) -> str:
    """One version's state as a phrase."""
    words = f"version {row['version']} " if row.get("version") else ""
    words += row.get("state", "not loaded")
    return f"{words}: {row['reason']}" if row.get("reason") else words


def _stats_cells(row: Row) -> list[str]:
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
    ]


def _mean(duration: dict[str, int]) -> str:
    """Mean microseconds of a duration, or nothing where it never happened."""
    return f"{duration['ns'] / duration['count'] / 1000:.0f}" if duration["count"] else ""
