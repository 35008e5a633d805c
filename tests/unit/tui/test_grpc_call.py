"""One gRPC call, against a peer that says what each test wants, well-behaved or not."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from typing import TYPE_CHECKING, Any

import hpack
import pytest

from infer.tui import http2
from infer.tui.failure import ClientError, Kind
from infer.tui.grpc_call import Call, split_address

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Peer:
    """The server's end of one connection."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._stream = connection.makefile("rb")
        self._encoder = hpack.Encoder()

    def begin(self, *settings: tuple[int, int]) -> None:
        """Read the preface, and send settings."""
        assert self._stream.read(len(http2.PREFACE)) == http2.PREFACE
        self.send(http2.SETTINGS, 0, 0, b"".join(http2.SETTING.pack(*setting) for setting in settings))

    def send(self, kind: int, flags: int = 0, stream: int = 1, payload: bytes = b"") -> None:
        self._connection.sendall(http2.frame(kind, flags, stream, payload))

    def headers(self, *headers: tuple[str, str], end: bool = False) -> None:
        flags = http2.END_HEADERS | (http2.END_STREAM if end else 0)
        self.send(http2.HEADERS, flags, payload=self._encoder.encode(list(headers)))

    def message(self, data: bytes) -> None:
        self.send(http2.DATA, payload=struct.pack(">BI", 0, len(data)) + data)

    def end(self, status: str = "0", text: str = "") -> None:
        self.headers(("grpc-status", status), ("grpc-message", text), end=True)

    def read(self) -> tuple[int, int, int, bytes]:
        word, flags, stream = http2.HEAD.unpack(self._stream.read(9))
        return word & 0xFF, flags, stream, self._stream.read(word >> 8)

    def read_until(self, kind: int) -> tuple[int, int, int, bytes]:
        while True:
            found = self.read()
            if found[0] == kind:
                return found

    def hang_up(self) -> None:
        """Say that nothing more comes, and read what the client still sends: a reset would take away what it got."""
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_WR)
            while self._stream.read(1 << 16):
                pass
        self._stream.close()

    def read_to_the_end(self) -> None:
        """Read what comes until the client has said that no more does."""
        while not self.read_until(http2.DATA)[1] & http2.END_STREAM:
            pass


class Server:
    """Runs a script for one connection; what the script raises fails the test."""

    def __init__(self, script: Callable[[Peer], None]) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._script = script
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="peer")

    def _run(self) -> None:
        try:
            connection, _ = self._listener.accept()
            with connection:
                connection.settimeout(20)
                peer = Peer(connection)
                self._script(peer)
                peer.hang_up()
        except BaseException as error:  # noqa: BLE001  the test's own thread raises it
            self._failure = error

    def __enter__(self) -> str:
        self._thread.start()
        return self.address

    def __exit__(self, *_: object) -> None:
        self._thread.join(20)
        self._listener.close()
        if self._failure is not None:
            raise self._failure


def called(script: Callable[[Peer], None], *messages: bytes, timeout: float = 20.0) -> list[bytes]:
    """What a call against a scripted server receives."""
    with Server(script) as address, Call(address, "/service/method", timeout) as call:
        for message in messages:
            call.send(message)
        call.finish()
        return list(call.messages())


def refusal(script: Callable[[Peer], None], **options: Any) -> ClientError:
    with pytest.raises(ClientError) as caught:
        called(script, b"x", **options)
    return caught.value


def test_messages_come_as_they_are_sent_and_the_call_ends_with_its_status() -> None:
    def script(peer: Peer) -> None:
        peer.begin()
        *_, block = peer.read_until(http2.HEADERS)
        headers = dict(hpack.Decoder().decode(block))
        assert headers[":path"] == "/service/method"
        assert (headers["content-type"], headers["te"]) == ("application/grpc", "trailers")
        assert peer.read_until(http2.DATA)[3] == b"\0\0\0\0\5hello"
        peer.read_to_the_end()
        peer.headers((":status", "200"))
        peer.message(b"one")
        peer.message(b"")
        peer.message(b"two")
        peer.end()

    assert called(script, b"hello") == [b"one", b"", b"two"]


