"""The dashboard on a server of its own process: every screen and every action against what really answers."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import urllib.request
from typing import TYPE_CHECKING, Any

import pytest

from infer.tui.app import DashboardApp
from infer.tui.cadence import State
from infer.tui.client import Client
from infer.tui.screens.confirm import ConfirmScreen
from infer.tui.screens.model import ModelScreen
from infer.tui.screens.results import ResultsScreen
from infer.tui.source import ServerSource
from infer.tui.widgets.model_table import ModelTable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

pytestmark = pytest.mark.slow

BROKEN = 'backend: "python"\nmax_batch_size: 0\n'


@pytest.fixture(scope="module")
def server(start_module_server: Any, root: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A server with `simple` loaded, `identity` not, and `broken`, which cannot be."""
    repository = tmp_path_factory.mktemp("models")
    for name in ("simple", "identity"):
        shutil.copytree(root / "model_repository" / name, repository / name)
    (repository / "broken" / "1").mkdir(parents=True)
    (repository / "broken" / "config.pbtxt").write_text(BROKEN)
    (repository / "broken" / "1" / "model.py").write_text("raise RuntimeError('made to fail')\n")
    return start_module_server(
        f"--model-repository={repository}", "--model-control-mode=explicit", "--load-model=simple"
    )


@pytest.fixture
def dashboard(server: Any, until: Any) -> Any:
    """Runs a dashboard on the server: ``async with dashboard() as (app, pilot)``."""

    @contextlib.asynccontextmanager
    async def run(key: str = server.control_key) -> AsyncIterator[Any]:
        app = DashboardApp(ServerSource(Client(server.operator, key=key)), interval_s=0.25)
        async with app.run_test(size=(120, 40), notifications=True) as pilot:
            await until(pilot, lambda: app.history.latest and app.screen.query_one(ModelTable).rows_shown, "a picture")
            yield app, pilot

    return run


def state(app: Any, name: str) -> str:
    return app.history.latest.model(name).state


async def choose(app: Any, pilot: Any, name: str) -> None:
    app.front.aim(name)
    await pilot.pause()
    assert app.front.subject == name


async def test_models_are_loaded_reloaded_and_unloaded(dashboard: Any, until: Any, screen_text: Any) -> None:
    async with dashboard() as (app, pilot):
        assert state(app, "identity") == ""
        await choose(app, pilot, "identity")
        for key, verb, after in (("o", "load", "READY"), ("r", "reload", "READY"), ("u", "unload", "UNAVAILABLE")):
            await pilot.press(key)
            await pilot.pause()
            assert isinstance(app.screen, ConfirmScreen)
            await pilot.press("y")
            done = f"identity {verb.removesuffix('load')}loaded in"
            await until(pilot, lambda done=done: done in screen_text(app), done)
            await until(pilot, lambda after=after: state(app, "identity") == after, f"{verb} in the table")


async def test_a_model_that_cannot_be_loaded_says_why(dashboard: Any, until: Any, screen_text: Any) -> None:
    async with dashboard() as (app, pilot):
        await choose(app, pilot, "broken")
        await pilot.press("o", "y")
        await until(pilot, lambda: isinstance(app.screen, ResultsScreen), "the result")
        await pilot.pause()
        assert "made to fail" in screen_text(app)
        await pilot.press("enter")
        await until(pilot, lambda: state(app, "broken") == "UNAVAILABLE", "the state")
        await until(pilot, lambda: "made to fail" in screen_text(app), "the reason below the table")


async def test_several_models_are_changed_at_once(dashboard: Any, until: Any, screen_text: Any) -> None:
    async with dashboard() as (app, pilot):
        for name in ("broken", "identity"):
            await choose(app, pilot, name)
            await pilot.press("space")
        await pilot.press("o", "y")
        await until(pilot, lambda: isinstance(app.screen, ResultsScreen), "the results")
        await pilot.pause()
        assert "1 of 2 loaded" in screen_text(app)
        await pilot.press("enter")
        await until(pilot, lambda: state(app, "identity") == "READY", "the state")


async def test_without_the_key_the_keys_are_dim_and_the_reason_is_shown(dashboard: Any, screen_text: Any) -> None:
    async with dashboard(key="") as (app, pilot):
        await pilot.pause()
        assert app.refusal
        assert "read-only:" in screen_text(app)
        await pilot.press("u")
        assert app.screen is app.front


async def test_traffic_is_seen_in_the_table_and_on_the_models_screen(
    dashboard: Any, server: Any, until: Any, screen_text: Any
) -> None:
    values = list(range(16))
    tensors = [{"name": name, "shape": [1, 16], "datatype": "INT32", "data": values} for name in ("INPUT0", "INPUT1")]
    request = urllib.request.Request(f"{server.http}/v2/models/simple/infer", json.dumps({"inputs": tensors}).encode())
    async with dashboard() as (app, pilot):
        for _ in range(5):
            await asyncio.to_thread(lambda: urllib.request.urlopen(request, timeout=10).close())
        await until(pilot, lambda: app.history.rates("simple", "1").requests_s > 0, "requests a second")
        await choose(app, pilot, "simple")
        await pilot.press("enter")
        await until(pilot, lambda: "compute_infer" in screen_text(app), "the phases")
        assert app.history.rates("simple", "1").p99_us is not None
        assert "batch sizes" in screen_text(app)


@pytest.mark.parametrize(
    ("tab", "words"),
    [("io", ("INPUT0", "INT32", "OUTPUT1", "[any, 16]")), ("config", ('"name": "simple"', '"max_batch_size"')),
     ("instances", ("simple", "KIND_CPU", "restarts"))],
)  # fmt: skip
async def test_the_tabs_of_a_model_show_what_the_server_says(
    dashboard: Any, tab: str, words: tuple[str, ...], until: Any, screen_text: Any
) -> None:
    async with dashboard() as (app, pilot):
        await choose(app, pilot, "simple")
        await pilot.press("enter")
        await pilot.pause()
        assert isinstance(app.screen, ModelScreen)
        app.screen.action_tab(tab)
        await until(pilot, lambda: all(word in screen_text(app) for word in words), f"{words}")


async def test_a_server_that_dies_is_missed_and_one_that_comes_back_is_found(
    start_server: Any, root: Path, until: Any, screen_text: Any
) -> None:
    repository = f"--model-repository={root / 'model_repository'}"
    words = (repository, "--model-control-mode=explicit", "--load-model=identity")
    first = start_server(*words)
    port = first.operator.rpartition(":")[2]
    app = DashboardApp(ServerSource(Client(first.operator)), interval_s=0.25)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: app.link.state is State.LIVE, "a picture")
        first.kill()
        await until(pilot, lambda: app.link.state is State.LOST, "the loss")
        await pilot.pause()
        assert "NO ANSWER" in screen_text(app)
        assert "identity" in screen_text(app)
        second = start_server(*words, f"--metrics-port={port}")
        app.poller.now()
        await until(pilot, lambda: app.link.state is State.LIVE, "the return")
        await until(pilot, lambda: app.history.latest.server.pid == second.process.pid, "the new server")
