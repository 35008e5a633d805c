"""How this program starts itself again: a helper process of the server, or a server of its own."""

from __future__ import annotations

import sys


def helper_command(name: str) -> tuple[str, ...]:
    """The command line that becomes one of the server's processes; its further words are appended.

    A single-file binary is its own interpreter and takes the subcommand directly. ``-P`` keeps the working directory
    off ``sys.path``, where a file of the user's could shadow a module.
    """
    if getattr(sys, "frozen", False):
        return (sys.executable, name)
    return (sys.executable, "-P", "-m", "infer", name)