def test_a_message_in_many_frames_and_padding_is_one_message() -> None:
    def script(peer: Peer) -> None:
        peer.begin()
        peer.read_to_the_end()
        peer.headers((":status", "200"))
        for byte in b"\0\0\0\0\3abc":
            peer.send(http2.DATA, http2.PADDED, payload=b"\2" + bytes([byte]) + b"\0\0")
        peer.end()

    assert called(script, b"") == [b"abc"]


def test_headers_may_go_on_in_further_frames_and_have_a_priority() -> None:
    def script(peer: Peer) -> None:
        peer.begin()
        peer.read_to_the_end()
        block = hpack.Encoder().encode([(":status", "200"), ("grpc-status", "0")])
        flags = http2.END_STREAM | http2.PRIORITY
        peer.send(http2.HEADERS, flags, payload=b"\0\0\0\0\0" + block[:3])
        peer.send(http2.CONTINUATION, http2.END_HEADERS, payload=block[3:])

    assert called(script, b"") == []


def test_pings_and_settings_are_answered() -> None:
    def script(peer: Peer) -> None:
        peer.begin()
        peer.send(http2.PING, 0, 0, b"12345678")
        peer.read_to_the_end()
        peer.headers((":status", "200"))
        peer.message(b"x")
        assert peer.read_until(http2.SETTINGS)[1] == http2.ACK
        assert peer.read_until(http2.PING)[1:] == (http2.ACK, 0, b"12345678")
        peer.send(http2.PING, http2.ACK, 0, b"12345678")
        peer.send(http2.SETTINGS, http2.ACK, 0)
        peer.end()

    assert called(script, b"") == [b"x"]


def test_no_more_is_sent_than_the_windows_allow() -> None:
    def script(peer: Peer) -> None:
        peer.begin((http2.INITIAL_WINDOW_SIZE, 10), (http2.MAX_FRAME_SIZE, 16_384))
        # The first settings may come after the first bytes, which go by the window that every connection begins with.
        received, window = 0, http2.FIRST_WINDOW
        while received < 100_005:
            _, _, _, payload = peer.read_until(http2.DATA)
            received += len(payload)
            assert len(payload) <= 16_384
            assert received <= window
            if received == window or received >= http2.FIRST_WINDOW:
                window += 40_000
                peer.send(http2.WINDOW_UPDATE, 0, 0, http2.WORD.pack(40_000))
                peer.send(http2.WINDOW_UPDATE, 0, 1, http2.WORD.pack(120_000))
        peer.read_to_the_end()
        peer.headers((":status", "200"))
        peer.end()

    assert called(script, bytes(100_000)) == []


def test_a_message_larger_than_the_window_is_asked_for_while_it_comes() -> None:
    size = 40 << 20

    def script(peer: Peer) -> None:
        peer.begin()
        peer.read_to_the_end()
        peer.headers((":status", "200"))
        data = memoryview(struct.pack(">BI", 0, size) + bytes(size))
        window = 16 << 20
        while data:
            while window < 16_384:
                _, _, stream, payload = peer.read_until(http2.WINDOW_UPDATE)
                window += http2.WORD.unpack(payload)[0] if stream == 1 else 0
            part, data = data[:16_384], data[16_384:]
            window -= len(part)
            peer.send(http2.DATA, payload=bytes(part))
        peer.end()

    (message,) = called(script, b"")
    assert len(message) == size


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        ("3", Kind.USAGE),
        ("5", Kind.NOT_FOUND),
        ("7", Kind.REFUSED),
        ("14", Kind.NOT_READY),
        ("16", Kind.REFUSED),
        ("13", Kind.FAILED),
    ],
)
def test_a_status_is_a_failure_with_the_servers_sentence(status: str, kind: Kind) -> None:
    def script(peer: Peer) -> None:
        peer.begin()
        peer.read_to_the_end()
        peer.headers((":status", "200"))
        peer.end(status, "not%20today, h%C3%A4h")

    failure = refusal(script)
    assert (failure.kind, failure.why) == (kind, "not today, häh")


