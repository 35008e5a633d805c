"""How the screens look, at the smallest size and at a larger one: compared with the pictures in payloads/screens.

Where a screen is meant to look another way now, `INFER_UPDATE_SCREENS=1 pytest tests/tui/test_looks.py` writes the
pictures anew; look at what changed before it is committed.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

import pytest

from infer.tui.app import DashboardApp
from infer.tui.demo import DemoServer
from infer.tui.places import PLACES
from infer.tui.widgets import banner
from infer.tui.widgets.model_table import ModelTable

if TYPE_CHECKING:
    from pathlib import Path

    from infer.tui.snapshot import Overview

pytestmark = pytest.mark.slow

START = 1_800_000_000.0
PICTURES = 90

SCREENS: dict[str, tuple[str, ...]] = {
    "models": ("R", "j", "j"),
    "marked": ("j", "space", "space", "slash", "e", "enter"),
    "model": ("R", "g", "enter"),
    "unload": ("R", "g", "j", "u"),
    "light": ("t",),
}
"""By name: the keys that lead there."""


class Demo(DemoServer):
    """A made-up server whose clock goes on by a second with every picture, and stands still between them."""

    def __init__(self) -> None:
        self.now = START
        super().__init__(clock=lambda: self.now, pause=lambda _: None)

    def overview(self) -> Overview:
        self.now += 1.0
        return super().overview()


def normal(picture: str) -> str:
    """A picture without the number that Rich makes of its contents for the names of its classes."""
    return re.sub(r"terminal-\d+", "terminal", picture)


@pytest.mark.parametrize("size", [(80, 24), (120, 40)], ids=["80x24", "120x40"])
@pytest.mark.parametrize("name", SCREENS)
async def test_a_screen_looks_as_it_did(
    name: str, size: tuple[int, int], root: Path, until: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    monkeypatch.setattr(banner, "available", lambda: PLACES)
    demo = Demo()
    app = DashboardApp(demo, owned=True, interval_s=3600.0)
    for _ in range(PICTURES):
        app.history.add(demo.overview())
    async with app.run_test(size=size) as pilot:
        await until(pilot, lambda: len(app.history.pictures) > PICTURES, "the last picture")
        await until(pilot, lambda: app.screen.query_one(ModelTable).titled, "the table")
        for key in SCREENS[name]:
            await pilot.press(key)
            await pilot.pause()
        await pilot.pause()
        drawn = normal(app.export_screenshot(title="infer"))
    kept = root / "tests" / "payloads" / "screens" / f"{name}-{size[0]}x{size[1]}.svg"
    if os.environ.get("INFER_UPDATE_SCREENS"):
        kept.write_text(drawn)
    assert kept.exists(), "there is no picture of this screen; INFER_UPDATE_SCREENS=1 makes it"
    assert drawn == kept.read_text(), "it looks different now; INFER_UPDATE_SCREENS=1 takes that over"
