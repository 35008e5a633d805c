"""Settings of the whole process: the first model decides, others are told."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
import torch

from infer.backends.api.processors import usable_cpus
from infer.backends.torch.process import ProcessSettings
from infer.backends.torch.worker.options import TorchOptions

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def settings() -> Iterator[ProcessSettings]:
    threads, cudnn = torch.get_num_threads(), torch.backends.cudnn.enabled
    executor, profiling = torch._C._get_graph_executor_optimize(), torch._C._jit_set_profiling_mode(True)
    fuser = torch._C._jit_texpr_fuser_enabled()
    was_executor = torch._C._jit_set_profiling_executor(True)
    torch._C._jit_set_profiling_executor(was_executor)
    torch._C._jit_set_profiling_mode(profiling)
    yield ProcessSettings()
    torch.set_num_threads(threads)
    torch.backends.cudnn.enabled = cudnn
    torch._C._jit_set_profiling_executor(was_executor)
    torch._C._jit_set_profiling_mode(profiling)
    torch._C._jit_set_texpr_fuser_enabled(fuser)
    torch._C._set_graph_executor_optimize(executor)


def test_where_no_model_says_torch_uses_the_cpus_that_there_are(settings: ProcessSettings) -> None:
    torch.set_num_threads(7)
    settings.apply("m", TorchOptions())
    assert torch.get_num_threads() == usable_cpus()


def test_the_first_model_that_names_a_number_decides_and_a_later_one_is_told(
    settings: ProcessSettings, caplog: pytest.LogCaptureFixture
) -> None:
    settings.apply("silent", TorchOptions())
    settings.apply("first", TorchOptions(intra_op_threads=3))
    with caplog.at_level(logging.WARNING, "infer.torch"):
        settings.apply("same", TorchOptions(intra_op_threads=3))
        assert not caplog.records
        settings.apply("other", TorchOptions(intra_op_threads=5))
    assert torch.get_num_threads() == 3
    assert "model 'other' asks for INTRA_OP_THREAD_COUNT=5, but the setting is the whole process's, and" in caplog.text
    assert "model 'first' has set it to 3; that stays" in caplog.text


def test_other_threads_have_the_number_too(settings: ProcessSettings) -> None:
    settings.apply("m", TorchOptions(intra_op_threads=3))
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(torch.get_num_threads).result() == 3


def test_the_switches_of_the_jit_and_cudnn_are_set(settings: ProcessSettings) -> None:
    settings.apply("m", TorchOptions(jit_executor=False, jit_profiling=False, tensor_fuser=False, cudnn=False))
    assert torch._C._jit_set_profiling_executor(False) is False
    assert torch._C._jit_set_profiling_mode(False) is False
    assert torch._C._jit_texpr_fuser_enabled() is False
    assert torch.backends.cudnn.enabled is False


def test_a_setting_that_comes_too_late_is_told(
    settings: ProcessSettings, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(count: int) -> None:
        raise RuntimeError("cannot set number of interop threads after parallel work has started")

    monkeypatch.setattr(torch, "set_num_interop_threads", refuse)
    with caplog.at_level(logging.WARNING, "infer.torch"):
        settings.apply("m", TorchOptions(inter_op_threads=2))
    assert "model 'm': INTER_OP_THREAD_COUNT=2 comes too late for this process: cannot set number" in caplog.text