def test_messages_before_a_bad_status_are_given() -> None:
    def script(peer: Peer) -> None:
        peer.begin()
        peer.read_to_the_end()
        peer.headers((":status", "200"))
        peer.message(b"one")
        peer.end("13")

    found: list[bytes] = []
    with Server(script) as address, Call(address, "/s/m", 20) as call:
        call.finish()
        with pytest.raises(ClientError) as caught:
            found.extend(call.messages())
    assert caught.value.why == "it gave no reason"


def test_a_call_that_is_left_is_cancelled() -> None:
    def script(peer: Peer) -> None:
        peer.begin()
        peer.read_to_the_end()
        peer.headers((":status", "200"))
        peer.message(b"one")
        assert peer.read_until(http2.RST_STREAM)[3] == http2.WORD.pack(http2.CANCEL)

    with Server(script) as address, contextlib.suppress(KeyboardInterrupt), Call(address, "/s/m", 20) as call:
        call.finish()
        for _ in call.messages():
            raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("script", "phrase"),
    [
        (lambda peer: peer.send(http2.RST_STREAM, payload=http2.WORD.pack(2)), "it reset the call with error 2"),
        (lambda peer: peer.send(http2.GOAWAY, 0, 0, bytes(8) + b"go away"), "it refused the connection: go away"),
        (lambda peer: peer.headers((":status", "404"), end=True), "without a status (HTTP 404)"),
        (lambda peer: peer.send(http2.HEADERS, http2.END_HEADERS, payload=b"\xff\xff\xff\xff\xff"), "headers"),
        (lambda peer: peer.send(http2.DATA, payload=b"\1\0\0\0\1x"), "compressed"),
        (lambda peer: None, "closed the connection"),
    ],
    ids=["reset", "goaway", "no grpc", "headers", "compressed", "closed"],
)
def test_a_peer_that_breaks_off_is_named_with_what_it_did(script: Callable[[Peer], None], phrase: str) -> None:
    def whole(peer: Peer) -> None:
        peer.begin()
        peer.read_to_the_end()
        script(peer)

    failure = refusal(whole)
    assert phrase in failure.why
    assert "--grpc-url" in failure.fix


def test_a_goaway_that_lets_the_call_finish_is_no_failure() -> None:
    def script(peer: Peer) -> None:
        peer.begin()
        peer.read_to_the_end()
        peer.send(http2.GOAWAY, 0, 0, http2.WORD.pack(1) + bytes(4))
        peer.headers((":status", "200"))
        peer.message(b"x")
        peer.end()

    assert called(script, b"") == [b"x"]


def test_a_silent_server_is_too_late() -> None:
    ended = threading.Event()

    def script(peer: Peer) -> None:
        peer.begin()
        assert ended.wait(20)

    failure = refusal_of_silence(script, ended)
    assert (failure.kind, failure.late) == (Kind.NOT_READY, True)
    assert "silent for 0.05 seconds" in failure.why


def refusal_of_silence(script: Callable[[Peer], None], ended: threading.Event) -> ClientError:
    with Server(script) as address:
        try:
            with pytest.raises(ClientError) as caught, Call(address, "/s/m", 0.05) as call:
                list(call.messages())
        finally:
            ended.set()
    return caught.value


def test_nobody_there_is_no_connection() -> None:
    with pytest.raises(ClientError) as caught, Call("127.0.0.1:9", "/s/m", 5):
        pass
    assert caught.value.kind is Kind.NO_CONNECTION


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("host:1", ("host", 1)),
        ("grpc://host:1", ("host", 1)),
        ("http://host:1", ("host", 1)),
        ("[::1]:8001", ("::1", 8001)),
    ],
)
def test_an_address_is_host_and_port(text: str, address: tuple[str, int]) -> None:
    assert split_address(text) == address


@pytest.mark.parametrize("text", ["", "host", "host:", "host:x", ":1", "https://host:1", "host:99999", "[::1"])
def test_what_is_no_address_is_a_usage_error(text: str) -> None:
    with pytest.raises(ClientError) as caught:
        split_address(text)
    assert caught.value.kind is Kind.USAGE


@pytest.fixture(autouse=True)
def nothing_open() -> Iterator[None]:
    """Every socket of a call is closed with it."""
    yield
    assert not [thread for thread in threading.enumerate() if thread.name == "peer"]
