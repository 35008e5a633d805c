"""The options that commands share, each declared once. None stands for what the configuration says."""

from __future__ import annotations

from typing import Annotated

import typer

from ..client_settings import BY_NAME
from .completion import context_names, model_names
from .output import Format


def _help(name: str, text: str = "") -> str:
    """A setting's help, and its variable."""
    setting = BY_NAME[name]
    return f"{text or setting.help} [env: {setting.env}]"


Url = Annotated[str | None, typer.Option("--url", metavar="URL", help=_help("url"))]
HttpUrl = Annotated[str | None, typer.Option("--url", metavar="URL", help=_help("http_url"))]
GrpcUrl = Annotated[str | None, typer.Option("--grpc-url", metavar="HOST:PORT", help=_help("grpc_url"))]
Context = Annotated[
    str | None,
    typer.Option(
        "--context",
        metavar="NAME",
        help=_help("context", "A server by the name that infer ctx gave it."),
        autocompletion=context_names,
    ),
]
Timeout = Annotated[
    float | None, typer.Option("--timeout", metavar="SECONDS", min=0.001, help=_help("timeout", "How long to wait."))
]
Output = Annotated[
    Format | None, typer.Option("-o", "--output", case_sensitive=False, help=_help("output", "How to print it."))
]
Interval = Annotated[float | None, typer.Option("--interval", metavar="SECONDS", min=0.05, help=_help("interval"))]
Model = Annotated[
    str, typer.Argument(metavar="MODEL", help="The model's name.", autocompletion=model_names, show_default=False)
]
Models = Annotated[
    list[str] | None,
    typer.Argument(metavar="MODEL", help="Names, or globs in quotes: 'tmp-*'.", autocompletion=model_names),
]
Version = Annotated[str, typer.Option("--version", metavar="NUMBER", help="One version, by its number.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
