"""What a quick command imports, seen from inside a process that has run it."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

HEAVY = {"torch", "onnxruntime", "grpc", "textual", "falcon", "uvicorn", "uvloop", "waitress", "numpy", "google"}

PROBE = """
import json, sys
sys.argv = ["infer", *{words!r}]
from infer.app.cli import main
try:
    main()
except SystemExit:
    pass
finally:
    sys.stderr.write("\\nMODULES " + json.dumps(sorted(sys.modules)))
"""


def modules_after(*words: str) -> set[str]:
    """The modules that a process has imported once it has run `infer` with these words."""
    script = PROBE.format(words=list(words))
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    return set(json.loads(done.stderr.rpartition("MODULES ")[2]))


@pytest.mark.parametrize(
    "words",
    [
        ["--help"],
        ["model", "list", "--url", "http://127.0.0.1:9"],
        ["model", "ready", "m", "--url", "http://127.0.0.1:9"],
        ["version"],
        ["status"],
        ["down"],
        ["logs", "--url", "http://127.0.0.1:9"],
        ["serve", "--help"],
    ],
    ids=" ".join,
)
def test_a_quick_command_imports_no_runtime_and_no_door(words: list[str]) -> None:
    imported = {name.partition(".")[0] for name in modules_after(*words)}
    assert not imported & HEAVY


def test_the_help_of_the_tree_imports_no_command() -> None:
    commands = {name.removeprefix("infer.app.cli.") for name in modules_after("--help") if "infer.app.cli." in name}
    assert commands == {"root", "tree"}


def test_a_server_without_pytorch_models_does_not_import_torch(root: Path) -> None:
    script = (
        "import sys, infer\n"
        "with infer.Server(model_repository=sys.argv[1], model_control_mode='explicit', load_model=('simple',)):\n"
        "    print('torch' in sys.modules)"
    )
    words = [sys.executable, "-c", script, str(root / "model_repository")]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == ["False"]


def test_a_helper_process_is_chosen_before_the_command_line_library_is_imported() -> None:
    script = "import sys; import infer.app.cli; print('typer' in sys.modules, 'uvloop' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == ["False", "False"]


def test_importing_the_package_imports_nothing_else() -> None:
    script = "import sys; before = set(sys.modules); import infer; print(*sorted(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert not {name.partition(".")[0] for name in done.stdout.split()} & HEAVY
    assert not [name for name in done.stdout.split() if name.startswith("infer.")]
