"""What a filter leaves."""

from __future__ import annotations

import pytest

from infer.tui.filtering import Filter


@pytest.mark.parametrize(
    ("typed", "text", "kept"),
    [
        ("", "simple", True),
        ("!", "simple", True),
        ("imp", "simple", True),
        ("xyz", "simple", False),
        ("!imp", "simple", False),
        ("!xyz", "simple", True),
        ("^sim", "simple", True),
        ("^imp", "simple", False),
        ("dig|sim", "simple", True),
        ("SIM", "simple", False),
        ("sim", "SIMPLE", True),
        ("[", "a[b", True),
        ("[", "ab", False),
        ("![", "a[b", False),
        ("(", "m(1)", True),
        ("*", "a*", True),
        ("READY", "x READY", True),
        ("ü", "MÜLLER", True),
        ("日本", "日本語", True),
    ],
)
def test_a_filter_keeps_what_fits(typed: str, text: str, kept: bool) -> None:
    assert Filter(typed).keeps(text) is kept


def test_only_a_filter_with_something_to_look_for_is_active() -> None:
    assert [Filter(text).active for text in ("", "!", "a", "!a")] == [False, False, True, True]


def test_a_small_text_ignores_case_and_a_capital_letter_does_not() -> None:
    assert Filter("bert").keeps("BERT")
    assert not Filter("Bert").keeps("BERT")
