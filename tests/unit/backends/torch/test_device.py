"""Where an instance runs."""

from __future__ import annotations

import pytest
import torch

from infer.backends.api.backend import InstanceSpec
from infer.backends.api.errors import LoadFailed
from infer.backends.api.model_config import InstanceKind
from infer.backends.torch.device import choose


def gpus(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: count > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: count)


def test_a_cpu_instance_is_on_the_cpu_also_beside_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    gpus(monkeypatch, 1)
    assert choose("m", InstanceSpec("m_0", InstanceKind.CPU)) == torch.device("cpu")


def test_a_gpu_instance_is_on_its_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    gpus(monkeypatch, 2)
    assert choose("m", InstanceSpec("m_0", InstanceKind.GPU, 1)) == torch.device("cuda", 1)


def test_of_kind_model_the_model_decides() -> None:
    assert choose("m", InstanceSpec("m_0", InstanceKind.MODEL)) is None


@pytest.mark.parametrize(
    ("count", "phrase"),
    [
        (0, r"on GPU 2, but the installed torch .* sees no GPU"),
        (2, r"on GPU 2, but the installed torch .* sees 2 GPUs"),
    ],
)
def test_a_gpu_that_torch_does_not_see_is_refused_with_the_way_out(
    monkeypatch: pytest.MonkeyPatch, count: int, phrase: str
) -> None:
    gpus(monkeypatch, count)
    with pytest.raises(LoadFailed, match=phrase):
        choose("m", InstanceSpec("m_0", InstanceKind.GPU, 2))
