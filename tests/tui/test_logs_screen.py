"""The log screen follows, filters, searches, and asks only while somebody looks."""

from __future__ import annotations

from typing import Any

import pytest

from infer.tui.demo import DemoServer
from infer.tui.failure import ClientError
from infer.tui.screens import logs
from infer.tui.screens.logs import LogsScreen
from infer.tui.snapshot import LogPage, LogRecord
from infer.tui.widgets.log_lines import LogLines

START = 1_800_000_000.0


class Logged(DemoServer):
    """The made-up server with a log that a test writes."""

    def __init__(self) -> None:
        super().__init__(lambda: START, lambda _: None)
        self.records: list[LogRecord] = []
        self.gone = 0
        self.asked: list[int | None] = []
        self.error: ClientError | None = None

    def say(self, *messages: str, level: str = "INFO", model: str = "") -> None:
        for message in messages:
            seq = self.gone + len(self.records) + 1
            self.records.append(LogRecord(seq, START + seq, level, message, model=model))

    def log(self, *, after: int | None = None, limit: int = 200, level: str = "", model: str = "") -> LogPage:
        self.asked.append(after)
        if self.error is not None:
            raise self.error
        last = self.records[-1].seq if self.records else 0
        fitting = [record for record in self.records if record.seq > (after or 0)]
        lost = max(0, self.records[0].seq - after - 1) if after is not None and self.records else 0
        return LogPage(last, lost, tuple(fitting[-limit:] if after is None else fitting[:limit]))


@pytest.fixture
def logged() -> Logged:
    server = Logged()
    server.say(*(f"line {number}" for number in range(100)))
    server.say("a fault", level="ERROR", model="digits")
    server.say("odd", level="WARNING", model="simple")
    return server


def text(app: Any) -> str:
    strips = app.screen._compositor.render_strips()
    return "\n".join("".join(segment.text for segment in strip) for strip in strips)


def lines(app: Any) -> LogLines:
    return app.screen.query_one(LogLines)


async def opened(app: Any, pilot: Any, until: Any, words: str = "odd") -> None:
    await until(pilot, lambda: app.history.latest, "a picture")
    await pilot.press("3")
    await until(pilot, lambda: isinstance(app.screen, LogsScreen) and words in text(app), "the log")


async def ask(app: Any, pilot: Any, until: Any, logged: Logged) -> None:
    """Look away and back: the screen asks again at once."""
    before = len(logged.asked)
    await pilot.press("1")
    await pilot.press("3")
    await until(pilot, lambda: len(logged.asked) > before, "another question")
    await pilot.pause()


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_the_end_of_the_log_is_shown_and_followed(make_app: Any, until: Any, logged: Logged, size: Any) -> None:
    app = make_app(source=logged)
    async with app.run_test(size=size) as pilot:
        await opened(app, pilot, until)
        assert "102 lines" in text(app)
        assert "ERROR digits  a fault" in text(app)
        logged.say("the newest")
        await ask(app, pilot, until, logged)
        await until(pilot, lambda: "the newest" in text(app), "the new line")
        assert logged.asked[:2] == [None, 102]


async def test_scroll_bars_that_appear_leave_the_last_line_in_view_and_tell_the_place(
    make_app: Any, until: Any, logged: Logged
) -> None:
    app = make_app(source=logged)
    async with app.run_test(size=(120, 24)) as pilot:
        await opened(app, pilot, until)
        shown = lines(app)
        before = shown.max_scroll_y
        assert not shown.show_horizontal_scrollbar
        shown.show_horizontal_scrollbar = True
        assert shown.scroll_y == shown.max_scroll_y == before + 1
        shown.show_vertical_scrollbar = False
        shown.vertical_scrollbar.position = 0
        shown.show_vertical_scrollbar = True
        assert shown.vertical_scrollbar.position == shown.scroll_y


async def test_it_asks_only_while_it_is_in_front(
    make_app: Any, until: Any, logged: Logged, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "_SHORTEST_S", 0.05)
    app = make_app(source=logged, interval_s=0.05)
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: app.history.latest, "a picture")
        assert logged.asked == []
        await pilot.press("3")
        await until(pilot, lambda: logged.asked, "a question")
        await pilot.press("1")
        await pilot.pause(0.2)
        asked = len(logged.asked)
        await pilot.pause(0.2)
        assert len(logged.asked) == asked


async def test_reading_back_stops_following_and_the_end_follows_again(
    make_app: Any, until: Any, logged: Logged
) -> None:
    app = make_app(source=logged)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(app, pilot, until)
        await pilot.press("pageup")
        assert not lines(app).follow
        await until(pilot, lambda: "not following" in text(app), "the word")
        place = lines(app).scroll_offset.y
        logged.say("the newest")
        await ask(app, pilot, until, logged)
        await until(pilot, lambda: "103 lines" in text(app), "one more line")
        assert lines(app).scroll_offset.y == place
        assert "the newest" not in text(app)
        await pilot.press("G")
        await until(pilot, lambda: "the newest" in text(app), "the end")
        await pilot.press("g")
        await until(pilot, lambda: "line 0" in text(app), "the top")
        await pilot.press("f")
        await until(pilot, lambda: "the newest" in text(app), "the end again")


