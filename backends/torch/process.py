"""Settings of torch that belong to the whole process: the first model that sets one decides, later ones are told so."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Any, cast

import torch

from ..api.processors import usable_cpus

if TYPE_CHECKING:
    from collections.abc import Callable

    from .worker.options import TorchOptions

logger = logging.getLogger("infer.torch")

_C = cast("Any", torch._C)  # noqa: SLF001  torch has no public names for the JIT's switches  # pyright: ignore[reportPrivateUsage]


class ProcessSettings:
    """What has been set so far, and by which model. Any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._taken: dict[str, tuple[object, str]] = {}
        self._default_threads = False

    def apply(self, model: str, options: TorchOptions) -> None:
        """Set what a model asks for and nobody has set before; a warning where somebody has set it otherwise."""
        with self._lock:
            self._leave_cores(options.intra_op_threads)
            for key, value, setter in _wishes(options):
                self._set(model, key, value, setter)

    def _leave_cores(self, asked: int | None) -> None:
        """As many threads as CPUs that the process may use, where no model has asked: torch counts those it may not."""
        if not self._default_threads and asked is None and "INTRA_OP_THREAD_COUNT" not in self._taken:
            torch.set_num_threads(usable_cpus())
        self._default_threads = True

    def _set(self, model: str, key: str, value: object, setter: Callable[[Any], object]) -> None:
        if value is None:
            return
        known = self._taken.get(key)
        if known is None:
            try:
                setter(value)
            except RuntimeError as exc:
                words = "model '%s': %s=%s comes too late for this process: %s"
                logger.warning(words, model, key, value, exc, extra={"model": model})
            self._taken[key] = (value, model)
        elif known[0] != value:
            logger.warning(
                "model '%s' asks for %s=%s, but the setting is the whole process's, and model '%s' has set it to %s; "
                "that stays",
                model,
                key,
                value,
                known[1],
                known[0],
                extra={"model": model},
            )


def _wishes(options: TorchOptions) -> tuple[tuple[str, object, Callable[[Any], object]], ...]:
    return (
        ("INTRA_OP_THREAD_COUNT", options.intra_op_threads, torch.set_num_threads),
        ("INTER_OP_THREAD_COUNT", options.inter_op_threads, torch.set_num_interop_threads),
        ("ENABLE_JIT_EXECUTOR", options.jit_executor, _C._jit_set_profiling_executor),  # noqa: SLF001  as above
        ("ENABLE_JIT_PROFILING", options.jit_profiling, _C._jit_set_profiling_mode),  # noqa: SLF001  as above
        ("ENABLE_TENSOR_FUSER", options.tensor_fuser, _C._jit_set_texpr_fuser_enabled),  # noqa: SLF001  as above
        ("DISABLE_CUDNN", None if options.cudnn else True, _without_cudnn),
    )


def _without_cudnn(disabled: bool) -> None:  # noqa: FBT001  a setter like the others
    torch.backends.cudnn.enabled = not disabled


SETTINGS = ProcessSettings()
