"""JSON is read as leniently as Triton reads it, and refused in Triton's words."""

from __future__ import annotations

import math

import pytest

from infer.backends.api.errors import Code, Internal
from infer.server.http import json_text


def test_plain_json_is_read_from_any_buffer() -> None:
    body = b'{"a":[1,2.5,"x",true,null]}'
    expected = {"a": [1, 2.5, "x", True, None]}
    assert json_text.load(body) == expected
    assert json_text.load(bytearray(body)) == expected
    assert json_text.load(memoryview(body)) == expected
    assert json_text.load(body + b" \r\n\t") == expected


def test_the_spellings_of_what_is_no_number_are_taken_outside_of_strings() -> None:
    values = json_text.load(b'["Inf",NaN,Infinity,-Infinity,Inf,-Inf,"\\"-Inf"]')
    assert values[0] == "Inf"
    assert math.isnan(values[1])
    assert values[2:6] == [math.inf, -math.inf, math.inf, -math.inf]
    assert values[6] == '"-Inf'


def test_bytes_that_are_no_utf8_survive() -> None:
    (text,) = json_text.load(b'["\xff\xfea"]')
    assert text.encode("utf-8", "surrogateescape") == b"\xff\xfea"
    assert json_text.dump([text]) == b'["\xff\xfea"]'


def test_what_stands_behind_a_nul_byte_is_ignored() -> None:
    assert json_text.load(b'{"a":1}\0garbage') == {"a": 1}


def test_the_first_of_two_equal_keys_wins() -> None:
    assert json_text.load(b'{"id":"a","id":"b","inputs":[1],"inputs":[2]}') == {"id": "a", "inputs": [1]}


def test_integers_keep_all_their_digits() -> None:
    assert json_text.load(b"[18446744073709551615,-9223372036854775808]") == [2**64 - 1, -(2**63)]


@pytest.mark.parametrize(
    "body",
    [
        b"hello",
        b'{"inputs": [',
        b'{"a":1}garbage',
        b"{'a':1}",
        b'{"a":1,}',
        b"",
        b"\0",
        b"[1e400",
        b'["\\ud800"]',
        b"[-]",
        b"nul",
        b"\xff\xfe",
    ],
)
def test_what_is_not_json_is_an_internal_error_as_in_triton(body: bytes) -> None:
    with pytest.raises(Internal, match=r"^failed to parse the request JSON buffer: .* at [0-9]+$"):
        json_text.load(body)


@pytest.mark.parametrize("depth", [2_000, 100_000, 250_000])
@pytest.mark.parametrize(("opening", "closing"), [(b"[", b"]"), (b'{"a":', b"}"), (b"[NaN,", b"]"), (b"[", b"")])
def test_deep_nesting_is_refused_and_survived(depth: int, opening: bytes, closing: bytes) -> None:
    with pytest.raises(json_text.DepthExceeded, match="nesting depth exceeds") as caught:
        json_text.load(opening * depth + b"1" + closing * depth)
    assert caught.value.code is Code.INVALID_ARG


def test_many_containers_side_by_side_and_brackets_in_strings_are_not_deep() -> None:
    document = json_text.load(b"[NaN," + b",".join([b'{"a":["[[[["]}'] * 2_000) + b"]")
    assert len(document) == 2_001
