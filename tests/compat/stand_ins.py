"""What stands in for files that an example would load from the network: random weights, a helper, a picture's path.

`torch.hub` looks into a folder first; here that folder (`$TORCH_HOME`) is filled beforehand.

::

    python stand_ins.py FOLDER
"""

from __future__ import annotations

import sys
from pathlib import Path

WEIGHTS = "resnet50-11ad3fa6.pth"
"""The file name under which torchvision looks for ResNet50_Weights.IMAGENET1K_V2."""
HELPER = '''
"""Makes an input of the right shape, whatever picture is asked for."""

import torch


class Helper:
    @staticmethod
    def prepare_input_from_uri(uri):
        return torch.rand(1, 3, 224, 224)


def nvidia_convnets_processing_utils(**_):
    return Helper
'''


def fill(folder: Path) -> None:
    """Fill ``folder`` so that resnet50 and its client find what they would download."""
    import torch
    from torchvision import models

    (folder / "hub" / "checkpoints").mkdir(parents=True)
    torch.save(models.resnet50().state_dict(), folder / "hub" / "checkpoints" / WEIGHTS)
    helper = folder / "hub" / "NVIDIA_DeepLearningExamples_torchhub"
    helper.mkdir()
    (helper / "hubconf.py").write_text(HELPER)
    (folder / "hub" / "trusted_list").write_text("NVIDIA_DeepLearningExamples\n")


if __name__ == "__main__":
    fill(Path(sys.argv[1]))
