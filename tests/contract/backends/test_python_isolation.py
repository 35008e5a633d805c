"""The worker stands alone: a copy of its folder serves, and little is imported before a model asks for it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import infer.backends.python.worker as worker_package

if TYPE_CHECKING:
    Rig = Any

WORKER = Path(worker_package.__file__).parent
SHOW = """
class TritonPythonModel:
    def execute(self, requests):
        names = [type(requests[0]).__module__, *sorted(n for n in sys.modules if n.partition(".")[0] == "infer")]
        return [Response([T("OUT", np.array(names, dtype=np.object_))])]
"""


async def test_a_copy_of_the_worker_serves_under_another_name_without_the_package(rig: Rig, tmp_path: Path) -> None:
    copy = tmp_path / "cache" / "copied_worker"
    shutil.copytree(WORKER, copy, ignore=shutil.ignore_patterns("__pycache__"))
    start = f"import sys; sys.path.append({str(copy.parent)!r}); from copied_worker.zygote import main; "
    command = (sys.executable, "-c", f"{start}main(int(sys.argv[1]))")
    rig.backend.zygote._context = replace(rig.backend.context, worker_command=command)
    instance = await rig.load("show", SHOW)
    response = await rig.infer(instance, IN=np.zeros(1, np.int32))
    assert response.outputs["OUT"].as_numpy().tolist() == [b"copied_worker.request"]


def test_the_zygote_imports_numpy_and_little_else() -> None:
    code = (
        "import sys; import infer.backends.python.worker.zygote; "
        "print(*sorted({name.partition('.')[0] for name in sys.modules} & set(sys.argv[1:])))"
    )
    unwanted = ["asyncio", "typer", "uvloop", "falcon", "uvicorn", "google", "tritonclient", "ml_dtypes", "onnxruntime"]
    result = subprocess.run(
        [sys.executable, "-c", code, "numpy", *unwanted], capture_output=True, text=True, check=True
    )
    assert result.stdout.split() == ["numpy"]


def test_the_worker_imports_nothing_of_ours_outside_its_folder() -> None:
    code = "import sys; import infer.backends.python.worker.zygote; print(*(n for n in sys.modules if 'infer' in n))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    parents = {"infer", "infer.backends", "infer.backends.python"}
    ours = {name for name in result.stdout.split() if name.partition(".")[0] == "infer"}
    assert {name for name in ours - parents if not name.startswith("infer.backends.python.worker")} == set()
