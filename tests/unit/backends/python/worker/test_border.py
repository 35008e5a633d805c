"""The border to the model's code: what becomes of its exceptions, and what passes."""

from __future__ import annotations

import asyncio
import gc
import re
import sys
import time
import weakref
from asyncio import CancelledError
from pathlib import Path
from typing import Any

import pytest

from infer.backends.python.worker import border as border_module
from infer.backends.python.worker.border import Border, LastBorder, exit_status, exit_words
from infer.backends.python.worker.coroutines import CoroutineBorder
from infer.backends.python.worker.loading import ModelLoadError


def fail(error: BaseException) -> None:
    """The model's code."""
    raise error


def test_code_that_raises_nothing_has_no_failure() -> None:
    with Border() as border:
        value = 1
    assert (value, border.failure, border.failed_at) == (1, "", 0)


def test_an_exception_becomes_class_text_and_places_innermost_first() -> None:
    before = time.monotonic_ns()
    with Border() as border:
        fail(ValueError("no such label"))
    first, empty, at, innermost, outermost = border.failure.split("\n")
    assert (first, empty, at) == ("ValueError: no such label", "", "At:")
    assert innermost.startswith(f"  {__file__}(")
    assert innermost.endswith("): fail")
    assert outermost.endswith("): test_an_exception_becomes_class_text_and_places_innermost_first")
    assert before <= border.failed_at <= time.monotonic_ns()


def test_our_own_places_are_left_out_of_a_frozen_program_too() -> None:
    folder = "infer/backends/python/worker"
    frozen: dict[str, Any] = {"__package__": border_module.__package__, "__file__": border_module.__file__}
    source = Path(border_module.__file__).read_text()
    exec(compile(source, f"{folder}/border.py", "exec"), frozen)
    ours: dict[str, Any] = {"fail": fail}
    exec(compile("def call():\n    fail(ValueError('deep'))\n", f"{folder}/serving.py", "exec"), ours)
    try:
        ours["call"]()
    except ValueError as error:
        places = frozen["describe"](error).partition("At:\n")[2].split("\n")
    assert [place.rpartition("): ")[2] for place in places] == [
        "fail",
        "test_our_own_places_are_left_out_of_a_frozen_program_too",
    ]


def test_a_model_that_cannot_be_imported_is_quoted_in_our_own_words() -> None:
    with Border() as border:
        fail(ModelLoadError("Python model file not found in '/m/1/model.py'"))
    assert border.failure == "Python model file not found in '/m/1/model.py'"


def test_what_ends_the_interpreter_passes() -> None:
    border = Border()
    with pytest.raises(SystemExit), border:
        fail(SystemExit(3))
    assert border.failure == ""


class Base(BaseException):
    """Somebody's own, that is no Exception."""


@pytest.mark.parametrize("error", [KeyboardInterrupt("^C"), GeneratorExit("^C"), Base("^C"), CancelledError("^C")])
def test_anything_else_that_is_raised_is_caught(error: BaseException) -> None:
    with Border() as border:
        fail(error)
    assert border.failure.startswith(f"{type(error).__name__}: ^C\n")


@pytest.mark.parametrize("error", [SystemExit(3), CancelledError()])
def test_what_cancels_a_coroutine_passes_the_border_within_it(error: BaseException) -> None:
    border = CoroutineBorder()
    with pytest.raises(type(error)), border:
        fail(error)
    assert border.failure == ""


@pytest.mark.parametrize("made", [ValueError("no text"), 5, SystemExit(3)])
def test_an_exception_whose_text_cannot_be_made_is_told_by_its_class(made: object) -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            if isinstance(made, BaseException):
                raise made
            return made  # pyright: ignore[reportReturnType]

    with Border() as border:
        fail(Mute())
    kind = type(made).__name__ if isinstance(made, BaseException) else "TypeError"
    assert border.failure.startswith(f"Mute: <its __str__ raised {kind}>\n\nAt:\n")


@pytest.mark.parametrize("kind", [ValueError, ModelLoadError])
def test_half_a_character_is_spelled_out_so_that_the_text_can_be_sent(kind: type[Exception]) -> None:
    with Border() as border:
        fail(kind("caf\u00e9 \ud800"))
    assert "caf\u00e9 \\ud800" in border.failure
    assert border.failure.encode().decode() == border.failure


def test_an_endless_recursion_is_told_by_both_its_ends() -> None:
    def again() -> None:
        again()

    with Border() as border:
        again()
    places = border.failure.partition("At:\n")[2].split("\n")
    assert len(places) == 33
    assert places[0].endswith("): again")
    assert places[-1].endswith("): test_an_endless_recursion_is_told_by_both_its_ends")
    assert [place for place in places if re.fullmatch(r"  … \d+ more", place)] == [places[16]]


def test_a_file_that_cannot_be_read_on_is_named_with_its_whole_path() -> None:
    with Border() as border:
        compile("x = 1\ndef broken(:", "/m/1/model.py", "exec")
    assert "\nAt:\n  /m/1/model.py(2)\n" in border.failure


@pytest.mark.parametrize(
    ("code", "status", "text"),
    [(None, 0, ""), (0, 0, "0"), (3, 3, "3"), (259, 3, "259"), (-1, 255, "-1"), ("no license", 1, "no license")],
)
def test_the_end_of_an_interpreter_has_its_status_and_the_words_and_place_of_its_reason(
    code: object, status: int, text: str
) -> None:
    with pytest.raises(SystemExit) as raised:
        sys.exit(code)  # pyright: ignore[reportArgumentType]
    assert exit_status(raised.value) == status
    assert exit_words(raised.value).startswith(f"SystemExit: {text} at {__file__}(")


@pytest.mark.parametrize(
    ("error", "failure"),
    [
        (SystemExit(3), "It ended with exit status 3."),
        (SystemExit(), "It ended with exit status 0."),
        (SystemExit("bye"), "It ended with exit status 1. SystemExit: bye at "),
        (KeyboardInterrupt("^C"), "It ended with KeyboardInterrupt: ^C\n"),
        (ValueError("bad"), "It ended with ValueError: bad\n"),
    ],
)
def test_nothing_passes_the_last_border(error: BaseException, failure: str) -> None:
    with LastBorder() as border:
        fail(error)
    assert border.failure.startswith(failure)


def test_the_last_border_has_nothing_to_say_of_an_end_in_order() -> None:
    with LastBorder() as border:
        pass
    assert border.failure == ""


def test_a_cancellation_is_caught_as_it_ends_no_thread() -> None:
    with Border() as border:
        fail(asyncio.CancelledError("no longer"))
    assert border.failure.startswith("CancelledError: no longer\n")


async def test_the_exception_of_a_coroutine_is_caught_like_any_other() -> None:
    async def model() -> None:
        fail(ValueError("late"))

    with Border() as border:
        await model()
    assert border.failure.startswith("ValueError: late\n")


def test_the_exception_and_what_its_frames_hold_are_gone_at_once() -> None:
    class Tensor:
        """Stands for the model's memory."""

    def model() -> weakref.ref[Tensor]:
        tensor = Tensor()
        references.append(weakref.ref(tensor))
        message = "with a tensor in its frame"
        raise ValueError(message)

    references: list[weakref.ref[Tensor]] = []
    gc.disable()
    try:
        with Border() as border:
            model()
        assert border.failure
        assert references[0]() is None
    finally:
        gc.enable()
