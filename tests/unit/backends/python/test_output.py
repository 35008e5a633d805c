"""A worker's output, read from a real pipe: whole lines, the last of them kept, nothing left behind at the end."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

import pytest

from infer.backends.python import output
from infer.backends.python.output import OutputReader

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

LIMIT_S = 10


class Stream:
    """A pipe with its reader, and the lines that it has logged."""

    def __init__(self) -> None:
        self.read_end, self.write_end = os.pipe()
        self.lines: list[str] = []
        self._changed = asyncio.Event()
        self.reader = OutputReader(asyncio.get_running_loop(), self.read_end, self._take)

    def _take(self, line: str) -> None:
        self.lines.append(line)
        self._changed.set()

    def write(self, data: bytes) -> None:
        """What the worker writes."""
        assert os.write(self.write_end, data) == len(data)

    async def until(self, count: int) -> list[str]:
        """The lines, once there are so many."""
        while len(self.lines) < count:
            self._changed.clear()
            await asyncio.wait_for(self._changed.wait(), LIMIT_S)
        return self.lines

    def end(self) -> None:
        """The worker is gone."""
        if self.write_end >= 0:
            os.close(self.write_end)
            self.write_end = -1


@pytest.fixture
async def stream() -> AsyncIterator[Stream]:
    stream = Stream()
    yield stream
    stream.end()
    stream.reader.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(stream.read_end)


async def test_a_line_is_logged_once_it_is_complete(stream: Stream) -> None:
    stream.write(b"one\ntw")
    assert await stream.until(1) == ["one"]
    stream.write(b"o\n")
    assert await stream.until(2) == ["one", "two"]


async def test_what_is_left_in_the_pipe_is_read_when_it_is_closed(stream: Stream) -> None:
    stream.write(b"one\ntwo\nand no line end")
    stream.reader.close()
    assert stream.lines == ["one", "two", "and no line end"]


async def test_a_pipe_that_a_fork_still_holds_open_does_not_hold_up_the_close(stream: Stream) -> None:
    held = os.dup(stream.write_end)
    stream.write(b"one\n")
    stream.end()
    stream.reader.close()
    stream.reader.close()
    os.close(held)
    assert stream.lines == ["one"]


async def test_the_end_of_the_pipe_logs_the_rest_and_closes_the_descriptor(stream: Stream) -> None:
    stream.write(b"half a line")
    stream.end()
    assert await stream.until(1) == ["half a line"]


async def test_the_last_five_lines_are_kept(stream: Stream) -> None:
    stream.write(b"".join(b"line %d\n" % number for number in range(8)))
    await stream.until(8)
    assert list(stream.reader.tail) == [f"line {number}" for number in range(3, 8)]


async def test_empty_lines_are_left_out_and_bytes_that_are_no_text_are_shown(stream: Stream) -> None:
    stream.write(b"\n\r\nwindows\r\n\xff\xfe\n")
    assert await stream.until(2) == ["windows", "\ufffd\ufffd"]


async def test_a_line_that_never_ends_is_logged_in_parts(stream: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "_READ_SIZE", 10)
    stream.write(b"x" * 25)
    assert await stream.until(1) == ["x" * 20]
    stream.write(b"y\n")
    assert await stream.until(2) == ["x" * 20, "x" * 5 + "y"]
