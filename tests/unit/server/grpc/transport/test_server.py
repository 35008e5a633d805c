"""The server listens, finds methods, speaks TLS, and stops without leaving anybody.

The second half asks it as clients of grpcio, sync and aio, which find what they find in grpcio's own server.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
import time
from typing import TYPE_CHECKING, Any

import grpc
import grpc.aio
import pytest
import trustme

from infer.server.grpc.transport import frames
from infer.server.grpc.transport.frames import ErrorCode
from infer.tests.unit.server.grpc.transport.conftest import END_HEADERS, END_STREAM, Peer, Served

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

TIMEOUT_S = 20
UNLIMITED = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]


def test_a_method_that_nobody_knows_is_unimplemented(peer: Peer) -> None:
    answer = peer.call(1, b"x", "/t/Nowhere")
    assert (answer.status, answer.headers["grpc-message"]) == (12, "Method not found: /t/Nowhere")
    assert answer.headers["grpc-accept-encoding"] == "identity, deflate, gzip"


@pytest.mark.parametrize("changed", [{"content_type": "text/html"}, {"method": "GET"}])
@pytest.mark.parametrize("last", [True, False])
def test_what_is_no_grpc_is_answered_with_415(changed: dict[str, str], last: bool, peer: Peer) -> None:
    flags = END_HEADERS | (END_STREAM if last else 0)
    peer.frame(frames.HEADERS, flags, 1, peer.block("/t/Echo", **changed))
    answer = peer.answer(1)
    assert answer.headers == {":status": "415"}
    assert peer.call(3, b"next").message == b"next"


def test_an_address_that_is_taken_is_an_error(served: Served) -> None:
    with pytest.raises(OSError, match="address already in use"):
        served.serving.run(served.server.start("127.0.0.1", served.port))


def test_a_server_that_stops_accepting_ends_idle_connections_and_lets_calls_end(
    connect: Callable[..., Peer], served: Served
) -> None:
    idle, busy, raw = connect(), connect(), connect(greet=False)
    busy.open(1, "/t/Hold")
    busy.message(1, b"", last=True)
    busy.settle()
    idle.settle()
    served.on_loop(served.server.stop_accepting)
    assert raw.is_closed()
    assert idle.goaway() == (0, ErrorCode.NO_ERROR, "shutdown")
    assert idle.is_closed()
    assert busy.goaway() == (1, ErrorCode.NO_ERROR, "shutdown")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", served.port))
    busy.open(3, "/t/Echo", last=True)
    assert not [found for found in busy.settle() if found.stream == 3]
    served.on_loop(lambda: served.held[0].reply(b"done"))
    assert busy.answer(1).message == b"done"
    assert busy.is_closed()


def stop(served: Served, grace_s: float) -> float:
    started = time.monotonic()
    served.serving.run(served.server.stop(grace_s))
    return time.monotonic() - started


def test_a_server_without_calls_stops_at_once(connect: Callable[..., Peer], served: Served) -> None:
    peers = [connect() for _ in range(3)]
    for peer in peers:
        peer.settle()
    assert stop(served, 30) < 5
    assert all(peer.is_closed() for peer in peers)
    assert served.counts() == (0, 0)


def test_a_server_that_stops_gives_its_calls_a_moment(peer: Peer, served: Served) -> None:
    peer.open(1, "/t/Hold")
    peer.message(1, b"", last=True)
    peer.settle()
    served.serving.loop.call_soon_threadsafe(
        lambda: served.serving.loop.call_later(0.05, lambda: served.held[0].reply(b"just"))
    )
    assert stop(served, 30) < 5
    assert peer.answer(1).message == b"just"


def test_calls_that_outlast_the_grace_are_cut(peer: Peer, served: Served) -> None:
    for stream, path in ((1, "/t/Slow"), (3, "/t/Hold"), (5, "/t/Deaf")):
        peer.open(stream, path)
        peer.message(stream, b"x", last=True)
    peer.settle()
    stop(served, 0.02)
    assert peer.is_closed()
    assert sorted(served.cancelled) == ["Hold", "Slow"]
    assert served.counts() == (0, 0)


def test_a_server_stops_while_a_client_does_not_read(connect: Callable[..., Peer], served: Served) -> None:
    peer = connect(receive_buffer=4096)
    peer.send(frames.window_update(0, 1 << 30) + frames.settings_frame({frames.Setting.INITIAL_WINDOW_SIZE: 1 << 30}))
    peer.open(1, "/t/Count")
    peer.message(1, b"1000 1000000", last=True)
    served.wait_until(lambda: len(served.taken) > 1)
    assert stop(served, 0.02) < 5
    assert served.counts() == (0, 0)


def test_stopping_twice_does_no_harm(served: Served) -> None:
    stop(served, 0)
    stop(served, 0)


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def tls(serve: Callable[..., Served], authority: trustme.CA) -> Served:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    context.set_alpn_protocols(["h2"])
    return serve(context)


def test_a_call_passes_over_tls(tls: Served, authority: trustme.CA) -> None:
    context = ssl.create_default_context()
    authority.configure_trust(context)
    context.set_alpn_protocols(["h2"])
    with Peer(tls.port, greet=False) as peer:
        secured: Any = context.wrap_socket(peer.socket, server_hostname="127.0.0.1")
        assert secured.selected_alpn_protocol() == "h2"
        peer.socket = secured
        peer.send(frames.PREFACE + frames.settings_frame({}))
        assert peer.call(1, b"secret").message == b"secret"


def test_a_server_stops_though_a_client_never_shakes_hands(tls: Served) -> None:
    with Peer(tls.port, greet=False) as peer:
        peer.send(b"\x16\x03\x01")
        # The kernel has accepted; the server has when another client is served.
        tls.serving.run(asyncio.sleep(0))
        assert stop(tls, 0.02) < 5
        assert tls.counts() == (0, 0)


@pytest.fixture
def channel(served: Served) -> Iterator[grpc.Channel]:
    with grpc.insecure_channel(f"127.0.0.1:{served.port}", UNLIMITED) as channel:
        yield channel


@pytest.mark.parametrize("size", [0, 1, 16_384, 1 << 20, 20 << 20])
def test_a_message_of_any_size_comes_back(size: int, channel: grpc.Channel) -> None:
    assert channel.unary_unary("/t/Echo")(bytes(size), timeout=TIMEOUT_S) == bytes(size)


@pytest.mark.parametrize(
    "compression", [grpc.Compression.Gzip, grpc.Compression.Deflate, grpc.Compression.NoCompression]
)
def test_a_compressed_message_comes_back(compression: grpc.Compression, channel: grpc.Channel) -> None:
    for message in (b"x" * 1000, bytes(1 << 20), bytes(3 << 20)):
        assert channel.unary_unary("/t/Echo")(message, timeout=TIMEOUT_S, compression=compression) == message


def test_metadata_of_any_kind_passes(channel: grpc.Channel, served: Served) -> None:
    metadata = [("a", "1"), ("a", "2"), ("b-bin", b"\0\xff"), ("long", "x" * 5000)]
    future = channel.unary_unary("/t/Hold").future(b"", timeout=TIMEOUT_S, metadata=metadata)
    served.wait_until(lambda: bool(served.held))
    found = served.held[0].head.metadata
    assert [value for key, value in found if key == "a"] == ["1", "2"]
    assert ("long", "x" * 5000) in found
    served.on_loop(lambda: served.held[0].reply(b"y"))
    assert future.result() == b"y"


def test_headers_that_are_too_large_fail_their_call(channel: grpc.Channel) -> None:
    with pytest.raises(grpc.RpcError) as raised:
        channel.unary_unary("/t/Echo")(b"", timeout=TIMEOUT_S, metadata=[("a", "x" * 100_000)])
    assert raised.value.code() in {grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.UNAVAILABLE}  # type: ignore[attr-defined]
    assert channel.unary_unary("/t/Echo")(b"next", timeout=TIMEOUT_S) == b"next"


@pytest.mark.parametrize(
    ("path", "code", "details"),
    [
        ("/t/Refuse", grpc.StatusCode.FAILED_PRECONDITION, "not today: 50 % off, Käse"),
        ("/t/Nowhere", grpc.StatusCode.UNIMPLEMENTED, "Method not found: /t/Nowhere"),
        ("/t/Fault", grpc.StatusCode.INTERNAL, "internal server error; the server's log has the details"),
    ],
)
def test_a_failure_has_its_code_and_its_words(
    path: str, code: grpc.StatusCode, details: str, channel: grpc.Channel
) -> None:
    with pytest.raises(grpc.RpcError) as raised:
        channel.unary_unary(path)(b"", timeout=TIMEOUT_S)
    error: Any = raised.value
    assert (error.code(), error.details()) == (code, details)


def test_a_deadline_ends_the_work(channel: grpc.Channel, served: Served) -> None:
    with pytest.raises(grpc.RpcError) as raised:
        channel.unary_unary("/t/Slow")(b"", timeout=0.05)
    error: Any = raised.value
    assert error.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    served.wait_until(lambda: served.cancelled == ["Slow"])


def test_a_cancelled_call_ends_the_work(channel: grpc.Channel, served: Served) -> None:
    future = channel.unary_unary("/t/Hold").future(b"", timeout=TIMEOUT_S)
    served.wait_until(lambda: bool(served.held))
    future.cancel()
    served.wait_until(lambda: served.cancelled == ["Hold"])
    assert served.counts()[1] == 0


def test_a_stream_passes_both_ways(channel: grpc.Channel) -> None:
    sent = [b"%d" % number * (number % 700) for number in range(2000)]
    call = channel.stream_stream("/t/Stream")(iter(sent), timeout=TIMEOUT_S)
    assert list(call) == sent
    assert call.code() is grpc.StatusCode.OK


def test_a_client_that_leaves_a_stream_ends_it(channel: grpc.Channel, served: Served) -> None:
    call = channel.stream_stream("/t/Count")(iter([b"1000000 100"]), timeout=TIMEOUT_S)
    assert [len(next(call)) for _ in range(3)] == [100] * 3
    call.cancel()
    served.wait_until(lambda: served.server.call_count == 0)


@pytest.mark.parametrize("limits", [{}, {"min_ping_interval_s": 0.001}, {"max_ping_strikes": 1}])
def test_a_busy_client_is_never_told_that_it_pings_too_much(
    limits: dict[str, Any], serve: Callable[..., Served]
) -> None:
    # grpcio measures the connection with pings of its own while data comes.
    served = serve(**{"max_ping_strikes": 2, **limits})
    with grpc.insecure_channel(f"127.0.0.1:{served.port}", UNLIMITED) as channel:
        echo, stream = channel.unary_unary("/t/Echo"), channel.stream_stream("/t/Count")
        rows = iter(stream(iter([b"200 200000"]), timeout=TIMEOUT_S))
        received = 0
        for row in rows:
            received += len(row)
            assert echo(b"x" * 1000, timeout=TIMEOUT_S) == b"x" * 1000
        assert received == 200 * 200_000
        assert echo(bytes(4 << 20), timeout=TIMEOUT_S) == bytes(4 << 20)
        assert served.counts() == (1, 0)


def test_no_call_is_lost_while_connections_grow_old(serve: Callable[..., Served]) -> None:
    served = serve(max_age_s=0.02)
    failed: list[grpc.RpcError] = []
    connections: set[Any] = set()

    def work(channel: grpc.Channel) -> None:
        for _ in range(200):
            try:
                assert channel.unary_unary("/t/Echo")(b"x", timeout=TIMEOUT_S) == b"x"
            except grpc.RpcError as error:
                failed.append(error)
            connections.update(served.server._connections.copy())

    with grpc.insecure_channel(f"127.0.0.1:{served.port}") as channel:
        threads = [threading.Thread(target=work, args=(channel,)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert failed == []
    assert len(connections) > 3


def test_a_thousand_calls_at_once_by_an_asyncio_client(served: Served) -> None:
    async def run() -> list[Any]:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{served.port}", UNLIMITED) as channel:
            echo = channel.unary_unary("/t/Echo")
            return await asyncio.gather(*(echo(b"%d" % number, timeout=TIMEOUT_S) for number in range(1000)))

    assert asyncio.run(run()) == [b"%d" % number for number in range(1000)]


def test_an_asyncio_client_reads_and_writes_a_stream(served: Served) -> None:
    async def run() -> list[Any]:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{served.port}", UNLIMITED) as channel:
            call: Any = channel.stream_stream("/t/Stream")(timeout=TIMEOUT_S)
            found: list[Any] = []
            for message in (b"one", b"", b"three"):
                await call.write(message)
                found.append(await call.read())
            await call.done_writing()
            assert await call.read() is grpc.aio.EOF
            return [*found, await call.code()]

    assert asyncio.run(run()) == [b"one", b"", b"three", grpc.StatusCode.OK]
