"""PyTorch models that run in worker processes, through the real engine: code, exported programs, packages."""

from __future__ import annotations

import re
import textwrap
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import pytest
import torch

import infer
from infer.backends.api.errors import Code, InferError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

pytestmark = pytest.mark.slow

FREE = {0: torch.export.Dim.AUTO}


class AddSub(torch.nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return a + b, a - b


CODE = """
    import os
    import torch
    from helper import FACTOR

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.factor = torch.nn.Parameter(torch.ones(1))

        def forward(self, a, b):
            if bool((a > 100).any()):
                raise ValueError("too much")
            if bool((a < -100).any()):
                os._exit(3)
            return {"total": (a + b) * self.factor * FACTOR, "difference": a - b, "calls": a[:, :1] * 0 + len(a)}
"""
MIXED = """
    import torch

    class Model(torch.nn.Module):
        def forward(self, words: list[str], half: torch.Tensor):
            assert half.dtype == torch.bfloat16
            return [word + "!" for word in words], half * 2, torch.is_inference_mode_enabled() or half, half[:1]
"""
SPY = """
    import sys
    import torch

    class Model(torch.nn.Module):
        def forward(self, x):
            return list(sys.modules)
"""
TEXT_AND_BF16 = """
    backend: "pytorch"
    max_batch_size: 4
    input [
      { name: "words" data_type: TYPE_STRING dims: [1] },
      { name: "half" data_type: TYPE_BF16 dims: [2] }
    ]
    output [{ name: "loud" data_type: TYPE_STRING dims: [1] }, { name: "twice" data_type: TYPE_BF16 dims: [2] }]
    instance_group [{ kind: KIND_CPU }]
"""
NAMED = ("a", "b")
TWO = ("total", "difference")
PAIR = (np.array([[1, 2]], np.float32), np.array([[3, 4]], np.float32))


def config(
    inputs: tuple[str, ...], outputs: tuple[str, ...], *more: str, batch: int = 4, outputs_of: str = "TYPE_FP32"
) -> str:
    """A configuration of FP32 [2] tensors."""
    lines = ['backend: "pytorch"', f"max_batch_size: {batch}", "instance_group [{ kind: KIND_CPU count: 1 }]"]
    lines += [f'input [{{ name: "{name}" data_type: TYPE_FP32 dims: [-1] }}]' for name in inputs]
    lines += [f'output [{{ name: "{name}" data_type: {outputs_of} dims: [-1] }}]' for name in outputs]
    return "\n".join([*lines, *more])


def parameter(key: str, value: str) -> str:
    return f'parameters {{ key: "{key}" value: {{ string_value: "{value}" }} }}'


class Repository:
    """A folder of models."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def model(self, name: str, text: str, code: str = "") -> Path:
        version = self.path / name / "1"
        version.mkdir(parents=True)
        (version.parent / "config.pbtxt").write_text(text)
        if code:
            (version / "model.py").write_text(textwrap.dedent(code))
        return version


def write_models(repository: Repository, package: Path) -> None:
    runtime = 'runtime: "model.py"'
    version = repository.model("code", config(NAMED, (*TWO, "calls"), runtime, "dynamic_batching { }"), CODE)
    torch.save({"factor": torch.tensor([5.0])}, version / "model.pt")
    (version.parent / "helper.py").write_text("FACTOR = 2\n")
    version = repository.model("script", config(NAMED, ("total__0",), runtime, parameter("NUM_THREADS", "2")))
    script: Any = torch.jit.script(AddSub())
    script.save(version / "model.pt")
    version = repository.model("exported", config(NAMED, TWO, 'default_model_filename: "model.pt2"'))
    shapes = {"a": FREE, "b": FREE}
    torch.export.save(
        torch.export.export(AddSub(), (torch.zeros(2, 2), torch.ones(2, 2)), dynamic_shapes=shapes),
        version / "model.pt2",
    )
    text = config(("ARGS[0][a]", "ARGS[0][b]", "KWARGS[factor]"), ("RESULT[total]", "RESULT[rest][0]"))
    version = repository.model("package", text.replace('backend: "pytorch"', 'platform: "torch_aoti"'))
    (version / "model.pt2").write_bytes(package.read_bytes())
    repository.model("mixed", TEXT_AND_BF16, MIXED)
    repository.model("broken", config(NAMED, TWO), "1 / 0\n")
    repository.model("threads", config(NAMED, TWO, parameter("NUM_THREADS", "none")), CODE)
    repository.model("spy", config(("x",), ("modules",), batch=0, outputs_of="TYPE_STRING"), SPY)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, aoti_package: Path) -> Iterator[infer.Server]:
    repository = Repository(tmp_path_factory.mktemp("torch"))
    write_models(repository, aoti_package)
    with infer.Server(model_repository=repository.path, exit_on_error=False) as running:
        yield running


def ask(server: infer.Server, model: str, names: tuple[str, ...], *arrays: NDArray[Any]) -> dict[str, Any]:
    return dict(server.infer(model, dict(zip(names, arrays, strict=True))).outputs)


def test_code_has_its_weights_and_its_neighbours(server: infer.Server) -> None:
    found = ask(server, "code", NAMED, *PAIR)
    assert found["total"].tolist() == [[40.0, 60.0]]
    assert found["difference"].tolist() == [[-2.0, -2.0]]


def test_torchscript_runs_there_too(server: infer.Server) -> None:
    assert ask(server, "script", NAMED, *PAIR)["total__0"].tolist() == [[4.0, 6.0]]


@pytest.mark.parametrize("rows", [1, 3])
def test_an_exported_program_answers(server: infer.Server, rows: int) -> None:
    found = ask(server, "exported", NAMED, *(np.repeat(array, rows, axis=0) for array in PAIR))
    assert found["total"].tolist() == [[4.0, 6.0]] * rows


@pytest.mark.parametrize("rows", [1, 3])
def test_a_package_answers_by_paths(server: infer.Server, rows: int) -> None:
    names = ("ARGS[0][a]", "ARGS[0][b]", "KWARGS[factor]")
    factor = np.full((1, 2), 10, np.float32)
    found = ask(server, "package", names, *(np.repeat(array, rows, axis=0) for array in (*PAIR, factor)))
    assert found["RESULT[total]"].tolist() == [[40.0, 60.0]] * rows
    assert found["RESULT[rest][0]"].tolist() == [[-2.0, -2.0]] * rows


def test_a_package_refuses_shapes_that_it_was_not_compiled_for(server: infer.Server) -> None:
    names = ("ARGS[0][a]", "ARGS[0][b]", "KWARGS[factor]")
    with pytest.raises(InferError, match=r"PyTorch error in model 'package': RuntimeError: .*unmatched dim value at 1"):
        ask(server, "package", names, *(np.zeros((2, 3), np.float32),) * 3)
    assert server.is_model_ready("package")


def test_what_the_model_raises_is_its_request_s_failure_and_the_model_goes_on(server: infer.Server) -> None:
    with pytest.raises(InferError, match="PyTorch error in model 'code': ValueError: too much"):
        ask(server, "code", NAMED, PAIR[0] + 200, PAIR[1])
    assert ask(server, "code", NAMED, *PAIR)["total"].tolist() == [[40.0, 60.0]]


def test_a_model_that_kills_its_process_kills_no_other(server: infer.Server) -> None:
    with pytest.raises(InferError, match=r"Stub process 'code_0_0' is not healthy. It ended with exit status 3"):
        ask(server, "code", NAMED, PAIR[0] - 200, PAIR[1])
    assert ask(server, "exported", NAMED, *PAIR)["total"].tolist() == [[4.0, 6.0]]


def test_text_and_bf16_go_in_and_out(server: infer.Server) -> None:
    half = np.array([[1.5, -2], [3, 4]], ml_dtypes.bfloat16)
    words = np.array([["é".encode()], [b""]], object)
    found = ask(server, "mixed", ("words", "half"), words, half)
    assert found["loud"].tolist() == [["é!".encode()], [b"!"]]
    assert found["twice"].tolist() == [[3.0, -4.0], [6.0, 8.0]]


def test_text_that_is_not_utf8_is_refused(server: infer.Server) -> None:
    half = np.ones((1, 2), ml_dtypes.bfloat16)
    with pytest.raises(InferError, match="model 'mixed' takes UTF-8 text") as caught:
        ask(server, "mixed", ("words", "half"), np.array([[b"\xff"]], object), half)
    assert caught.value.code is Code.INVALID_ARG


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        ("broken", "failed to load model 'broken' from '.*/broken/1/model.py': ZeroDivisionError: division by zero"),
        ("threads", "parameter 'NUM_THREADS' of model 'threads' must be an integer >= 1, not 'none'"),
    ],
)
def test_a_model_that_cannot_be_served_fails_its_load_with_the_reason(
    server: infer.Server, model: str, reason: str
) -> None:
    (entry,) = [entry for entry in server.index() if entry.name == model]
    assert re.search(reason, entry.reason)
    assert not server.is_model_ready(model)


def test_a_worker_takes_the_program_and_its_neighbours_and_nothing_else_of_ours(server: infer.Server) -> None:
    loaded = ask(server, "spy", ("x",), np.zeros(1, np.float32))["modules"].ravel().tolist()
    rooms = (b"infer.backends.torch", b"infer.backends.api", b"infer.server")
    assert [name for name in loaded if name.startswith(rooms)] == []
    assert b"infer_program.naming" in loaded
