"""A response is written as it was meant, and an application that breaks the rules does not break the connection."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from infer.server.http.cycle import CONNECTION, Cycle


class Owner:
    """A connection that keeps what is written."""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.completed = 0
        self.aborted = False
        self.transport: Any = SimpleNamespace(
            write=self.written.append,
            writelines=lambda parts: self.written.append(b"".join(parts)),
            abort=self._abort,
        )
        self.flow: Any = SimpleNamespace(write_paused=False)

    def _abort(self) -> None:
        self.aborted = True

    def response_completed(self) -> None:
        self.completed += 1

    def task_ended(self, task: object) -> None:
        pass


def start(*headers: tuple[bytes, bytes]) -> dict[str, Any]:
    return {"type": "http.response.start", "status": 200, "headers": list(headers)}


def body(data: bytes, *, more: bool = False) -> dict[str, Any]:
    return {"type": "http.response.body", "body": data, "more_body": more}


async def run(*messages: dict[str, Any], method: str = "GET", keep_alive: bool = True) -> Owner:
    owner = Owner()
    cycle = Cycle(owner, {"method": method, "path": "/"}, b"", keep_alive=keep_alive)

    async def app(scope: dict[str, Any], receive: Any, send: Any) -> None:
        assert scope[CONNECTION] is cycle
        for message in messages:
            await send(message)

    await cycle.run(app)
    return owner


async def test_bodies_of_a_known_length_leave_in_one_write() -> None:
    owner = await run(start((b"Content-Length", b"4")), body(b"ab", more=True), body(b"cd"))
    assert owner.written == [b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nabcd"]
    assert owner.completed == 1


async def test_bodies_of_an_unknown_length_leave_at_once_in_chunks() -> None:
    owner = await run(start(), body(b"ab", more=True), body(b"c" * 17, more=True), body(b""))
    assert owner.written == [
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nab\r\n",
        b"11\r\n" + b"c" * 17 + b"\r\n",
        b"0\r\n\r\n",
    ]


async def test_the_answer_to_head_has_no_body() -> None:
    owner = await run(start((b"content-length", b"4")), body(b"abcd"), method="HEAD")
    assert owner.written == [b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\n"]


async def test_the_last_answer_says_so_once() -> None:
    owner = await run(start((b"content-length", b"0"), (b"connection", b"close")), body(b""))
    assert owner.written == [b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"]


@pytest.mark.parametrize(
    "messages",
    [
        [],
        [start((b"content-length", b"4"))],
        [start((b"content-length", b"4")), body(b"abc")],
        [start((b"content-length", b"4")), body(b"abcde")],
        [start((b"x", b"a\r\nb: c"), (b"content-length", b"0")), body(b"")],
        [start((b"x", b"a\nb"), (b"content-length", b"0")), body(b"")],
        [start(), start()],
        [body(b"x")],
        [{"type": "http.response.trailers"}],
    ],
)
async def test_a_broken_answer_becomes_an_internal_error(messages: list[dict[str, Any]]) -> None:
    owner = await run(*messages)
    (written,) = owner.written
    assert written.startswith(b"HTTP/1.1 500 ")
    assert written.endswith(b'{"error":"internal server error; the server\'s log has the details"}')
    assert b"connection: close" in written


async def test_an_answer_that_breaks_off_in_the_middle_ends_the_connection() -> None:
    assert (await run(start(), body(b"ab", more=True))).aborted


async def test_nothing_is_sent_to_who_is_gone() -> None:
    owner = Owner()
    cycle = Cycle(owner, {"method": "GET", "path": "/"}, b"", keep_alive=True)
    called: list[bool] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        cycle.on_disconnect = lambda: called.append(True)
        cycle.disconnect()
        cycle.disconnect()
        await send(start())

    await cycle.run(app)
    assert (owner.written, called) == ([], [True])


async def test_the_body_is_one_message_and_then_the_end() -> None:
    cycle = Cycle(Owner(), {"method": "POST", "path": "/"}, b"abc", keep_alive=True)
    assert await cycle.receive() == {"type": "http.request", "body": b"abc", "more_body": False}
    assert await cycle.receive() == {"type": "http.disconnect"}
