"""The command tree of ``infer``, and the one place where a failure becomes text and an exit code."""

from __future__ import annotations

import os
import shlex
import sys
from typing import Annotated

import typer

from ...tui.failure import Failure
from ..failures import ExitCode, exit_code
from .tree import Tree, usage_failure

_EXIT_CODES = (
    "Exit codes: 0 ok · 1 failed · 2 usage · 3 not found · 4 not ready, or time is over · 5 refused · 6 no connection "
    "· 7 some of several failed · 8 a check failed · 130 interrupted"
)
COMMANDS = {
    "Serve": {
        "up": "Start the server on the sample models, or on --model-repository DIR, and show it; takes the "
        "flags of serve",
        "down": "Stop a server that infer up has started: requests under way finish first",
        "status": "Show the servers that you run on this machine: addresses, models, requests under way, memory",
        "logs": "Show the log of a server: from its memory while it runs, from its log file when it does not",
        "serve": "Serve model repositories, with Triton's flags (infer serve --help lists them)",
    },
    "Look": {
        "top": "Watch a server: models, rates, latencies, queues, GPUs, logs",
        "ps": "Show the models that serve: instances, memory of their workers, requests answered and in flight",
        "model": "Look at the models of a running server, load and unload them",
        "call": "Call a model",
    },
    "Set up": {
        "doctor": "Check this machine: ports, limits, memory, GPU, backends, folders, configuration",
        "ctx": "Give servers names, and say which one is meant where no address is given",
        "env": "Look at the Python environments that were made for models, and remove those that none uses",
        "config": "Show the settings of the commands that talk to a server",
        "version": "Print the version of this command and, where one can be reached, of the server",
    },
}
"""Commands by heading, each with the first sentence of its help: with it here, the help of the tree imports none."""

_DEBUG = "--debug"
_OWN_WORDS = ("serve", "up")
"""Commands that read their words themselves."""

app = Tree(
    name="infer",
    headings={heading: tuple(commands) for heading, commands in COMMANDS.items()},
    late={name: (name, sentence) for commands in COMMANDS.values() for name, sentence in commands.items()},
    epilog=_EXIT_CODES,
    add_completion=True,
)


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
    except (BrokenPipeError, SystemExit) as error:
        # The command line library ends the process itself where a command writes into a closed pipe.
        if isinstance(error, SystemExit) and not isinstance(error.__context__, BrokenPipeError):
            raise
        return _nobody_reads()
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


def _nobody_reads() -> int:
    """Who read the output has had enough. The interpreter would complain once more when it flushes at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return ExitCode.OK


def _fail(failure: Failure) -> int:
    sys.stdout.flush()
    print(failure, file=sys.stderr)
    return exit_code(failure)
