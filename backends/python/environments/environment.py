"""An execution environment that is ready: a folder with an interpreter, and what using it means for a process."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...api.errors import LoadFailed

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from .commands import Job

OLDEST = (3, 8)
"""The oldest Python that the worker's code runs on."""

_PROBE = "import sys; print('%d.%d' % sys.version_info[:2]); import numpy; print(numpy.__version__)"
_BEGIN = (
    "import sys; sys.path[0] = {folder!r}; from {package} import zygote; del sys.path[0]; zygote.main(int(sys.argv[1]))"
)


@dataclass(frozen=True, slots=True)
class Environment:
    """A folder as ``python -m venv`` or conda makes it, with an interpreter that has numpy."""

    folder: Path

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.folder / "bin" / "python"

    def command(self, code: Path) -> tuple[str, ...]:
        """The command line that becomes a worker zygote; ``code`` is the package of the worker's code.

        The package's folder is on the path only while the zygote is imported: models must not find it.
        """
        return (str(self.python), "-c", _BEGIN.format(folder=str(code.parent), package=code.name))

    def activated(self, environ: Mapping[str, str], *, libraries: bool = False) -> dict[str, str]:
        """The variables of a process that runs in it, as its ``activate`` script would set them.

        ``libraries`` is for the interpreter itself, which finds the environment's shared libraries that way; a
        program that the model starts has them no more.
        """
        variables = dict(environ)
        variables.pop("PYTHONHOME", None)
        variables["VIRTUAL_ENV"] = str(self.folder)
        variables["VIRTUAL_ENV_PROMPT"] = self.folder.name
        variables["PATH"] = _prepended(str(self.folder / "bin"), variables.get("PATH", ""))
        original = variables.pop("LD_LIBRARY_PATH_ORIG", None)
        if original is not None:
            # A single-file server points the variable at its own libraries and keeps what was there before.
            variables["LD_LIBRARY_PATH"] = original
        if libraries:
            variables["LD_LIBRARY_PATH"] = _prepended(str(self.folder / "lib"), variables.get("LD_LIBRARY_PATH", ""))
        return variables


def open_folder(folder: Path, job: Job, *, activate: bool = False, source: Path | None = None) -> Environment:
    """The environment in a folder, its interpreter tried out. Blocking.

    ``activate``: it must have Triton's sign of an environment, ``bin/activate``. ``source`` is what its user knows it
    by, where that is not the folder. Raises LoadFailed, saying what it lacks.
    """
    environment = Environment(folder)
    wanted = ["bin/activate", "bin/python"] if activate else ["bin/python"]
    for name in wanted:
        if not (folder / name).exists():
            msg = f"execution environment '{source or folder}' has no {name}; give a virtual or conda environment"
            raise LoadFailed(msg)
    check_interpreter(environment, job, source)
    return environment


def check_interpreter(environment: Environment, job: Job, source: Path | None = None) -> None:
    """Raise LoadFailed unless the interpreter runs, is new enough and has numpy; ``source`` as above. Blocking."""
    python = f"bin/python of the execution environment '{source or environment.folder}'"
    variables = environment.activated(os.environ, libraries=True)
    code, lines = job.run([str(environment.python), "-c", _PROBE], environ=variables)
    said = " | ".join(lines[-3:])
    if not lines or not lines[0].replace(".", "").isdigit():
        msg = f"{python} does not run: {said or f'exit status {code}'}"
        raise LoadFailed(msg)
    if tuple(int(part) for part in lines[0].split(".")) < OLDEST:
        msg = f"{python} is Python {lines[0]}; workers need {OLDEST[0]}.{OLDEST[1]} or newer"
        raise LoadFailed(msg)
    if code != 0:
        msg = f"{python} (Python {lines[0]}) cannot import numpy: {lines[-1]}; install numpy into the environment"
        raise LoadFailed(msg)


def _prepended(first: str, rest: str) -> str:
    return f"{first}{os.pathsep}{rest}" if rest else first
