"""The control key comes from a file, else from the environment, and a bad one is refused in a sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from infer.app.arguments import BadOption
from infer.app.control_key import control_key

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "key"


def test_the_file_counts_before_the_environment(file: Path) -> None:
    file.write_text("  of-the-file\n")
    assert control_key(str(file), {"INFER_CONTROL_KEY": "of-the-environment"}) == "of-the-file"
    assert control_key("", {"INFER_CONTROL_KEY": "of-the-environment"}) == "of-the-environment"
    assert control_key("", {"INFER_CONTROL_KEY": ""}) == ""
    assert control_key("", {}) == ""


@pytest.mark.parametrize(
    ("contents", "phrase"),
    [
        (b"", "is empty; put a key into it"),
        (b" \n", "is empty; put a key into it"),
        (b"two words", "one word of printable ASCII"),
        (b"two\nlines", "one word of printable ASCII"),
        ("schlüssel".encode(), "one word of printable ASCII"),
        (b"\xff\xfe", "is no text"),
    ],
)
def test_a_file_without_a_usable_key_is_refused(file: Path, contents: bytes, phrase: str) -> None:
    file.write_bytes(contents)
    with pytest.raises(BadOption, match="--control-key-file") as caught:
        control_key(str(file), {})
    assert phrase in str(caught.value)


def test_a_file_that_cannot_be_read_is_named_with_the_reason(file: Path) -> None:
    with pytest.raises(BadOption, match=rf"'{file}' cannot be read: No such file or directory"):
        control_key(str(file), {})
    file.mkdir()
    with pytest.raises(BadOption, match="Is a directory"):
        control_key(str(file), {})


@pytest.mark.parametrize("value", ["two words", "a\tb", "schlüssel", "a\x00b"])
def test_a_key_of_the_environment_that_cannot_be_sent_is_refused(value: str) -> None:
    with pytest.raises(BadOption, match="Bad value of INFER_CONTROL_KEY"):
        control_key("", {"INFER_CONTROL_KEY": value})
