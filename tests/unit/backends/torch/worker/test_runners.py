"""What a worker opens: the file that is the model, and every format behind one call."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest
import torch

from infer.backends.torch.worker.modules import ModuleError
from infer.backends.torch.worker.naming import NamingError
from infer.backends.torch.worker.options import TorchOptions, read
from infer.backends.torch.worker.runners import Request, find, open_model
from infer.backends.torch.worker.values import Spec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

CPU = torch.device("cpu")
A, B = torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0, 4.0]])
CODE = """
import torch

class Twice(torch.nn.Module):
    def forward(self, x):
        return {"y": x * 2}
"""


def request(
    inputs: Sequence[str], outputs: Sequence[str], options: TorchOptions | None = None, *, batching: bool = False
) -> Request:
    def side(names: Sequence[str]) -> tuple[Spec, ...]:
        return tuple(Spec(name, "TYPE_FP32", (-1, 2)) for name in names)

    return Request("m", side(inputs), side(outputs), options or TorchOptions(), CPU, batching)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "1"
    path.mkdir(exist_ok=True)
    yield path
    sys.modules.pop("1.model", None)


def weights(path: Path) -> Path:
    torch.save({"factor": torch.ones(1)}, path)
    return path


def test_the_configured_file_is_the_model_before_all_others(folder: Path, add_sub: Path) -> None:
    (folder / "model.py").write_text(CODE)
    assert find(folder, "model.pt") == add_sub
    assert find(folder, "") == folder / "model.py"


def test_a_state_dict_is_passed_over_for_the_code_that_it_belongs_to(folder: Path) -> None:
    weights(folder / "model.pt")
    (folder / "model.py").write_text(CODE)
    assert find(folder, "model.pt") == folder / "model.py"


def test_torchscript_is_taken_where_there_is_no_code(folder: Path, add_sub: Path) -> None:
    assert find(folder, "other.py") == add_sub


def test_a_folder_without_a_model_is_refused_with_what_was_looked_for(folder: Path) -> None:
    weights(folder / "model.pt")
    with pytest.raises(ModuleError, match=r"no model found in .*: looked for 'net\.pt', 'model\.py', 'model\.pt';"):
        find(folder, "net.pt")


def test_code_is_run(folder: Path) -> None:
    (folder / "model.py").write_text(CODE)
    run = open_model(folder / "model.py", request(["x"], ["y"]))
    assert run({"x": A})[0].tolist() == [[2.0, 4.0]]


def test_code_is_compiled_where_parameters_ask_for_it(folder: Path) -> None:
    (folder / "model.py").write_text(CODE)
    options = read("m", {"TORCH_COMPILE_OPTIONAL_PARAMETERS": '{"backend": "eager", "dynamic": true}'})
    run = open_model(folder / "model.py", request(["x"], ["y"], options))
    assert run({"x": A})[0].tolist() == [[2.0, 4.0]]


def test_torchscript_is_run(add_sub: Path) -> None:
    run = open_model(add_sub, request(["b", "a"], ["OUT__1", "OUT__0"]))
    difference, total = run({"a": A, "b": B})
    assert (total.tolist(), difference.tolist()) == ([[4.0, 6.0]], [[-2.0, -2.0]])


@pytest.mark.parametrize(
    ("inputs", "outputs"),
    [
        (["a", "b"], ["OUT__0", "OUT__1"]),
        (["ARGS[0]", "ARGS[1]"], ["RESULT[0]", "RESULT[1]"]),
        (["INPUT__0", "INPUT__1"], ["total", "difference"]),
    ],
)
def test_an_exported_program_goes_by_argument_names_paths_and_ordinals(
    exported_file: Callable[..., Path], inputs: list[str], outputs: list[str]
) -> None:
    run = open_model(exported_file(), request(inputs, outputs))
    total, difference = run(dict(zip(inputs, (A, B), strict=True)))
    assert (total.tolist(), difference.tolist()) == ([[4.0, 6.0]], [[-2.0, -2.0]])


class Keyed(torch.nn.Module):
    def forward(self, pair: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        return {"total": pair["a"] + pair["b"], "difference": pair["a"] - pair["b"]}


def test_the_keys_of_an_exported_program_s_only_argument_are_names(exported_file: Callable[..., Path]) -> None:
    pair = {"a": torch.zeros(2, 2), "b": torch.ones(2, 2)}
    run = open_model(exported_file(Keyed(), (pair,)), request(["b", "a"], ["difference"]))
    assert run({"a": A, "b": B})[0].tolist() == [[-2.0, -2.0]]


@pytest.mark.parametrize(
    ("inputs", "outputs"),
    [
        (["ARGS[0][a]", "ARGS[0][b]", "KWARGS[factor]"], ["RESULT[total]", "RESULT[rest][0]"]),
        (["INPUT__0", "INPUT__1", "INPUT__2"], ["OUTPUT__0", "OUTPUT__1"]),
    ],
)
@pytest.mark.parametrize("rows", [1, 2, 3])
def test_a_package_goes_by_paths_and_ordinals(
    aoti_package: Path, inputs: list[str], outputs: list[str], rows: int
) -> None:
    run = open_model(aoti_package, request(inputs, outputs, batching=True))
    values = [torch.full((rows, 2), number) for number in (1.0, 2.0, 10.0)]
    total, difference = run(dict(zip(inputs, values, strict=True)))
    assert total.tolist() == [[30.0, 30.0]] * rows
    assert difference.tolist() == [[-1.0, -1.0]] * rows


def test_a_package_checks_the_shapes_that_its_code_trusts(aoti_package: Path) -> None:
    names = ["INPUT__0", "INPUT__1", "INPUT__2"]
    run = open_model(aoti_package, request(names, ["OUTPUT__0"]))
    wrong = {name: torch.ones(2, 3) for name in names}
    with pytest.raises(RuntimeError, match="unmatched dim value at 1, expected: 2, but got: 3"):
        run(wrong)


def test_a_package_that_takes_two_rows_and_more_takes_one_where_rows_are_a_batch(aoti_package: Path) -> None:
    names = ["INPUT__0", "INPUT__1", "INPUT__2"]
    one_row = {name: torch.ones(1, 2) for name in names}
    with pytest.raises(RuntimeError, match="dim value is too small at 0, expected it to be >= 2, but got: 1"):
        open_model(aoti_package, request(names, ["OUTPUT__0"]))(one_row)
    run = open_model(aoti_package, request(names, ["OUTPUT__0"], batching=True))
    assert [run(one_row)[0].tolist() for _ in range(2)] == [[[2.0, 2.0]]] * 2


def test_a_package_for_the_cpu_does_not_go_on_a_gpu(aoti_package: Path) -> None:
    given = request(["INPUT__0"], ["OUTPUT__0"])
    on_gpu = Request("m", given.inputs, given.outputs, given.options, torch.device("cuda", 0))
    with pytest.raises((ModuleError, RuntimeError)):
        open_model(aoti_package, on_gpu)


def test_an_input_that_a_request_leaves_out_is_named(aoti_package: Path) -> None:
    names = ["INPUT__0", "INPUT__1", "INPUT__2"]
    run = open_model(aoti_package, request(names, ["OUTPUT__0"]))
    with pytest.raises(NamingError, match="input 'INPUT__1' is not in the request"):
        run({"INPUT__0": A, "INPUT__2": A})


@pytest.mark.parametrize("outputs", [[], ["OUTPUT__5"]])
def test_a_package_with_wrong_outputs_is_refused(aoti_package: Path, outputs: list[str]) -> None:
    with pytest.raises(NamingError):
        open_model(aoti_package, request(["INPUT__0", "INPUT__1", "INPUT__2"], outputs))


def test_a_state_dict_alone_is_no_model(folder: Path) -> None:
    with pytest.raises(ModuleError, match=r"holds a state dict, which needs a 'model\.py'"):
        open_model(weights(folder / "net.pt"), request(["x"], ["y"]))


def test_where_the_model_decides_nothing_is_moved(add_sub: Path) -> None:
    given = request(["a", "b"], ["OUT__0"])
    placed: Any = Request("m", given.inputs, given.outputs, given.options, None)
    assert open_model(add_sub, placed)({"a": A, "b": B})[0].device == CPU
