"""Signs, and what becomes of them in ASCII."""

from __future__ import annotations

import pytest
from rich.cells import cell_len

from infer.tui.glyphs import BARS, STATES, ascii_only, ascii_terminal, state_sign, state_word


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, False),
        ({"LANG": "en_US.UTF-8"}, False),
        ({"LANG": "de_DE.utf8"}, False),
        ({"LANG": "C"}, True),
        ({"LC_ALL": "POSIX", "LANG": "en_US.UTF-8"}, True),
        ({"LC_ALL": "", "LC_CTYPE": "C.UTF-8", "LANG": "C"}, False),
        ({"LANG": "de_DE.ISO-8859-1"}, True),
        ({"INFER_ASCII": "1", "LANG": "en_US.UTF-8"}, True),
    ],
)
def test_the_locale_says_whether_a_terminal_has_more_than_ascii(environment: dict[str, str], expected: bool) -> None:
    assert ascii_terminal(environment) is expected


@pytest.mark.parametrize(
    "text",
    [
        "● READY",
        "▁▂▃▄▅▆▇█",
        "╭─ Keys ─╮│┃╰╯",
        "12 µs · ≤ 3 °C",
        "日本語モデル",
        "naïve Ü",
        "a…b—c",
        "⏎ ␣ ▸ ▲▼",
        "🔎 find",
        "plain",
    ],
)
def test_every_sign_has_a_form_in_ascii_that_is_as_wide(text: str) -> None:
    plain = ascii_only(text)
    assert plain.isascii()
    assert len(plain) == cell_len(text)


def test_letters_keep_their_base_and_bars_their_order() -> None:
    assert ascii_only("naïve") == "naive"
    assert ascii_only(BARS) == "_.-:=+*#"


def test_every_state_has_a_sign_and_a_word_of_its_own() -> None:
    assert len(set(STATES.values())) == len(STATES)
    assert state_word("") == "not loaded"
    assert state_word("READY") == "READY"
    assert state_sign("SOMETHING NEW") not in STATES.values()
    assert state_sign("UNAVAILABLE", "unloaded") == STATES[""]
    assert state_sign("UNLOADING", "unloaded") == STATES["UNLOADING"]
    assert state_sign("UNAVAILABLE", "Internal: no such file") == STATES["UNAVAILABLE"]
