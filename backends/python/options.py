"""What ``--backend-config=python,KEY=VALUE`` and a model's parameters set, read and checked.

Triton's options of shared memory and of its thread pool are accepted with Triton's rules and have no effect: tensors
travel in memory without names here, of which only what is used exists.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..api.errors import Code, InvalidArgument, LoadFailed
from .restart import RestartPolicy

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ..api.model_config import ModelConfig

MEMORY_PARAMETER = "WORKER_MEMORY_LIMIT_BYTES"
CPU_ONLY_PARAMETER = "FORCE_CPU_ONLY_INPUT_TENSORS"
LEAST_MEMORY = 64 << 20
"""Bytes below which not even an interpreter with numpy starts reliably."""

_MIB = 1 << 20
_SHELL_CHARACTERS = frozenset(";|&$<>()[]{}\\\"'*?~#!`")
"""Triton hands both names to a command line, so it refuses these, and so do we."""


@dataclass(frozen=True, slots=True)
class PythonOptions:
    """Options of the backend.

    ``finalize_timeout`` in seconds; ``memory_limit`` in bytes a worker, 0 for none; ``restart_attempts`` is how often
    in a row a dead worker is started again, 0 for never. ``coroutine_depth`` is how many batches an instance whose
    ``execute`` is a coroutine may have at a time, 1 for one after the other.
    """

    finalize_timeout: float = 30.0
    memory_limit: int = 0
    restart_attempts: int = 10
    coroutine_depth: int = 64

    @property
    def restart(self) -> RestartPolicy:
        """When dead workers are started again."""
        return RestartPolicy(attempts=self.restart_attempts)


def read(options: Mapping[str, str]) -> PythonOptions:
    """The options of a command line. Raises InvalidArgument that names option, value and rule.

    Options that are none of the Python backend's are not looked at: some are given to every backend.
    """
    found: dict[str, float] = {}
    for key, text in options.items():
        reader = _READERS.get(key)
        if reader is not None:
            found[key] = reader(f"--backend-config=python,{key}={text}", text)
    defaults = PythonOptions()
    return PythonOptions(
        finalize_timeout=found.get("stub-timeout-seconds", defaults.finalize_timeout),
        memory_limit=int(found.get("worker-memory-limit-bytes", defaults.memory_limit)),
        restart_attempts=int(found.get("restart-attempts", defaults.restart_attempts)),
        coroutine_depth=int(found.get("coroutine-depth", defaults.coroutine_depth)),
    )


def memory_limit(config: ModelConfig, default: int) -> int:
    """The bytes that a worker of this model may allocate, 0 for no limit. Raises InvalidArgument."""
    text = config.parameters.get(MEMORY_PARAMETER, "")
    if not text:
        return default
    return int(_memory(f"parameter {MEMORY_PARAMETER}={text} of model '{config.name}'", text))


def check_parameters(config: ModelConfig) -> None:
    """Raise LoadFailed where a parameter that the backend reads has a value that it does not know."""
    text = config.parameters.get(CPU_ONLY_PARAMETER, "yes")
    if text.lower() not in ("yes", "no"):
        msg = (
            f"Incorrect value for {CPU_ONLY_PARAMETER}: '{text}' in model '{config.name}'; "
            "give 'yes' or 'no'. Inputs are in host memory with either"
        )
        raise LoadFailed(msg, code=Code.UNSUPPORTED)


def check_instance_name(name: str) -> None:
    """Raise InvalidArgument for an instance name that Triton could not start a worker with."""
    bad = _SHELL_CHARACTERS.intersection(name)
    if bad:
        msg = (
            f"Invalid stub name: contains invalid characters ({' '.join(sorted(bad))} in '{name}'); "
            "rename the instance group"
        )
        raise InvalidArgument(msg)


def _seconds(what: str, text: str) -> float:
    return _checked(what, text, float, lambda value: value > 0, "a number of seconds above 0")


def _at_least(least: int, unit: str) -> Callable[[str, str], float]:
    def read_number(what: str, text: str) -> float:
        return _checked(what, text, int, lambda value: value >= least, f"a whole number of {unit}, at least {least}")

    return read_number


def _memory(what: str, text: str) -> float:
    rule = f"a whole number of bytes, at least {LEAST_MEMORY}, or 0 for no limit"
    return _checked(what, text, int, lambda value: value == 0 or value >= LEAST_MEMORY, rule)


def _prefix(what: str, text: str) -> float:
    if not text or _SHELL_CHARACTERS.intersection(text):
        msg = f"{what} is not a name without characters of the shell"
        raise InvalidArgument(msg)
    return 0


def _checked(what: str, text: str, convert: Callable[[str], float], good: Callable[[float], bool], rule: str) -> float:
    try:
        value = convert(text)
    except ValueError as exc:
        msg = f"{what} is not {rule}"
        raise InvalidArgument(msg) from exc
    if not good(value):
        msg = f"{what} is not {rule}"
        raise InvalidArgument(msg)
    return value


_READERS: dict[str, Callable[[str, str], float]] = {
    "stub-timeout-seconds": _seconds,
    "worker-memory-limit-bytes": _memory,
    "restart-attempts": _at_least(0, "attempts"),
    "coroutine-depth": _at_least(1, "batches"),
    # Triton's, without effect here.
    "shm-default-byte-size": _at_least(_MIB, "bytes"),
    "shm-growth-byte-size": _at_least(1, "bytes"),
    "shm-region-prefix-name": _prefix,
    "thread-pool-size": _at_least(1, "threads"),
    "shm_message_queue_size": _at_least(1, "messages"),
}
