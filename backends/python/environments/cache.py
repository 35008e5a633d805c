"""Where environments and the worker's code are kept between runs of a server."""

from __future__ import annotations

import os
import shutil
import tempfile
from hashlib import sha256
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from ...api.errors import LoadFailed

if TYPE_CHECKING:
    from collections.abc import Mapping

_WORKER_PACKAGE = "worker"


def cache_folder(environ: Mapping[str, str]) -> Path:
    """``$XDG_CACHE_HOME/infer``, or ``~/.cache/infer``. Pure but for ``~``."""
    named = environ.get("XDG_CACHE_HOME", "")
    # The XDG rules tell to ignore a path that is not absolute.
    return (Path(named) if named.startswith("/") else Path("~/.cache").expanduser()) / "infer"


def made(folder: Path) -> Path:
    """The folder, made where it is missing, for its user only. Blocking. Raises LoadFailed.

    Code is run from it, so a folder that belongs to somebody else is refused.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        owner = folder.stat().st_uid
    except OSError as exc:
        msg = f"the cache folder '{folder}' cannot be made: {exc.strerror}; name another one with XDG_CACHE_HOME"
        raise LoadFailed(msg) from exc
    if owner != os.geteuid():
        msg = f"the cache folder '{folder}' belongs to user {owner}; name another one with XDG_CACHE_HOME"
        raise LoadFailed(msg)
    return folder


def worker_code(environ: Mapping[str, str]) -> Path:
    """The package of the worker's code, copied where any interpreter finds it. Blocking. Raises LoadFailed.

    Its folder is named by its content, so that servers of several versions run side by side. It is made apart and
    moved into its place, which succeeds for one of several servers; the others use that one's.
    """
    files = _worker_files()
    digest = sha256()
    for name, content in sorted(files.items()):
        digest.update(name.encode() + b"\0" + content + b"\0")
    parent = made(cache_folder(environ) / "worker")
    place = parent / digest.hexdigest()[:16] / "infer_worker"
    if place.is_dir():
        return place
    try:
        with tempfile.TemporaryDirectory(dir=parent, prefix=".making-") as scratch:
            package = Path(scratch) / place.parent.name / place.name
            package.mkdir(parents=True)
            for name, content in files.items():
                (package / name).write_bytes(content)
            try:
                package.parent.rename(place.parent)
            except OSError:
                if not place.is_dir():
                    raise
    except OSError as exc:
        msg = f"the worker's code cannot be copied to '{place}': {exc.strerror}"
        raise LoadFailed(msg) from exc
    return place


def _worker_files() -> dict[str, bytes]:
    """The worker's modules by name. A single-file installation has them as files or in its archive."""
    package = (__package__ or "").rpartition(".")[0]
    folder = resources.files(f"{package}.{_WORKER_PACKAGE}")
    found = {each.name: each.read_bytes() for each in folder.iterdir() if each.name.endswith(".py")}
    if not found:
        msg = f"the worker's code is not in this installation ({folder}); install infer-server from its wheel"
        raise LoadFailed(msg)
    return found


def remove(folder: Path) -> None:
    """Remove a folder with all that is in it, as far as that can be done. Blocking."""
    shutil.rmtree(folder, ignore_errors=True)
