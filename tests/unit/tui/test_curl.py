"""A curl command survives the shell it is pasted into."""

from __future__ import annotations

import json
import shlex

import pytest

from infer.tui.curl import infer_command


@pytest.mark.parametrize("text", ["plain", "it's", 'quo"te', "$HOME `id` \\ !", "zwei\nZeilen", "häß ✓"])
def test_the_shell_hands_on_the_request_as_it_was(text: str) -> None:
    request = {"inputs": [{"name": "T", "datatype": "BYTES", "shape": [1], "data": [text]}]}
    words = shlex.split(infer_command("http://h:8000", "/v2/models/m/infer", request))
    assert words[:4] == ["curl", "-s", "http://h:8000/v2/models/m/infer", "-d"]
    assert json.loads(words[4]) == request


def test_an_address_with_odd_letters_is_one_word() -> None:
    words = shlex.split(infer_command("http://h:1", "/v2/models/a%20b;rm/infer", {}))
    assert words[2] == "http://h:1/v2/models/a%20b;rm/infer"


def test_what_is_short_stays_readable() -> None:
    assert infer_command("http://h:1", "/v2", {"a": [1, 2]}) == "curl -s http://h:1/v2 -d '{\"a\":[1,2]}'"
