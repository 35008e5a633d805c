"""The try screen makes a form from the metadata, sends it, and shows what came of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from textual.widgets import Button, Select

from infer.tui.demo import DemoServer
from infer.tui.widgets.model_form import Field

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from infer.tui.inference import Answer

START = 1_800_000_000.0


class Called(DemoServer):
    """The made-up server, which remembers how it was called."""

    def __init__(self) -> None:
        self.now = START
        super().__init__(lambda: self.now, lambda _: None)
        self.calls: list[tuple[str, str, dict[str, Any]]] = []

    def infer(self, name: str, version: str, values: Mapping[str, Any]) -> tuple[Answer, str]:
        self.calls.append((name, version, dict(values)))
        return super().infer(name, version, values)


@pytest.fixture
def called() -> Called:
    return Called()


def text(app: Any) -> str:
    strips = app.screen._compositor.render_strips()
    return "\n".join("".join(segment.text for segment in strip) for strip in strips)


async def opened(app: Any, pilot: Any, until: Any, model: str = "classify_text", first: str = "text") -> None:
    await until(pilot, lambda: app.history.latest, "a picture")
    app.go("try", model)
    await until(pilot, lambda: fields(app) and fields(app)[0].spec["name"] == first, "the form")


def fields(app: Any) -> list[Field]:
    return list(app.screen.query(Field))


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_a_form_is_filled_in_and_sent(make_app: Any, until: Any, called: Called, size: Any) -> None:
    app = make_app(source=called)
    async with app.run_test(size=size) as pilot:
        await opened(app, pilot, until)
        await until(pilot, lambda: "text  BYTES [-1, 1]" in text(app), "what the input takes")
        assert '[["hello"]]' in text(app)
        await pilot.press("ctrl+s")
        await until(pilot, lambda: "answered" in text(app), "the answer")
        for words in ("label  BYTES [1, 1]", "score  FP32 [1, 1]", "(client)", "curl -s http://127.0.0.1:8000"):
            assert words in text(app)
        assert called.calls == [("classify_text", "1", {"text": [["hello"]]})]


async def test_what_is_typed_is_what_is_sent(make_app: Any, until: Any, called: Called) -> None:
    app = make_app(source=called)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(app, pilot, until)
        await pilot.press("e", "end", *["backspace"] * 11, *"q 1 ?", "enter")
        await until(pilot, lambda: called.calls, "the call")
        assert called.calls[0][2] == {"text": "q 1 ?"}
        await pilot.press("ctrl+e")
        assert fields(app)[0].value == '[["hello"]]'


async def test_an_array_of_a_file_is_sent(make_app: Any, until: Any, called: Called, tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.ones((1, 3, 224, 224), np.float32))
    app = make_app(source=called)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(app, pilot, until, "resnet50", "image")
        assert fields(app)[0].value == "@zeros"
        fields(app)[0].value = f"@{tmp_path / 'a.npy'}"
        await pilot.press("ctrl+s")
        await until(pilot, lambda: "answered" in text(app), "the answer")
        assert called.calls[0][2]["image"].shape == (1, 3, 224, 224)
        assert "of 1000 values" in text(app)
        assert "binary tensors" in text(app)


@pytest.mark.parametrize(
    ("model", "first", "value", "words"),
    [
        ("classify_text", "text", "@/no/such/file.npy", "name a .npy file"),
        ("bert_base", "input_ids", '"text"', "takes INT64"),
        ("resnet50", "image", "[1,2]", "has the wrong shape"),
        ("summarize", "prompt", "hello", "infer call summarize --stream"),
    ],
    ids=["no file", "no number", "wrong shape", "a decoupled model"],
)
async def test_what_goes_wrong_is_told_as_what_why_and_fix(
    make_app: Any, until: Any, called: Called, model: str, first: str, value: str, words: str
) -> None:
    app = make_app(source=called)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(app, pilot, until, model, first)
        fields(app)[0].value = value
        await pilot.press("ctrl+s")
        await until(pilot, lambda: words in text(app), "the sentence")
        assert " why  " in text(app)
        assert app.screen.query_one("#copy", Button).disabled


async def test_the_curl_command_is_copied(make_app: Any, until: Any, called: Called) -> None:
    app = make_app(source=called)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(app, pilot, until)
        await pilot.press("ctrl+y")
        assert app.clipboard == ""
        await pilot.click("#send")
        await until(pilot, lambda: "answered" in text(app), "the answer")
        await pilot.click("#copy")
        await until(pilot, lambda: app.clipboard, "the clipboard")
        assert app.clipboard.startswith("curl -s http://127.0.0.1:8000/v2/models/classify_text/versions/1/infer -d")


async def test_another_model_is_chosen_and_what_was_typed_comes_back(make_app: Any, until: Any, called: Called) -> None:
    app = make_app(source=called)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(app, pilot, until)
        fields(app)[0].value = "mine"
        await pilot.press("o", "down", "enter")
        await until(pilot, lambda: fields(app) and fields(app)[0].spec["name"] == "image", "the form of detector")
        assert app.screen.subject == "detector"
        app.go("try", "classify_text")
        await until(pilot, lambda: fields(app) and fields(app)[0].spec["name"] == "text", "the first form")
        assert fields(app)[0].value == "mine"


async def test_an_empty_field_is_left_out(make_app: Any, until: Any, called: Called) -> None:
    app = make_app(source=called)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(app, pilot, until, "bert_base", "input_ids")
        await until(pilot, lambda: len(fields(app)) > 1, "the second field")
        fields(app)[1].value = ""
        await pilot.press("ctrl+s")
        await until(pilot, lambda: called.calls, "the call")
        assert list(called.calls[0][2]) == ["input_ids"]


async def test_a_model_that_goes_away_takes_its_form_along(make_app: Any, until: Any, called: Called) -> None:
    app = make_app(source=called)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(app, pilot, until)
        for row in called.overview().models:
            called.unload(row.name)
        called.now += 1
        app.poller.now()
        await until(pilot, lambda: not fields(app), "no form")
        assert app.screen.query_one("#try-model", Select).is_blank()
        await pilot.press("ctrl+s")
        assert called.calls == []


async def test_a_model_that_is_not_ready_cannot_be_tried_and_says_so(make_app: Any, until: Any, called: Called) -> None:
    app = make_app(source=called)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(app, pilot, until)
        app.go("try", "translate_de")
        await until(pilot, lambda: "'translate_de' cannot be called" in text(app), "the sentence")


async def test_trying_is_allowed_where_nothing_may_be_changed(make_app: Any, until: Any, called: Called) -> None:
    app = make_app(source=called, read_only=True)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(app, pilot, until)
        await pilot.press("ctrl+s")
        await until(pilot, lambda: "answered" in text(app), "the answer")


async def test_escape_leaves_the_field_and_then_the_screen(make_app: Any, until: Any, called: Called) -> None:
    app = make_app(source=called)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(app, pilot, until)
        await pilot.press("e", "1")
        assert fields(app)[0].value.endswith("1")
        await pilot.press("escape", "escape")
        await until(pilot, lambda: app.current_mode == "models", "the models")
