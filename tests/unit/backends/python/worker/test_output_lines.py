"""``print`` of a model that shares its process: lines, streams, and files that are none of our business."""

from __future__ import annotations

import io
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from infer.backends.python.worker.output_lines import Printer


@pytest.fixture
def lines() -> list[tuple[bool, str]]:
    """What was written: whether to stderr, and the line."""
    return []


@pytest.fixture
def printer(lines: list[tuple[bool, str]]) -> Printer:
    return Printer(lambda is_error, line: lines.append((is_error, line)))


@pytest.mark.parametrize(
    ("values", "how", "wanted"),
    [
        ((), {}, []),
        (("a",), {}, ["a"]),
        (("a", 1, None), {}, ["a 1 None"]),
        (("a", 1), {"sep": "-"}, ["a-1"]),
        (("a", 1), {"sep": None, "end": None, "file": None}, ["a 1"]),
        (("a\nb\n\nc",), {}, ["a", "b", "c"]),
        (("a",), {"end": "!\n", "flush": True}, ["a!"]),
        (("a",), {"end": ""}, []),
    ],
)
def test_lines_come_as_they_would_be_printed(
    printer: Printer, lines: list[tuple[bool, str]], values: tuple[Any, ...], how: dict[str, Any], wanted: list[str]
) -> None:
    printer.print(*values, **how)
    assert lines == [(False, line) for line in wanted]


def test_stdout_and_stderr_are_told_apart_and_each_keeps_its_unfinished_line(
    printer: Printer, lines: list[tuple[bool, str]]
) -> None:
    printer.print("out", end=" ")
    printer.print("err", end=" ", file=sys.stderr)
    printer.print("more", file=sys.stdout)
    assert lines == [(False, "out more")]
    printer.close()
    printer.close()
    assert lines == [(False, "out more"), (True, "err ")]


def test_what_goes_to_a_file_of_the_models_goes_there(
    printer: Printer, lines: list[tuple[bool, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    file, instead = io.StringIO(), io.StringIO()
    printer.print("to the file", file=file)
    monkeypatch.setattr(sys, "stdout", instead)
    printer.print("redirected", 1, sep="-", end=".")
    assert (file.getvalue(), instead.getvalue(), lines) == ("to the file\n", "redirected-1.", [])


def test_lines_of_several_threads_stay_whole(printer: Printer, lines: list[tuple[bool, str]]) -> None:
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda number: printer.print(f"line {number}"), range(200)))
    assert sorted(lines) == sorted((False, f"line {number}") for number in range(200))


def test_a_value_that_cannot_be_shown_raises_as_print_does(printer: Printer) -> None:
    class Mute:
        def __str__(self) -> str:
            message = "mute"
            raise ValueError(message)

    with pytest.raises(ValueError, match="mute"):
        printer.print(Mute())
