"""The words of the command line, and what the shell calls them."""

from __future__ import annotations

import shlex

import pytest

from infer.tui.verbs import BY_NAME, VERBS, Command, completions, offered, parse

MODELS = ["simple", "digits", "digits_torch", "odd name"]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("models", Command("models")),
        (":q"[1:], Command("quit")),
        ("m simple", Command("model", "simple")),
        ("  unload   digits ", Command("unload", "digits")),
        ("l digits_torch", Command("load", "digits_torch")),
        ("unload", Command("unload")),
        ("logs", Command("logs")),
        ("logs simple", Command("logs", "simple")),
        ("model odd name", Command("model", "odd name")),
        ("1", Command("models")),
    ],
)
def test_a_line_is_a_verb_and_a_model(line: str, expected: Command) -> None:
    assert parse(line, MODELS) == expected


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("unlaod simple", "there is no command 'unlaod'; see ? for all"),
        ("mod simple", "there is no command 'mod'; did you mean 'models'?"),
        ("unload simpel", "there is no model 'simpel'"),
        ("unload torch", "there is no model 'torch'; did you mean 'digits_torch'?"),
        ("theme simple", "'theme' takes no model"),
        ("quit now", "'quit' takes no model"),
    ],
)
def test_what_is_wrong_with_a_line_is_said(line: str, sentence: str) -> None:
    assert parse(line, MODELS) == sentence


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("unl", ["unload "]),
        ("unload d", ["unload digits", "unload digits_torch"]),
        ("m s", ["m simple"]),
        ("theme ", []),
        ("nonsense x", []),
        ("re", ["reload ", "refresh"]),
    ],
)
def test_lines_are_completed_with_verbs_and_models(line: str, expected: list[str]) -> None:
    assert completions(line, MODELS) == expected


def test_no_two_verbs_share_a_word() -> None:
    words = [word for verb in VERBS for word in (verb.name, *verb.aliases)]
    assert len(words) == len(set(words)) == len(BY_NAME)


def test_shell_lines_quote_what_a_shell_would_read() -> None:
    line = BY_NAME["unload"].shell_line("my model; rm")
    assert shlex.split(line) == ["infer", "model", "unload", "my model; rm"]
    assert BY_NAME["try"].shell_line() == "infer call"


def test_a_hint_has_the_shells_line_and_the_key() -> None:
    assert BY_NAME["unload"].hint("simple") == "infer model unload simple   key u"
    assert BY_NAME["theme"].hint() == "key t"


def test_every_verb_that_changes_the_server_has_a_line_for_the_shell() -> None:
    assert all("{model}" in verb.shell for verb in VERBS if verb.changes)
    assert all(verb.takes_model == "required" for verb in VERBS if verb.changes)


def test_a_screen_that_is_not_there_has_no_verb() -> None:
    names = {verb.name for verb in offered(["models"])}
    assert {"models", "load", "quit"} <= names
    assert not names & {"host", "logs", "try"}
