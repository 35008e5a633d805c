"""Pinned host memory in which a GPU instance gathers its inputs, so that the copy to the device needs no second one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from ..api.batching import StagingBuffer

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class PinnedBuffer(StagingBuffer):
    """A staging buffer in memory that the GPU driver has locked. Needs a GPU."""

    def _block(self, nbytes: int) -> NDArray[np.uint8]:
        return torch.empty(nbytes, dtype=torch.uint8, pin_memory=True).numpy()
