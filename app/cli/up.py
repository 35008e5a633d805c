"""``infer up``: everything at once, with nothing to say: the samples, or the repositories named."""

from __future__ import annotations

from pathlib import Path

import typer

from .serve import run_with_flags

_CONTEXT = {"ignore_unknown_options": True, "allow_extra_args": True}
_SAMPLES = Path(__file__).resolve().parents[2] / "model_repository"


def register(app: typer.Typer) -> None:
    """Add the command to the tree."""
    app.command(context_settings=_CONTEXT)(up)


def up(context: typer.Context) -> None:
    """Start the server on the sample models, or on --model-repository DIR; takes the flags of serve.

    A model that fails to load is shown with its reason, and the others serve; one whose framework is not installed is
    shown with the command that installs it. Ctrl-C lets requests under way finish
    and stops; a second one stops at once.
    """
    raise typer.Exit(run_with_flags(with_defaults(context.args)))


def with_defaults(args: list[str]) -> list[str]:
    """The flags of ``up``: its own first, so that the user's win."""
    from ..arguments import BadOption, parse

    defaults = ["--exit-on-error=false", "--skip-missing-backends=true"]
    try:
        named = "model-repository" in parse(args).given
    except BadOption:
        return args  # serve says what is wrong with it
    if not named:
        defaults.append(f"--model-repository={_SAMPLES}")
    return [*defaults, *args]
