"""``infer call MODEL``: one inference from the terminal."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from ...tui.client import INFERENCE_URL, Client
from .output import Format, print_json

Inputs = Annotated[
    list[str] | None,
    typer.Option("-i", "--input", metavar="NAME=VALUE", help="JSON ([1,2], 0.5, text) or @FILE.npy. Repeatable."),
]


def register(app: typer.Typer) -> None:
    """Add the command to the tree."""
    app.command()(call)


def call(
    name: Annotated[str, typer.Argument(metavar="MODEL", help="The model's name.")],
    inputs: Inputs = None,
    version: Annotated[str, typer.Option("--version", help="One version, by its number.")] = "",
    request_id: Annotated[str, typer.Option("--id", help="The request's id.")] = "",
    *,
    curl: Annotated[bool, typer.Option("--curl", help="Print the curl command that does the same.")] = False,
    url: Annotated[str, typer.Option("--url", envvar="INFER_HTTP_URL", help="The server's HTTP port.")] = INFERENCE_URL,
    timeout: Annotated[float, typer.Option("--timeout", help="Seconds to wait for the answer.")] = 60.0,
    output: Annotated[Format, typer.Option("-o", "--output", help="How to print it.")] = Format.TABLE,
) -> None:
    """Call a model. Shapes and datatypes come from its metadata.

    Without -i the inputs are read from standard input: {"NAME": VALUE, …}, or a whole request document.

    Examples: infer call simple -i 'INPUT0=[1,2,…]' -i INPUT1=@second.npy · echo '{"INPUT0": [1,2]}' | infer call m
    """
    from ...tui import inference  # numpy comes with it

    client = Client(url, timeout)
    given = inference.from_options(inputs) if inputs else inference.from_stdin(sys.stdin)
    request = inference.prepare(client, name, version, given, request_id)
    answer = request.send()
    if curl:
        print(request.curl(), file=sys.stderr)
    if output is Format.JSON:
        print_json(answer.document())
    elif output is Format.NAME:
        for tensor in answer.tensors:
            print(tensor.name)
    else:
        print(answer.text())
