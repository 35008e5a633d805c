"""The port through which a model loads and unloads others of its server. Given at load, never imported."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from .errors import Unsupported

if TYPE_CHECKING:
    from collections.abc import Mapping


class ModelControl(Protocol):
    """Changes which models are served. Serving loop only.

    ``within`` is the model whose loading waits for the answer, "" where none does: what would wait for itself is
    refused.
    """

    async def load(self, name: str, config: str | None, files: Mapping[str, bytes], *, within: str = "") -> None:
        """Load a model; ``config`` and ``files`` (by path in its folder) take the place of its repository's.

        Raises InferError where it does not load, and in another control mode than explicit.
        """
        ...

    async def unload(self, name: str, *, dependents: bool = False, within: str = "") -> None:
        """Stop serving a model; what it holds is still answered. Raises InferError as :meth:`load` does."""
        ...

    async def is_ready(self, name: str, version: str = "") -> bool:
        """Whether a version takes requests. Raises InferError for one that does not serve, or is no number."""
        ...


class NoModelControl:
    """The port where there is no server behind it. Raises Unsupported."""

    async def load(self, name: str, config: str | None, files: Mapping[str, bytes], *, within: str = "") -> None:  # noqa: ARG002, D102  the port's signature
        raise _none(name)

    async def unload(self, name: str, *, dependents: bool = False, within: str = "") -> None:  # noqa: ARG002, D102  likewise
        raise _none(name)

    async def is_ready(self, name: str, version: str = "") -> bool:  # noqa: ARG002, D102  likewise
        raise _none(name)


def _none(name: str) -> Unsupported:
    return Unsupported(f"model '{name}' cannot be reached: there is no server with other models here")
