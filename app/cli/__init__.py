"""The command ``infer``.

Two hidden subcommands turn this process into a helper of a running server; they are looked at before Typer, uvloop
or any runtime is imported, because the zygote's children live in what is imported here.
"""

from __future__ import annotations

import sys

_ZYGOTE = "_zygote"
_CODEC = "_codec"
_HIDDEN_WORDS = 2
_INTERRUPTED = 130


def main() -> None:
    """The entry point of ``infer`` and ``python -m infer``; ends the process with a documented exit code."""
    words = sys.argv[1:]
    if len(words) == _HIDDEN_WORDS and words[0] in (_ZYGOTE, _CODEC) and words[1].isdigit():
        _become_helper(words[0], int(words[1]))
        return
    try:
        from .root import run  # hidden commands must not pay for, nor inherit, Typer
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)
    run()


def _become_helper(role: str, descriptor: int) -> None:
    """Serve the other end of the inherited socket until it closes."""
    if role == _ZYGOTE:
        from ...backends.python.worker.zygote import main as zygote

        zygote(descriptor)
    else:
        from ...server.http.codec_process import main as codec

        codec(descriptor)
