"""Loading and unloading as the protocol's doors allow it, and what a load may be given."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...backends.api.errors import InvalidArgument, Unavailable, Unsupported

if TYPE_CHECKING:
    from ..engine import Engine

NOT_EXPLICIT = "explicit model load / unload is not allowed if polling is enabled"


def check_control(engine: Engine, model: str, repository: str) -> None:
    """Raises where models may not be loaded through a client's door, and for names that name no model.

    Unsupported for a named repository, Unavailable in another control mode than explicit, InvalidArgument for a name
    that is blank or a path.
    """
    if repository:
        msg = "'repository_name' specification is not supported"
        raise Unsupported(msg)
    if engine.control_mode != "explicit":
        raise Unavailable(NOT_EXPLICIT)
    if not model.strip():
        msg = "Model name cannot be empty. Please enter a valid name to deploy."
        raise InvalidArgument(msg)
    if ".." in model or "/" in model:
        msg = f"model name must not contain path traversal characters, got '{model}'"
        raise InvalidArgument(msg)
