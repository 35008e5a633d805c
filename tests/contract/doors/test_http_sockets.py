"""Clients that misbehave, on raw sockets, against a whole server: it stays alive and nothing is left pending."""

from __future__ import annotations

import http.client
import json
import socket
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from infer.app.wiring import RunningServer


DATA = b'{"inputs":[{"name":"INPUT0","shape":[1,16],"datatype":"INT32","data":'
CLAIM = b'{"inputs":[{"name":"INPUT0","shape":[2147483648],"datatype":"INT32",'


@pytest.fixture(autouse=True)
def nothing_is_left(server: RunningServer, url: str) -> Iterator[None]:
    """Behind every test the server answers and no model has a request pending or executing."""
    yield
    connection = http.client.HTTPConnection(url, timeout=20)
    connection.request("GET", "/v2/health/ready")
    assert connection.getresponse().status == 200
    connection.close()

    async def wait_idle() -> None:
        for model in server.engine._table.served():
            await model.scheduler.wait_idle()

    server.serving_loop.run(wait_idle())
    assert all(snapshot.pending == 0 for snapshot in server.engine.statistics())


def connect(url: str) -> socket.socket:
    host, port = url.split(":")
    return socket.create_connection((host, int(port)), timeout=30)


def post(path: str, document: Any) -> bytes:
    body = document if isinstance(document, bytes) else json.dumps(document).encode()
    return f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


def slow(seconds: float) -> bytes:
    entry = {"name": "INPUT0", "shape": [1], "datatype": "FP32", "data": [seconds]}
    return post("/v2/models/slow/infer", {"inputs": [entry]})


def failures(server: RunningServer, name: str) -> int:
    (snapshot,) = server.engine.statistics(name)
    return snapshot.fail.count


@pytest.mark.parametrize("behind", [b"", b"GET /v2/health/live HTTP/1.1\r\n\r\n" * 3, b"POST /v2/models/sl"])
def test_a_client_that_goes_away_cancels_its_request_in_the_model(
    server: RunningServer, url: str, repository: Path, behind: bytes
) -> None:
    started, seen = repository / "started", repository / "cancelled"
    started.unlink(missing_ok=True)
    seen.unlink(missing_ok=True)
    (model,) = [model for model in server.engine._table.served() if model.name == "slow"]
    with connect(url) as connection:
        connection.sendall(slow(20) + behind)
        _wait(server, started.exists)
    _wait(server, lambda: model.scheduler.in_flight == 0)
    _wait(server, seen.exists)


def test_a_client_that_goes_away_leaves_the_queue(server: RunningServer, url: str) -> None:
    (model,) = [model for model in server.engine._table.served() if model.name == "slow"]
    with connect(url) as first, connect(url) as second:
        first.sendall(slow(0.3))
        _wait(server, lambda: model.scheduler.in_flight == 1)
        second.sendall(slow(20))
        _wait(server, lambda: model.scheduler.in_flight == 2)
        second.close()
        _wait(server, lambda: model.scheduler.in_flight < 2)
        assert first.recv(20).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"{", 500),
        (b"[" * 100_000 + b"]" * 100_000, 400),
        (DATA + b"[" * 250_000 + b"]" * 250_000 + b"}]}", 400),
        (b'{"inputs":[{"name":"INPUT0","shape":[1099511627776,1099511627776],"datatype":"INT32","data":[1]}]}', 400),
        (CLAIM + b'"parameters":{"binary_data_size":8589934592}}]}', 400),
        (b"\xff" * 1000, 500),
        (b'{"inputs":' + b" " * 400_000 + b"5}", 500),
    ],
    ids=["malformed", "deep", "deep data", "huge shape", "huge claim", "no text", "large and wrong"],
)  # fmt: skip
def test_a_request_that_makes_no_sense_is_refused(url: str, body: bytes, status: int) -> None:
    connection = http.client.HTTPConnection(url, timeout=30)
    connection.request("POST", "/v2/models/simple/infer", body)
    response = connection.getresponse()
    document = json.load(response)
    connection.close()
    assert (response.status, list(document)) == (status, ["error"])


@pytest.mark.parametrize("sent", [b"GET", slow(1)[:60], slow(1)[:-3], b"\x16\x03\x01\0\xa5"])
def test_a_request_sent_half_is_dropped(url: str, sent: bytes) -> None:
    with connect(url) as connection:
        connection.sendall(sent)


def test_a_claim_of_two_gigabytes_is_refused(url: str) -> None:
    with connect(url) as connection:
        connection.sendall(b"POST /v2/models/simple/infer HTTP/1.1\r\nContent-Length: 2147483648\r\n\r\n")
        assert connection.recv(20).startswith(b"HTTP/1.1 400 ")


def _wait(server: RunningServer, condition: Any) -> None:
    """Let the server's loop turn until the condition holds; fails after ten seconds."""
    import asyncio

    async def wait() -> None:
        async with asyncio.timeout(10):
            while not condition():  # noqa: ASYNC110  what a client or the kernel does sets no event
                await asyncio.sleep(0.002)

    server.serving_loop.run(wait())
