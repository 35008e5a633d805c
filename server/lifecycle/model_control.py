"""Loading and unloading as models do it (BLS): the port ModelControl over the engine.

A load that a model starts in ``initialize`` is waited for by its own load. Loads of one model take turns, so a model
that loads itself, or one that waits for it, would wait for ever; that is seen here and refused.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Protocol

from ...backends.api.errors import InvalidArgument, Unavailable
from .overrides import LoadOverrides

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

    from .models import ServedModel

NOT_EXPLICIT = "explicit model load / unload is not allowed if polling is enabled"
"""Triton's sentence for every control mode but explicit."""


class Engine(Protocol):
    """What is needed of the engine."""

    control_mode: str

    async def load(self, name: str, overrides: LoadOverrides | None = None) -> None: ...  # noqa: D102  the engine's own

    async def unload(self, name: str, *, wait: bool = True, unload_dependents: bool = False) -> None: ...  # noqa: D102  likewise

    def find(self, name: str, version: int | None = None) -> ServedModel: ...  # noqa: D102  likewise


class EngineControl:
    """Serving loop only."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._waits: dict[str, list[str]] = {}
        """Models that are being loaded, and those whose change they wait for."""

    async def load(self, name: str, config: str | None, files: Mapping[str, bytes], *, within: str = "") -> None:
        """Load a model. Raises InferError."""
        self._check_mode()
        with self._waiting(within, name):
            await self._engine.load(name, LoadOverrides(config, files))

    async def unload(self, name: str, *, dependents: bool = False, within: str = "") -> None:
        """Stop serving a model, without waiting for its requests. Raises InferError."""
        self._check_mode()
        with self._waiting(within, name):
            await self._engine.unload(name, wait=False, unload_dependents=dependents)

    async def is_ready(self, name: str, version: str = "") -> bool:
        """Whether a version takes requests, with the model's own word on it. Raises InferError."""
        if version and not (version.isascii() and version.isdecimal()):
            msg = f"model version '{version}' of model '{name}' is no number; give one such as '1', or '' for any"
            raise InvalidArgument(msg)
        return await self._engine.find(name, int(version) if version else None).probe_ready()

    def _check_mode(self) -> None:
        if self._engine.control_mode != "explicit":
            raise Unavailable(NOT_EXPLICIT)

    @contextlib.contextmanager
    def _waiting(self, waiter: str, name: str) -> Generator[None]:
        """Note who waits for whom. Raises InvalidArgument where that comes back to the waiter."""
        if not waiter:
            yield
            return
        path = self._path(name, waiter)
        if path:
            loop = " → ".join(f"'{each}'" for each in (waiter, *path))
            msg = f"model '{waiter}' is being loaded, and this would wait for that load to end: {loop}"
            raise InvalidArgument(msg)
        waited = self._waits.setdefault(waiter, [])
        waited.append(name)
        try:
            yield
        finally:
            waited.remove(name)
            if not waited:
                self._waits.pop(waiter, None)

    def _path(self, start: str, goal: str) -> tuple[str, ...]:
        """The models from ``start`` to ``goal``, each waiting for the next one; () where there is no such way."""
        seen: set[str] = set()
        paths: list[tuple[str, ...]] = [(start,)]
        while paths:
            path = paths.pop()
            if path[-1] == goal:
                return path
            if path[-1] not in seen:
                seen.add(path[-1])
                paths.extend((*path, each) for each in self._waits.get(path[-1], ()))
        return ()
