"""A TorchScript module: what it takes, what it writes into, and that it releases the GIL."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
import torch

from infer.backends.api.errors import BackendFailure, LoadFailed
from infer.backends.torch.script import Script, mode, open_script, unoptimized
from infer.backends.torch.worker.options import TorchOptions

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class Chain(torch.nn.Module):
    def __init__(self, *, inplace: bool) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU(inplace=inplace))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)


class Branch(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if bool(x.sum() > 0):
            for _ in range(2):
                x[0] = 1.0
        return x


class Views(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.view(-1)[1:].t()


class Number(torch.nn.Module):
    def forward(self, x: torch.Tensor, k: int) -> torch.Tensor:
        return x * k


class Slow(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(10):
            x = torch.tanh(x @ x)
        return x


def scripted(module: torch.nn.Module, inputs: tuple[str, ...] = ("x",)) -> Script:
    made: Any = torch.jit.script(module)
    return Script("m", made, inputs, ("y",))


@pytest.mark.parametrize(
    ("module", "writes"),
    [(Chain(inplace=False), False), (Chain(inplace=True), True), (Branch(), True), (Views(), False)],
)
def test_an_operator_that_writes_is_seen_however_deep(module: torch.nn.Module, writes: bool) -> None:
    assert scripted(module).changes_inputs is writes


def test_a_traced_module_is_a_module() -> None:
    traced: Any = torch.jit.trace(Chain(inplace=False), torch.ones(1, 2))
    script = Script("m", traced, ("image",), ("y",))
    assert script.run({"image": torch.ones(3, 2)})[0].shape == (3, 2)


def test_parameters_and_buffers_are_known_by_address() -> None:
    module = Chain(inplace=False)
    assert module.layers[0].weight.untyped_storage().data_ptr() in scripted(module).memory


def test_an_argument_that_is_no_tensor_is_torch_s_to_refuse() -> None:
    script = scripted(Number(), ("x", "k"))
    with pytest.raises(BackendFailure, match=r"PyTorch error in model 'm': .*Expected a value of type 'int'"):
        script.run({"x": torch.ones(1), "k": torch.ones(2)})


def test_a_file_that_cannot_be_read_fails_with_path_and_reason(tmp_path: Path) -> None:
    path = tmp_path / "model.pt"
    path.write_bytes(b"garbage")
    with pytest.raises(LoadFailed, match=r"failed to load model 'm' from '.*model\.pt': "):
        open_script("m", path, torch.device("cpu"), ("x",), ("y",))


def test_a_module_is_loaded_for_inference(script_file: Callable[..., Path]) -> None:
    path = script_file(torch.nn.Sequential(torch.nn.Dropout(0.5)))
    script = open_script("m", path, None, ("x",), ("y",))
    assert script.run({"x": torch.ones(100)})[0].tolist() == [1.0] * 100


def test_the_modes_are_torch_s() -> None:
    with mode(TorchOptions())():
        assert torch.is_inference_mode_enabled()
    with mode(TorchOptions(inference_mode=False))():
        assert not torch.is_inference_mode_enabled()
        assert not torch.is_grad_enabled()
    with unoptimized():
        assert torch._C._get_graph_executor_optimize() is False


def test_another_thread_goes_on_while_a_module_runs() -> None:
    """The longest stop of a thread beside it is far shorter than the run: the GIL is released meanwhile."""
    script = scripted(Slow())
    given = torch.rand(300, 300) / 300
    script.run({"x": given})
    over = threading.Event()
    stops: list[float] = []
    started = threading.Event()

    def watch() -> None:
        last = time.perf_counter()
        started.set()
        while not over.is_set():
            over.wait(0.0005)
            now = time.perf_counter()
            stops.append(now - last)
            last = now

    watcher = threading.Thread(target=watch)
    watcher.start()
    started.wait(10)
    begun = time.perf_counter()
    while time.perf_counter() - begun < 0.3:
        script.run({"x": given})
    over.set()
    watcher.join()
    assert len(stops) > 20
