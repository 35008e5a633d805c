"""Where an instance's model and inputs are. Pure but for asking torch what devices there are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from ..api.errors import LoadFailed
from ..api.model_config import InstanceKind

if TYPE_CHECKING:
    from ..api.backend import InstanceSpec


def choose(model: str, spec: InstanceSpec) -> torch.device | None:
    """The device of an instance; None for KIND_MODEL, where the model decides and inputs are on the host.

    Raises LoadFailed, naming the remedy, where there is no such GPU.
    """
    if spec.kind is InstanceKind.MODEL:
        return None
    if spec.kind is InstanceKind.CPU:
        return torch.device("cpu")
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if spec.device_id >= count:
        reason = f"sees {count} GPUs" if count else "sees no GPU (it may be a build for CPUs)"
        msg = (
            f"instance '{spec.name}' of model '{model}' is {spec.kind.value} on GPU {spec.device_id}, but the "
            f"installed torch {torch.__version__} {reason}; install a torch with CUDA, or use KIND_CPU"
        )
        raise LoadFailed(msg)
    return torch.device("cuda", spec.device_id)
