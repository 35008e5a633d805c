"""The command line of `infer serve` is read by Triton's rules."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infer.app.arguments import BadOption, parse, usage
from infer.app.flags import FLAGS, Group


def test_a_value_may_follow_or_stand_behind_an_equals_sign() -> None:
    assert parse(["--http-port", "9000"]) == parse(["--http-port=9000"])
    assert parse(["--http-port=9000"]).integer("http-port") == 9000


def test_an_unambiguous_prefix_stands_for_its_flag() -> None:
    assert parse(["--http-po=1"]).integer("http-port") == 1


def test_our_own_flags_do_not_make_tritons_abbreviations_ambiguous() -> None:
    assert parse(["--http-max=7"]).integer("http-max-input-size") == 7
    assert parse(["--exec=7"]).number("execute-timeout") == 7


def test_a_full_name_wins_over_the_longer_ones_that_it_begins() -> None:
    assert parse(["--grpc-max-connection-age=5"]).integer("grpc-max-connection-age") == 5


@pytest.mark.parametrize("text", ["true", "ON", "1", "True"])
def test_true_has_several_spellings(text: str) -> None:
    assert parse([f"--allow-grpc={text}"]).boolean("allow-grpc") is True


@pytest.mark.parametrize("text", ["false", "Off", "0"])
def test_false_has_several_spellings(text: str) -> None:
    assert parse([f"--allow-grpc={text}"]).boolean("allow-grpc") is False


@pytest.mark.parametrize(("text", "level"), [("true", 1), ("false", 0), ("3", 3), ("off", 0)])
def test_verbosity_is_a_level_or_a_truth_value(text: str, level: int) -> None:
    assert parse([f"--log-verbose={text}"]).integer("log-verbose") == level


@pytest.mark.parametrize(("text", "number"), [("12abc", 12), ("  7", 7), ("-1", -1), ("+2", 2)])
def test_integers_are_read_as_c_reads_them(text: str, number: int) -> None:
    assert parse([f"--exit-timeout-secs={text}"]).integer("exit-timeout-secs") == number


def test_a_choice_is_folded_where_triton_folds_it_and_exact_where_not() -> None:
    assert parse(["--model-control-mode=EXPLICIT"]).text("model-control-mode") == "explicit"
    assert parse(["--log-format=ISO8601"]).text("log-format") == "ISO8601"
    with pytest.raises(BadOption, match="log-format"):
        parse(["--log-format=iso8601"])


def test_a_repeated_flag_keeps_all_values_and_the_last_one_wins() -> None:
    arguments = parse(["--load-model=a", "--load-model", "b", "--load-model=a", "--id=x", "--id=y"])
    assert arguments.texts("load-model") == ("a", "b")
    assert arguments.text("id") == "y"


def test_an_alias_is_the_flag_that_it_names() -> None:
    assert parse(["--model-store=/a", "--model-repository=/b"]).texts("model-repository") == ("/a", "/b")


def test_a_value_may_begin_with_dashes() -> None:
    assert parse(["--id", "--strange"]).text("id") == "--strange"


@pytest.mark.parametrize(
    ("words", "phrases"),
    [
        (["--allow-grpc=maybe"], ['Bad option: "--allow-grpc"', "maybe"]),
        (["--no-such-flag"], ['Bad option: "--no-such-flag"', "no option"]),
        (["--http-prot=1"], ["did you mean --http-port?"]),
        (["--http-port"], ['"--http-port"', "needs a value"]),
        (["--http-port=x"], ['"--http-port"', "'x'"]),
        (["--http-port=70000"], ["at most 65535", "70000"]),
        (["--http-port=99999999999999999999"], ['"--http-port"']),
        (["--log-verbose=3000000000"], ['"--log-verbose"', "3000000000"]),
        (["--grpc-infer-thread-count=1"], ["at least 2"]),
        (["--http-max-input-size=0"], ["at least 1"]),
        (["--execute-timeout=soon"], ["a number", "'soon'"]),
        (["--execute-timeout=nan"], ["at least 0"]),
        (["--model-config-name="], ["not empty"]),
        (["--disable-auto-complete-config=true"], ["no value"]),
        (["--grpc"], ["several options", "--grpc-port"]),
        (["models"], ["Unexpected argument", "models"]),
        (["--"], ["Unexpected argument"]),
        (["-h"], ["Unexpected argument"]),
        (["--=1"], ["no option"]),
    ],
)
def test_what_cannot_be_read_is_refused_with_the_flag_and_the_reason(words: list[str], phrases: list[str]) -> None:
    with pytest.raises(BadOption) as caught:
        parse(words)
    for phrase in phrases:
        assert phrase in str(caught.value)


@settings(max_examples=40)
@given(st.lists(st.text(max_size=12), max_size=4))
def test_any_words_are_read_or_refused(words: list[str]) -> None:
    with contextlib.suppress(BadOption):
        parse(words)


def test_the_usage_text_has_every_flag_under_its_group_in_order() -> None:
    text = usage()
    headings = [line[:-1] for line in text.splitlines() if line.endswith(":") and not line.startswith(" ")]
    assert headings == [group.value for group in Group]
    for flag in FLAGS:
        assert f"  --{flag.name}" in text
    assert max(len(line) for line in text.splitlines()) <= 100
