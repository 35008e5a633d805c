"""``infer version``."""

from __future__ import annotations

import platform
from typing import Annotated

import typer

from ... import __version__
from .output import Format, print_json


def register(app: typer.Typer) -> None:
    """Add the command to the tree."""
    app.command()(version)


def version(output: Annotated[Format, typer.Option("-o", "--output", help="How to print it.")] = Format.TABLE) -> None:
    """Print the version."""
    if output is Format.JSON:
        print_json({"infer": __version__, "python": platform.python_version(), "platform": platform.platform()})
    elif output is Format.NAME:
        print(__version__)
    else:
        print(f"infer {__version__} (Python {platform.python_version()})")
