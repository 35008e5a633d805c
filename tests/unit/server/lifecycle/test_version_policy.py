"""The version policy chooses among what the repository holds."""

from __future__ import annotations

import pytest

from infer.backends.api.errors import LoadFailed
from infer.backends.api.model_config import VersionPolicy
from infer.server.lifecycle.version_policy import choose

ALL = VersionPolicy(latest=None)


@pytest.mark.parametrize(
    ("available", "policy", "chosen"),
    [
        ((1, 2, 10), VersionPolicy(), (10,)),
        ((10, 1, 2), VersionPolicy(latest=2), (2, 10)),
        ((1,), VersionPolicy(latest=5), (1,)),
        ((3, 1, 2), ALL, (1, 2, 3)),
        ((1, 2, 3), VersionPolicy(latest=None, specific=(3, 1, 9)), (1, 3)),
    ],
)
def test_the_policy_chooses(available: tuple[int, ...], policy: VersionPolicy, chosen: tuple[int, ...]) -> None:
    assert choose("m", available, policy) == chosen


@pytest.mark.parametrize(
    ("available", "policy", "found"),
    [((), VersionPolicy(), "none"), ((1, 2), VersionPolicy(latest=None, specific=(3,)), "1, 2"), ((), ALL, "none")],
)
def test_no_version_left_is_an_error_that_says_what_was_there(
    available: tuple[int, ...], policy: VersionPolicy, found: str
) -> None:
    with pytest.raises(LoadFailed, match=f"at least one version must be available .* model 'm' .*found: {found}"):
        choose("m", available, policy)