async def test_level_filter_and_model_leave_lines_out_and_escape_brings_them_back(
    make_app: Any, until: Any, logged: Logged
) -> None:
    app = make_app(source=logged)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(app, pilot, until)
        await pilot.press("v", "v")
        await until(pilot, lambda: "WARNING and worse" in text(app) and "2 lines" in text(app), "two lines")
        await pilot.press("v", "v", "slash", *"line 9")
        await until(pilot, lambda: " 11 lines" in text(app), "lines 9 and 90 to 99")
        await pilot.press("enter")
        assert "/line 9" in text(app)
        await pilot.press("escape")
        await until(pilot, lambda: "102 lines" in text(app), "all lines")
        await pilot.press("slash", *"!line")
        await until(pilot, lambda: " 2 lines" in text(app), "what is no line")
        await pilot.press("escape", "a", *"digits", "enter")
        await until(pilot, lambda: "model digits" in text(app) and " 1 lines" in text(app), "one model")
        await pilot.press("escape")
        await until(pilot, lambda: "102 lines" in text(app), "all lines again")
        await pilot.press("escape")
        await until(pilot, lambda: app.current_mode == "models", "the models")


async def test_another_screen_sends_here_for_a_model(make_app: Any, until: Any, logged: Logged) -> None:
    app = make_app(source=logged)
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: app.history.latest, "a picture")
        app.go("logs", "simple")
        await until(pilot, lambda: "model simple" in text(app) and "odd" in text(app), "its lines")
        assert app.screen.subject == "simple"
        assert app.screen.crumbs == ("simple",)


async def test_a_search_marks_lines_and_goes_from_one_to_the_next(make_app: Any, until: Any, logged: Logged) -> None:
    app = make_app(source=logged)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(app, pilot, until)
        await pilot.press("s", *"line .0", "enter")
        await until(pilot, lambda: "of 9" in text(app), "the number of matches")
        first = lines(app).marked
        await pilot.press("n")
        assert lines(app).marked != first
        await pilot.press("N")
        assert lines(app).marked == first
        await pilot.press("s", *"nowhere", "enter")
        await until(pilot, lambda: "nowhere: 0 of 0" in text(app), "nothing found")
        assert lines(app).marked == -1
        await pilot.press("n", "escape")
        await until(pilot, lambda: "nowhere" not in text(app), "no search")


async def test_lost_lines_are_told(make_app: Any, until: Any, logged: Logged) -> None:
    app = make_app(source=logged)
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(app, pilot, until)
        logged.gone = 140
        logged.records.clear()
        logged.say("after the gap")
        await ask(app, pilot, until, logged)
        await until(pilot, lambda: "after the gap" in text(app), "the new line")
        assert "38 lines are lost" in text(app)
        assert "38 lines lost" in text(app)


async def test_long_lines_are_wrapped_or_scrolled(make_app: Any, until: Any, logged: Logged) -> None:
    logged.say("x" * 200 + "END")
    app = make_app(source=logged)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(app, pilot, until, "xxxx")
        assert "END" not in text(app)
        await pilot.press("w")
        await until(pilot, lambda: "END" in text(app), "the end of the line")
        await pilot.resize_terminal(130, 40)
        await until(pilot, lambda: "END" in text(app), "the end of the line at another width")
        await pilot.press("w", *["right"] * 20)
        await until(pilot, lambda: "END" in text(app), "the end, scrolled to")
        await pilot.press("T", *["left"] * 20)
        await until(pilot, lambda: "INFO  xxx" in text(app), "lines without times")


async def test_a_line_cannot_reach_the_terminal_as_anything_but_text(make_app: Any, until: Any, logged: Logged) -> None:
    logged.say("evil \x1b[2J\x07[red]text[/]")
    app = make_app(source=logged)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(app, pilot, until, "[red]text[/]")
        assert "\x1b" not in text(app)


async def test_a_server_that_gives_no_log_says_why(make_app: Any, until: Any, logged: Logged) -> None:
    logged.error = ClientError("there is no log to show", "it is a real Triton", "look at its --log-file")
    app = make_app(source=logged)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(app, pilot, until, "it is a real Triton")
        assert "look at its --log-file" in text(app)
        logged.error = None
        await ask(app, pilot, until, logged)
        await until(pilot, lambda: "odd" in text(app), "the log")
        assert "Triton" not in text(app)


async def test_a_paused_dashboard_reads_no_log(make_app: Any, until: Any, logged: Logged) -> None:
    app = make_app(source=logged)
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: app.history.latest, "a picture")
        await pilot.press("p", "3")
        await pilot.pause(0.05)
        assert logged.asked == []
