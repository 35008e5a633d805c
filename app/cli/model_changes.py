"""``infer model load``, ``unload`` and ``reload``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ..failures import CommandError, ExitCode
from ..selection import select
from .options import Context, Models, Output, Timeout, Url, Yes
from .target import CHANGE_WAIT_S, open_target

if TYPE_CHECKING:
    from .tree import Tree

All = Annotated[bool, typer.Option("--all", help="Every model that this can be done to.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and do nothing.")]
Wait = Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until it is done, or only ask for it.")]


def register(app: Tree) -> None:
    """Add the commands to the tree."""
    for command in (load, unload, reload):
        app.command()(command)


def load(
    names: Models = None,
    *,
    every: All = False,
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
    wait: Wait = True,
    dry_run: DryRun = False,
    url: Url = None,
    context: Context = None,
    timeout: Timeout = None,
    output: Output = None,
) -> None:
    """Load models, or what changed of them; what served before serves until then, and on where it fails.

    Examples:
    infer model load simple
    infer model load 'dig*' --timeout 120
    infer model load --all --dry-run
    infer model load echo --config echo.pbtxt --file 1/any=echo.pbtxt
    """
    from ..changing import index
    from .change import Change, run
    from .overrides import load_parameters

    parameters = load_parameters(config, files or [])
    target = open_target(url, context, timeout, output, wait_s=CHANGE_WAIT_S)
    target.check_changes("load")
    rows = index(target.client)
    selection = select(names or [], (str(row["name"]) for row in rows), every=every)
    if parameters and len(selection.names) > 1:
        raise CommandError(
            "--config and --file are for one model",
            f"this names {', '.join(selection.names)}",
            "load each with a configuration of its own",
            code=ExitCode.USAGE,
        )
    document = {"parameters": parameters} if parameters else {}
    run(Change("load", target, selection, rows, None, wait, document), dry_run=dry_run)


def unload(
    names: Models = None,
    *,
    every: All = False,
    yes: Yes = False,
    wait: Wait = True,
    dry_run: DryRun = False,
    url: Url = None,
    context: Context = None,
    timeout: Timeout = None,
    output: Output = None,
) -> None:
    """Stop serving models and wait until their last requests are answered. One that is not loaded is no error.

    At a terminal it asks before it unloads several models, one that is answering requests, or one that others need.

    Examples:
    infer model unload identity
    infer model unload 'tmp-*' --yes --dry-run
    infer model unload --all --yes --no-wait
    """
    from .change import planned, run

    plan = planned(
        "unload", names, every=every, wait=wait, where=open_target(url, context, timeout, output, wait_s=CHANGE_WAIT_S)
    )
    run(plan, dry_run=dry_run, yes=yes)


def reload(
    names: Models = None,
    *,
    every: All = False,
    yes: Yes = False,
    wait: Wait = True,
    dry_run: DryRun = False,
    url: Url = None,
    context: Context = None,
    timeout: Timeout = None,
    output: Output = None,
) -> None:
    """Load again what changed of models that serve; versions whose files did not change go on as they are.

    Examples:
    infer model reload simple
    infer model reload --all --yes
    """
    from .change import planned, run

    plan = planned(
        "reload", names, every=every, wait=wait, where=open_target(url, context, timeout, output, wait_s=CHANGE_WAIT_S)
    )
    run(plan, dry_run=dry_run, yes=yes)
