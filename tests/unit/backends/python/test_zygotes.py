"""A zygote an environment: made when it is needed, one for all its models, ended with it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from infer.backends.api.backend import BackendContext
from infer.backends.python.environments.environment import Environment
from infer.backends.python.zygotes import Zygotes

if TYPE_CHECKING:
    from collections.abc import Callable

ONE, OTHER = Environment(Path("/opt/one")), Environment(Path("/opt/other"))


@pytest.fixture
def zygotes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Zygotes:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    loop = asyncio.new_event_loop()
    loop.close()

    async def run_blocking(function: Callable[..., Any], /, *args: Any) -> Any:
        return function(*args)

    caller: Any = None
    return Zygotes(BackendContext(loop, run_blocking, caller))


async def test_models_without_an_environment_share_the_servers_own(zygotes: Zygotes) -> None:
    assert await zygotes.of(None) is zygotes.own


async def test_models_of_one_environment_share_a_zygote_and_others_have_another(zygotes: Zygotes) -> None:
    one, again, other = await asyncio.gather(
        zygotes.of(ONE), zygotes.of(Environment(Path("/opt/one"))), zygotes.of(OTHER)
    )
    assert one is again
    assert len({id(each) for each in (one, other, zygotes.own)}) == 3


async def test_an_environment_that_is_retired_gets_a_new_zygote_the_next_time(zygotes: Zygotes) -> None:
    first = await zygotes.of(ONE)
    await zygotes.retire(ONE)
    await zygotes.retire(OTHER)
    assert await zygotes.of(ONE) is not first
    await zygotes.stop()
