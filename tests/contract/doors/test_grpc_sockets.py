"""Clients that misbehave at the gRPC port, on raw sockets: the server stays alive and nothing is left pending."""

from __future__ import annotations

import asyncio
import random
import signal
import socket
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import grpc
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from infer.app.wiring import RunningServer

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SETTINGS = b"\0\0\0\4\0\0\0\0\0"
NOISE = random.Random(7).randbytes(100_000)
SERVICE = "/inference.GRPCInferenceService"

CLIENT = """
import sys
import numpy as np
import tritonclient.grpc as client
given = client.InferInput("INPUT0", [1], "FP32")
given.set_data_from_numpy(np.array([20], dtype=np.float32))
connection = client.InferenceServerClient(sys.argv[1])
if sys.argv[2] == "unary":
    connection.infer("slow", [given])
connection.start_stream(print)
connection.async_stream_infer("slow", [given])
connection.stop_stream()
"""


@pytest.fixture(autouse=True)
def nothing_is_left(server: RunningServer, grpc_url: str) -> Iterator[None]:
    """Behind every test the server answers and no model has a request pending or executing."""
    yield
    with grpc.insecure_channel(grpc_url) as channel:
        assert channel.unary_unary(f"{SERVICE}/ServerReady")(b"", timeout=20) == b"\x08\x01"

    async def wait_idle() -> None:
        for model in server.engine._table.served():
            await model.scheduler.wait_idle()

    server.serving_loop.run(wait_idle())
    assert all(snapshot.pending == 0 for snapshot in server.engine.statistics())


def connect(url: str) -> socket.socket:
    host, port = url.split(":")
    return socket.create_connection((host, int(port)), timeout=30)


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01\0\xa5",
        PREFACE,
        PREFACE + SETTINGS,
        PREFACE + SETTINGS + b"\xff" * 4096,
        PREFACE + SETTINGS + b"\0\0\4\1\5\0\0\0\1\xff\xff\xff\xff",
        PREFACE + b"\xff\xff\xff\4\0\0\0\0\0",
        NOISE,
    ],
    ids=["nothing", "http/1", "tls", "preface", "settings", "rubbish frames", "bad head", "huge frame", "noise"],
)
def test_rubbish_harms_nobody(grpc_url: str, sent: bytes) -> None:
    with connect(grpc_url) as connection:
        connection.sendall(sent)
        connection.settimeout(0.1)
        try:
            while connection.recv(65536):
                pass
        except (TimeoutError, ConnectionError):
            pass


@pytest.mark.parametrize(
    "data",
    [
        b"\xff",
        b"\x0a\xff\xff\xff\xff\x0f",
        b"\x3a\xff\xff\xff\x7fabc",
        b"\x0a\x06simple\x12\x02\xff\xff",
        NOISE[:5000],
    ],
    ids=["byte", "huge name", "huge tensor", "no text", "noise"],
)
@pytest.mark.parametrize("method", ["ModelInfer", "ModelReady", "ModelConfig"])
def test_a_message_that_makes_no_sense_is_refused(grpc_url: str, method: str, data: bytes) -> None:
    with grpc.insecure_channel(grpc_url) as channel:
        call = channel.unary_unary(f"{SERVICE}/{method}")
        with pytest.raises(grpc.RpcError) as caught:
            call(data, timeout=20)
    assert caught.value.code().name in ("INTERNAL", "INVALID_ARGUMENT", "NOT_FOUND")


@pytest.mark.parametrize("kind", ["unary", "stream"])
def test_a_client_that_vanishes_cancels_its_request_in_the_model(
    server: RunningServer, grpc_url: str, repository: Path, kind: str
) -> None:
    started, seen = repository / "started", repository / "cancelled"
    for path in (started, seen):
        path.unlink(missing_ok=True)
    process = subprocess.Popen([sys.executable, "-c", CLIENT, grpc_url, kind], stderr=subprocess.DEVNULL)
    try:
        _wait(server, started.exists)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait(20)
    _wait(server, lambda: server.engine.find("slow").scheduler.in_flight == 0)
    _wait(server, seen.exists)


def _wait(server: RunningServer, condition: Callable[[], Any]) -> None:
    """Let the server's loop turn until the condition holds; fails after twenty seconds."""

    async def wait() -> None:
        async with asyncio.timeout(20):
            while not condition():  # noqa: ASYNC110  what a client or the kernel does sets no event
                await asyncio.sleep(0.002)

    server.serving_loop.run(wait())
