"""The flags of ``infer up``: its own defaults, which the user's win over, and whether a running server has the same.

Pure but for the folders that paths are held against.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from .arguments import Arguments, BadOption, parse
from .flags import BY_NAME

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .flags import Value
    from .registry import Record

SAMPLES = Path(__file__).resolve().parents[1] / "model_repository"
LOG_FILE_MAX_SIZE: Final = 10 << 20
"""Bytes of a detached server's log file, of which three older ones are kept."""

_REMOTE = "--allow-remote-control"
_PATHS = ("model-repository", "log-file", "control-key-file", "grpc-server-cert", "grpc-server-key", "grpc-root-cert")


def with_defaults(args: Sequence[str]) -> list[str]:
    """The flags of ``up``: its own first, so that the user's win.

    Every model is loaded, and the control mode is explicit so that each can be unloaded; who says anything of either
    says it all.
    """
    words = complete(args)
    given = _given(words)
    if given is None:
        return words  # serve says what is wrong with it
    defaults = ["--exit-on-error=false", "--skip-missing-backends=true", f"{_REMOTE}=false"]
    if "model-repository" not in given:
        defaults.append(f"--model-repository={SAMPLES}")
    if "model-control-mode" not in given:
        defaults.append("--model-control-mode=explicit")
        if "load-model" not in given:
            defaults.append("--load-model=*")
    return [*defaults, *words]


def for_log_file(args: Sequence[str], log_file: Path) -> list[str]:
    """The flags of a detached server: it writes to that file unless the user named one."""
    words = complete(args)
    given = _given(words) or {}
    defaults = [] if "log-file-max-size" in given else [f"--log-file-max-size={LOG_FILE_MAX_SIZE}"]
    if "log-file" not in given:
        defaults.append(f"--log-file={log_file}")
    return [*defaults, *words]


def complete(args: Sequence[str]) -> list[str]:
    """The words, with ``--allow-remote-control`` standing alone as true."""
    words: list[str] = []
    for number, word in enumerate(args):
        following = args[number + 1] if number + 1 < len(args) else "--"
        words.append(f"{_REMOTE}=true" if word == _REMOTE and following.startswith("--") else word)
    return words


def chosen_log_file(args: Sequence[str], otherwise: Path) -> Path:
    """The log file that the flags name, from the working folder."""
    named = (_given(args) or {}).get("log-file", ())
    return Path(str(named[-1])).absolute() if named and named[-1] else otherwise


def differences(args: Sequence[str], record: Record) -> list[str]:
    """The flags given that a running server was started without, each as a phrase; raises BadOption for a bad one."""
    asked, running = parse(complete(args)), parse(record.arguments)
    here = Path.cwd()
    return [
        f"--{name} is {_shown(name, running)} there, not {_shown(name, asked)}"
        for name in asked.given
        if _values(name, asked, here) != _values(name, running, Path(record.folder or here))
    ]


def _given(args: Sequence[str]) -> dict[str, tuple[Value, ...]] | None:
    try:
        return dict(parse(args).given)
    except BadOption:
        return None


def _values(name: str, arguments: Arguments, folder: Path) -> object:
    """What a flag comes to: every value where it may be repeated, else the last one; paths from their folder."""
    values = arguments.texts(name) if BY_NAME[name].repeatable else (arguments.value(name),)
    return [folder / str(value) if name in _PATHS and value else value for value in values]


def _shown(name: str, arguments: Arguments) -> str:
    values = arguments.texts(name) if BY_NAME[name].repeatable else (arguments.value(name),)
    words = [str(value).lower() if isinstance(value, bool) else str(value) for value in values]
    return ", ".join(words) or "not given"
