"""Which versions of a model are loaded. Pure. Rules: Triton's ``version_policy`` (latest, all, specific)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...backends.api.errors import LoadFailed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...backends.api.model_config import VersionPolicy


def choose(name: str, available: Sequence[int], policy: VersionPolicy) -> tuple[int, ...]:
    """The versions to load, ascending.

    Raises LoadFailed where the policy leaves none.
    """
    ordered = sorted(available)
    if policy.specific is not None:
        chosen = [version for version in ordered if version in policy.specific]
    elif policy.latest is not None:
        chosen = ordered[-policy.latest :]
    else:
        chosen = ordered
    if not chosen:
        found = ", ".join(map(str, ordered)) or "none"
        msg = (
            f"at least one version must be available under the version policy of model '{name}'"
            f" (version folders found: {found})"
        )
        raise LoadFailed(msg)
    return tuple(chosen)
