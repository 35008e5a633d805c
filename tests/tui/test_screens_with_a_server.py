"""The screens of machine, log and calls in front of a real server process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from infer.tui.app import DashboardApp
from infer.tui.client import Client
from infer.tui.source import ServerSource
from infer.tui.widgets.model_form import Field

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.conftest import ServerProcess

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def server(start_module_server: Any, root: Path) -> ServerProcess:
    repository = f"--model-repository={root / 'model_repository'}"
    chosen = ["--model-control-mode=explicit", "--load-model=simple", "--load-model=identity"]
    process: ServerProcess = start_module_server(repository, *chosen)
    return process


@pytest.fixture
def open_app(server: ServerProcess) -> Callable[..., DashboardApp]:
    """A dashboard of the real server, over its operator's door: without the key it may look and call."""
    return lambda key="": DashboardApp(ServerSource(Client(server.operator, 10.0, key)), interval_s=0.25)


def text(app: Any) -> str:
    strips = app.screen._compositor.render_strips()
    return "\n".join("".join(segment.text for segment in strip) for strip in strips)


async def test_the_machine_of_a_server(open_app: Any, until: Any, server: ServerProcess) -> None:
    app = open_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: len(app.history.pictures) > 1, "two pictures")
        await pilot.press("2")
        await until(pilot, lambda: f"pid {server.process.pid}" in text(app), "the server")
        await until(pilot, lambda: "of a core" in text(app), "what it costs")
        for words in ("workers", "CPUs, load", "B of"):
            assert words in text(app)
        assert "GPU 0" in text(app) or "none: no" in text(app)


async def test_the_log_is_not_shown_to_who_has_no_key(open_app: Any, until: Any) -> None:
    app = open_app()
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: app.history.latest, "a picture")
        await pilot.press("3")
        await until(pilot, lambda: "log lines want the server's control key" in text(app), "the reason")


async def test_the_log_of_a_server(open_app: Any, until: Any, server: ServerProcess) -> None:
    app = open_app(server.control_key)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: app.history.latest, "a picture")
        await pilot.press("3")
        await until(pilot, lambda: "successfully loaded 'simple'" in text(app), "the log")
        await pilot.press("slash", *"identity", "enter")
        await until(pilot, lambda: "'simple'" not in text(app), "the filtered log")


async def test_a_call_of_a_model_and_what_it_says_to_wrong_values(open_app: Any, until: Any, run_infer: Any) -> None:
    app = open_app()
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: app.history.latest, "a picture")
        app.go("try", "simple")
        await until(pilot, lambda: len(app.screen.query(Field)) == 2, "the form")
        assert "INPUT0  INT32 [-1, 16]" in text(app)
        await pilot.press("ctrl+s")
        await until(pilot, lambda: "OUTPUT1  INT32 [1, 16]" in text(app), "the answer")
        assert "[0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30]" in text(app)
        await pilot.press("ctrl+y")
        assert f"{app.history.latest.server.http}/v2/models/simple/versions/1/infer" in app.clipboard
        app.screen.query(Field).first().value = "[1,2,3]"
        await pilot.press("ctrl+s")
        await until(pilot, lambda: "has the wrong shape" in text(app), "the sentence")
