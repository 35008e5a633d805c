"""The app around the screens: navigation, leaving, what it says of its server."""

from __future__ import annotations

from typing import Any

from infer.tui.screens.help import HelpScreen


async def test_the_first_picture_is_shown_as_soon_as_it_comes(make_app: Any, until: Any) -> None:
    app = make_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: app.history.latest, "a picture")
        assert "2/2 ready" in app.export_screenshot().replace("&#160;", " ")


async def test_help_opens_and_closes(make_app: Any) -> None:
    app = make_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("question_mark")
        assert isinstance(app.screen, HelpScreen)
        await pilot.press("escape")
        assert app.screen is app.front
