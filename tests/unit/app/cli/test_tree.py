"""How commands are found, shown and refused."""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any

import pytest
import typer

import infer.app.cli
from infer.app.cli import root
from infer.app.cli.tree import Tree, by_heading, split_help


def group() -> Any:
    return typer.main.get_command(root.app)


def walk(command: Any, path: tuple[str, ...] = ("infer",)) -> list[tuple[tuple[str, ...], Any]]:
    """Every command below one, itself included, with the words that call it."""
    found = [(path, command)]
    for name, below in getattr(command, "commands", {}).items():
        found += walk(below, (*path, name))
    return found


def test_examples_are_split_from_prose() -> None:
    assert split_help("One.\n\n    Two.\n\n    Examples:\n    infer a\n    infer b | c\n    ") == (
        "One.\n\nTwo.",
        ("infer a", "infer b | c"),
    )
    assert split_help("One.\n\nExamples: infer a · infer b") == ("One.", ("infer a", "infer b"))
    assert split_help("No examples: none.") == ("No examples: none.", ())
    assert split_help(None) == ("", ())


def test_headings_hold_what_is_there_and_the_rest_stands_under_the_last() -> None:
    headings = {"One": ("a", "gone"), "Two": ("gone",)}
    assert by_heading(["b", "a"], headings) == {"One": ["a"], "More": ["b"]}
    assert by_heading(["b"], {}) == {"Commands": ["b"]}


def test_every_command_and_group_has_prose_and_all_but_serve_an_example() -> None:
    for path, command in walk(group()):
        prose, examples = split_help(command.help)
        assert prose, path
        assert examples or path == ("infer", "serve"), path


def test_the_sentences_of_the_tree_are_those_of_the_commands() -> None:
    tree = group()
    sentences = {name: text for commands in root.COMMANDS.values() for name, text in commands.items()}
    assert list(tree.commands) == list(sentences)
    for name, sentence in sentences.items():
        assert tree.commands[name].get_short_help_str() == sentence


def test_every_module_with_a_command_is_in_the_tree() -> None:
    modules = {module.name for module in pkgutil.iter_modules(infer.app.cli.__path__)}
    with_commands = {
        name
        for name in modules - {"root", "tree", "model_changes"}
        if hasattr(importlib.import_module(f"infer.app.cli.{name}"), "register")
        or isinstance(getattr(importlib.import_module(f"infer.app.cli.{name}"), "app", None), Tree)
    }
    assert with_commands == set(group().commands)


def test_the_help_shows_examples_before_options() -> None:
    text = group().commands["call"].get_help(typer.Context(group().commands["call"]))
    assert text.index("Usage:") < text.index("Examples:") < text.index("Options:")
    assert "\n  infer call identity -i INPUT0=[1,2] --stream -o json\n" in text


@pytest.mark.parametrize(
    ("words", "phrases"),
    [
        (["modl"], ["no such command 'modl'", "did you mean 'model'?", "infer --help"]),
        (["model", "lst"], ["no such command 'lst'", "did you mean 'list'?", "infer model --help"]),
        (["ps", "--al"], ["no such option: --al", "--all", "infer ps --help"]),
        (["model", "list", "--timeout", "soon"], ["invalid value for '--timeout'", "infer model list --help"]),
        (["model", "list", "--timeout", "0"], ["'--timeout'"]),
        (["ps", "-o", "yaml"], ["'-o'", "infer ps --help"]),
        (["call"], ["missing argument 'MODEL'", "infer call --help"]),
        (["ps", "stray"], ["stray", "infer ps --help"]),
        (["call", "m", "--repeat", "0"], ["--repeat"]),
    ],
)
def test_a_wrong_command_line_is_two_and_three_lines(
    words: list[str], phrases: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert root.outcome(words) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    lines = captured.err.splitlines()
    assert [line.split(":")[0].strip() for line in (lines[0], *lines[-2:])] == ["error", "why", "fix"]
    for phrase in phrases:
        assert phrase in captured.err
