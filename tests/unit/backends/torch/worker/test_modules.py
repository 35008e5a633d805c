"""A user's model.py: which class, which weights, which arguments."""

from __future__ import annotations

import logging
import sys
import textwrap
from typing import TYPE_CHECKING, Any

import pytest
import torch

from infer.backends.torch.worker.modules import ModuleError, load_module, python_arguments, script_arguments
from infer.backends.torch.worker.naming import ANYTHING, DICTIONARY, STRINGS, TENSOR, Argument

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

SCALE = """
    import torch

    class Scale(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.factor = torch.nn.Parameter(torch.ones(1))

        def forward(self, x):
            return x * self.factor
"""


@pytest.fixture
def model_py(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """``model_py(source)`` writes ``1/model.py``."""

    def write(source: str) -> Path:
        path = tmp_path / "1" / "model.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(textwrap.dedent(source))
        return path

    yield write
    sys.modules.pop("1.model", None)


def test_the_module_of_a_file_is_made_without_arguments(model_py: Callable[[str], Path]) -> None:
    module = load_module(model_py(SCALE))
    assert type(module).__name__ == "Scale"
    assert module(torch.full((2,), 3.0)).tolist() == [3.0, 3.0]


def test_a_state_dict_beside_it_is_its_weights(model_py: Callable[[str], Path]) -> None:
    path = model_py(SCALE)
    torch.save({"factor": torch.tensor([5.0])}, path.with_suffix(".pt"))
    assert load_module(path)(torch.ones(1)).tolist() == [5.0]


def test_weights_that_do_not_fit_are_refused_with_both_files(model_py: Callable[[str], Path]) -> None:
    path = model_py(SCALE)
    torch.save({"other": torch.tensor([5.0])}, path.with_suffix(".pt"))
    with pytest.raises(ModuleError, match=r"the weights in '.*model\.pt' do not fit 'Scale' of '.*model\.py': "):
        load_module(path)


def test_a_file_without_a_module_is_refused(model_py: Callable[[str], Path]) -> None:
    path = model_py("from torch.nn import Linear\nclass Other: pass\n")
    with pytest.raises(
        ModuleError, match=r"cannot find a subclass of torch\.nn\.Module in the provided model file '.*"
    ):
        load_module(path)


def test_of_several_classes_the_one_called_model_is_served(
    model_py: Callable[[str], Path], caplog: pytest.LogCaptureFixture
) -> None:
    source = "import torch\nclass A(torch.nn.Module): pass\nclass Model(torch.nn.Module): pass\n"
    assert type(load_module(model_py(source))).__name__ == "Model"
    assert not caplog.records


def test_of_several_other_classes_the_first_by_name_is_served_with_a_warning(
    model_py: Callable[[str], Path], caplog: pytest.LogCaptureFixture
) -> None:
    source = "import torch\nclass Net(torch.nn.Module): pass\nclass Block(torch.nn.Module): pass\n"
    with caplog.at_level(logging.WARNING, "infer.torch"):
        assert type(load_module(model_py(source))).__name__ == "Block"
    assert "(Block, Net); Block is served. Call the one to serve 'Model'" in caplog.text


def test_what_the_user_s_code_raises_passes(model_py: Callable[[str], Path]) -> None:
    with pytest.raises(ZeroDivisionError):
        load_module(model_py("1 / 0"))


def test_arguments_of_python_have_names_kinds_and_defaults() -> None:
    def forward(
        x: torch.Tensor, words: list[str], named: dict[str, torch.Tensor], more: Any, last: int = 3
    ) -> None: ...

    forward.__annotations__ = {
        "x": torch.Tensor,
        "words": list[str],
        "named": dict[str, torch.Tensor],
        "more": Any,
        "last": int,
    }
    assert python_arguments(forward, 5) == [
        Argument("x", TENSOR),
        Argument("words", STRINGS),
        Argument("named", DICTIONARY),
        Argument("more", ANYTHING),
        Argument("last", ANYTHING, required=False),
    ]


def test_a_forward_with_any_number_of_arguments_takes_every_input() -> None:
    def forward(x: Any, *others: Any, **options: Any) -> None: ...

    assert [argument.name for argument in python_arguments(forward, 3)] == ["x", "argument 1", "argument 2"]


def test_annotations_that_cannot_be_resolved_say_nothing() -> None:
    def forward(x: Any) -> None: ...

    forward.__annotations__ = {"x": "NotThere"}
    assert python_arguments(forward, 1) == [Argument("x", ANYTHING)]


class Rich(torch.nn.Module):
    def forward(
        self,
        x: torch.Tensor,
        words: list[str],
        named: dict[str, torch.Tensor],
        y: torch.Tensor | None = None,
        k: int = 1,
    ) -> torch.Tensor:
        return x


def test_arguments_of_torchscript_have_names_kinds_and_defaults() -> None:
    assert script_arguments(torch.jit.script(Rich())) == [
        Argument("x", TENSOR),
        Argument("words", STRINGS),
        Argument("named", DICTIONARY),
        Argument("y", TENSOR, required=False),
        Argument("k", "int", required=False),
    ]
