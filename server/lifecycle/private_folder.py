"""A folder of its own for a model whose files came with its load; it goes when nothing serves from it any more."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from ...backends.api.errors import InferError, InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Self

    from ...backends.api.backend import RunBlocking

log = logging.getLogger("infer.lifecycle")

PREFIX = "infer-model-"
"""How the names of these folders begin, in the system's folder for temporary files."""


class PrivateFolder:
    """A temporary repository with one model in it. Serving loop only; the pool writes and removes it.

    Who makes it holds it, and so does every version that is opened from it; the last one to let go removes it.
    """

    def __init__(self, repository: Path, run_blocking: RunBlocking) -> None:
        self.repository = repository
        self._run_blocking = run_blocking
        self._holders = 1

    @classmethod
    async def build(cls, name: str, files: Mapping[str, bytes], run_blocking: RunBlocking) -> Self:
        """Write the files (normal paths within the model's folder). Raises InvalidArgument where that cannot be."""
        writing = asyncio.ensure_future(run_blocking(_write, name, files))
        try:
            return cls(await asyncio.shield(writing), run_blocking)
        except asyncio.CancelledError:
            # The thread that writes cannot be stopped, and nobody else would know of what it leaves.
            with contextlib.suppress(InferError):
                await cls(await writing, run_blocking).release()
            raise

    def hold(self) -> Self:
        """Keep it until one more ``release``."""
        self._holders += 1
        return self

    async def release(self) -> None:
        """Let go of it."""
        self._holders -= 1
        if not self._holders:
            await self._run_blocking(_remove, self.repository)


def _write(name: str, files: Mapping[str, bytes]) -> Path:
    try:
        repository = Path(tempfile.mkdtemp(prefix=PREFIX)).resolve()
    except OSError as exc:
        msg = f"no temporary folder can be made for the files of model '{name}': {exc.strerror}"
        raise InvalidArgument(msg) from exc
    try:
        _fill(repository / name, files)
    except BaseException:
        _remove(repository)
        raise
    return repository


def _fill(folder: Path, files: Mapping[str, bytes]) -> None:
    path = folder
    try:
        path.mkdir()
        for relative, content in files.items():
            path = folder / relative
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
    except (OSError, ValueError) as exc:
        reason = exc.strerror if isinstance(exc, OSError) else "the name holds characters that no file's can"
        msg = f"file override {str(path.relative_to(folder))[:200]!r} cannot be written: {reason}"
        raise InvalidArgument(msg) from exc


def _remove(repository: Path) -> None:
    try:
        shutil.rmtree(repository)
    except OSError as exc:
        log.warning("temporary model folder '%s' could not be removed: %s", repository, exc.strerror)
