"""The command tree of ``infer``, and the one place where a failure becomes text and an exit code."""

from __future__ import annotations

import sys

import typer

from ...tui.failure import Failure
from ..failures import exit_code
from . import call, model, serve, top, up, version

_EXIT_CODES = (
    "Exit codes: 0 ok · 1 failed · 2 usage · 3 not found · 4 not ready · 5 refused · 6 no connection · 130 interrupted"
)

app = typer.Typer(
    name="infer",
    help="A Triton-compatible inference server that is run from a terminal.",
    epilog=_EXIT_CODES,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
up.register(app)
serve.register(app)
top.register(app)
app.add_typer(model.app)
call.register(app)
version.register(app)


def run() -> None:
    """Run the command line of this process; ends it with the command's exit code."""
    try:
        app()
    except Failure as error:
        sys.stdout.flush()
        print(error, file=sys.stderr)
        sys.exit(exit_code(error))
