"""``infer config view``: what commands are told besides their flags, and by whom."""

from __future__ import annotations

from typing import Annotated

import typer

from ..configuration import MASK, Resolved, load
from .options import Context, Output
from .output import Format, print_json, print_table
from .target import output_form
from .tree import Tree

app = Tree(name="config")


@app.callback()
def config() -> None:
    """Show the settings of the commands that talk to a server.

    The strongest first: flag, environment INFER_*, infer.toml in the working folder or above it, the context in use,
    config.toml, default.

    Examples:
    infer config view --origin
    """


@app.command()
def view(
    *,
    origin: Annotated[bool, typer.Option("--origin", help="Also where each value comes from.")] = False,
    context: Context = None,
    output: Output = None,
) -> None:
    """Show every setting. Secrets are masked.

    Examples:
    infer config view
    INFER_TIMEOUT=5 infer config view --origin
    infer config view -o json
    """
    configuration = load(context=context)
    found = configuration.all()
    form = output_form(configuration, output)
    if form is Format.JSON:
        print_json({one.setting.name: _document(one) for one in found})
    elif form is Format.NAME:
        for one in found:
            print(one.setting.name)
    else:
        head = ("SETTING", "VALUE", "ORIGIN") if origin else ("SETTING", "VALUE")
        rows = [(one.setting.name, one.shown or "-", one.origin) for one in found]
        print_table(head, [row[: len(head)] for row in rows])


def _document(one: Resolved) -> dict[str, str | float | bool | None]:
    value = MASK if one.setting.secret and one.value else one.value
    return {"value": value, "origin": one.origin, "env": one.setting.env, "help": one.setting.help}
