"""Private imports: names of a model's own modules, copies of the worker's, and that both are gone afterwards."""

from __future__ import annotations

import sys
import threading
import types
from typing import TYPE_CHECKING, Any

import pytest

from infer.backends.python.worker import datatypes
from infer.backends.python.worker.loading import ModelLoadError, import_privately
from infer.backends.python.worker.space import Space

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MODEL = "import helper\nclass TritonPythonModel:\n    helper = helper\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model's folder with a version."""
    (tmp_path / "1").mkdir()
    (tmp_path / "1" / "model.py").write_text(MODEL)
    (tmp_path / "1" / "helper.py").write_text("WHO = 'helper'\n")
    return tmp_path


@pytest.fixture
def spaces() -> Iterator[list[Space]]:
    """Two spaces; afterwards neither has left a module."""
    before = set(sys.modules)
    made = [Space(lambda _, __: None) for _ in range(2)]
    yield made
    for space in made:
        space.close(empty=True)
    assert {name for name in set(sys.modules) - before if name.startswith("infer_")} == set()


def load(space: Space, folder: Path, name: str = "model.py", program: str = "") -> Any:
    return import_privately(space, str(folder / "1" / name), str(folder), program)


def test_each_space_has_modules_of_its_own_under_names_of_its_own(spaces: list[Space], folder: Path) -> None:
    one, other = (load(space, folder) for space in spaces)
    assert one is not other
    assert one.helper is not other.helper
    for space, model in zip(spaces, (one, other), strict=True):
        assert model.__module__ == f"{space.root}.1.model"
        assert model.helper.__name__ == f"{space.root}.helper"
        assert sys.modules[model.helper.__name__] is model.helper


def test_each_space_has_a_copy_of_the_workers_modules(spaces: list[Space]) -> None:
    modules = [__import__(f"{space.worker}.runtime", fromlist=["RUNTIME"]) for space in spaces]
    assert modules[0].RUNTIME is not modules[1].RUNTIME
    tables = [sys.modules[f"{space.worker}.channel"] for space in spaces]
    assert tables[0].__dict__["Channel"] is not tables[1].__dict__["Channel"]
    assert modules[0].__file__ == str(datatypes.__file__).replace("datatypes", "runtime")
    with pytest.raises(ModuleNotFoundError):
        __import__(f"{spaces[0].worker}.no_such_module")


def test_a_published_module_is_what_an_import_of_its_name_gives_in_this_space_only(
    spaces: list[Space], folder: Path
) -> None:
    (folder / "1" / "helper.py").write_text("import its_utils as utils\nfrom its_utils import WHAT\n")
    module = types.ModuleType("its_utils")
    module.__dict__["WHAT"] = 5
    spaces[0].publish("its_utils", module)
    model = load(spaces[0], folder)
    assert (model.helper.utils, model.helper.WHAT) == (module, 5)
    assert "its_utils" not in sys.modules
    with pytest.raises(ModuleNotFoundError, match="its_utils"):
        load(spaces[1], folder)


def test_a_program_of_another_folder_has_its_neighbours_and_the_models(spaces: list[Space], folder: Path) -> None:
    elsewhere = folder / "backend"
    elsewhere.mkdir()
    (elsewhere / "near.py").write_text("WHO = 'near'\n")
    program = elsewhere / "program.py"
    program.write_text(
        "from . import near\nimport helper\nclass TritonPythonModel:\n    found = near.WHO, helper.WHO\n"
    )
    assert load(spaces[0], folder, program=str(program)).found == ("near", "helper")


@pytest.mark.parametrize(
    ("name", "source", "message"),
    [
        ("model.txt", "", "must end in '.py'"),
        ("none.py", None, "not found in"),
        ("empty.py", "", "does not define a class 'TritonPythonModel'"),
    ],
)
def test_a_file_that_is_no_model_is_named(
    spaces: list[Space], folder: Path, name: str, source: str | None, message: str
) -> None:
    if source is not None:
        (folder / "1" / name).write_text(source)
    with pytest.raises(ModelLoadError, match=message):
        load(spaces[0], folder, name)


def test_a_sibling_that_fails_is_not_left_half_imported(spaces: list[Space], folder: Path) -> None:
    (folder / "1" / "helper.py").write_text("1 / 0\n")
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            load(spaces[0], folder)
    assert f"{spaces[0].root}.helper" not in sys.modules


def test_threads_are_found_by_the_models_code_in_them_wherever_they_stand_now(
    spaces: list[Space], folder: Path
) -> None:
    source = "def wait(begun, event):\n    begun.set()\n    event.wait()\n"
    (folder / "1" / "helper.py").write_text(source)
    begun, event = threading.Event(), threading.Event()
    model = load(spaces[0], folder)
    thread = threading.Thread(target=model.helper.wait, args=(begun, event), name="waits in the model")
    thread.start()
    begun.wait()
    assert spaces[0].threads() == ["waits in the model"]
    assert spaces[1].threads() == []
    event.set()
    thread.join()
    assert spaces[0].threads() == []


def test_functions_registered_for_the_end_are_called_once_the_last_first(spaces: list[Space], folder: Path) -> None:
    (folder / "1" / "helper.py").write_text("import atexit\n")
    helper = load(spaces[0], folder).helper
    called: list[Any] = []
    helper.atexit.register(called.append, "first")
    helper.atexit.register(called.append, "last")
    assert helper.atexit._ncallbacks() >= 0, "all but two names are the real module's"
    spaces[0].run_exits()
    spaces[0].run_exits()
    assert called == ["last", "first"]


@pytest.mark.parametrize("empty", [True, False])
def test_what_modules_hold_goes_with_them_unless_something_still_runs_in_them(folder: Path, *, empty: bool) -> None:
    space = Space(lambda _, __: None)
    (folder / "1" / "helper.py").write_text("HELD = [1]\ndef function():\n    return HELD\n")
    function = load(space, folder).helper.function
    space.close(empty=empty)
    if empty:
        with pytest.raises(NameError):
            function()
    else:
        assert function() == [1]


def test_closing_is_not_disturbed_by_imports_of_other_threads(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Importing(str):
        """A module's name; to look at it has another thread import a module."""

        __slots__ = ()

        def partition(self, sep: str, /) -> tuple[str, str, str]:
            monkeypatch.setitem(sys.modules, "imported_meanwhile", types.ModuleType("imported_meanwhile"))
            return super().partition(sep)

    space = Space(lambda _, __: None)
    load(space, folder)
    monkeypatch.setitem(sys.modules, Importing("looked_at"), types.ModuleType("looked_at"))
    space.close(empty=True)
    assert "imported_meanwhile" in sys.modules
    assert [name for name in list(sys.modules) if name.startswith((space.root, space.worker))] == []
