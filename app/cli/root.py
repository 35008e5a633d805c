"""The command tree of ``infer``, and the one place where a failure becomes text and an exit code."""

from __future__ import annotations

import os
import shlex
import sys
from typing import Annotated

import typer

from ...tui.failure import Failure
from ..failures import ExitCode, exit_code
from . import call, config, ctx, doctor, down, logs, model, ps, serve, status, up, version
from .tree import Tree, usage_failure

_EXIT_CODES = (
    "Exit codes: 0 ok · 1 failed · 2 usage · 3 not found · 4 not ready, or time is over · 5 refused · 6 no connection "
    "· 7 some of several failed · 8 a check failed · 130 interrupted"
)
_HEADINGS = {
    "Serve": ("up", "down", "status", "logs", "serve"),
    "Look": ("top", "ps", "model", "call"),
    "Set up": ("doctor", "ctx", "config", "version"),
}
_DEBUG = "--debug"
_OWN_WORDS = ("serve", "up")
"""Commands that read their words themselves."""

app = Tree(name="infer", headings=_HEADINGS, epilog=_EXIT_CODES)


@app.callback()
def infer(
    *,
    debug: Annotated[bool, typer.Option(_DEBUG, help="Show the traceback of what nobody foresaw.")] = False,
) -> None:
    """A Triton-compatible inference server that is run from a terminal.

    Examples:
    infer up
    infer model list
    infer call simple -i "INPUT0=[$(seq -s, 16)]" -i "INPUT1=[$(seq -s, 16)]"
    """


up.register(app)
down.register(app)
status.register(app)
logs.register(app)
serve.register(app)
ps.register(app)
app.add_typer(model.app)
call.register(app)
doctor.register(app)
app.add_typer(ctx.app)
app.add_typer(config.app)
version.register(app)


def run() -> None:
    """Run the command line of this process; ends it with the command's exit code."""
    sys.exit(outcome(sys.argv[1:]))


def outcome(words: list[str]) -> int:
    """Run a command line; its exit code. What went wrong is on standard error."""
    debug = False
    if _DEBUG in words and words[0] not in _OWN_WORDS:
        debug = True
        words = [word for word in words if word != _DEBUG]
    try:
        status = app(words, prog_name="infer", standalone_mode=False)
        sys.stdout.flush()
        return status if isinstance(status, int) else ExitCode.OK
    except Failure as error:
        return _fail(error)
    except typer.TyperException as error:
        return _fail(usage_failure(error))
    except BrokenPipeError:
        # Who read the output has had enough. The interpreter would complain once more when it flushes at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitCode.OK
    except (KeyboardInterrupt, typer.Abort):
        return ExitCode.INTERRUPTED
    except Exception as error:
        if debug:
            raise
        return _fail(
            Failure(
                "infer met something that it does not know how to handle",
                f"{type(error).__name__}: {error}",
                f"see where: infer {_DEBUG} {shlex.join(words)}",
            )
        )


def _fail(failure: Failure) -> int:
    sys.stdout.flush()
    print(failure, file=sys.stderr)
    return exit_code(failure)
