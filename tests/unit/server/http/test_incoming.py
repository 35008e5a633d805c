"""A request is kept as it comes in, and refused where it is too much: the parser's callbacks, called by hand."""

from __future__ import annotations

import pytest

from infer.server.http.incoming import Incoming, Refused, content_length
from infer.server.http.limits import MAX_CHUNKS, MAX_INT32, Limits, Phase

LIMITS = Limits(max_input_size=1000, max_header_size=100)


def begun(url: bytes = b"/v2/repository/index", *headers: tuple[bytes, bytes]) -> Incoming:
    """A request whose headers are there, but not checked."""
    incoming = Incoming(LIMITS)
    incoming.on_message_begin()
    incoming.on_url(url)
    for name, value in headers:
        incoming.on_header(name, value)
    return incoming


def with_body(*pieces: bytes, chunked: bool = False, url: bytes = b"/v2/models/m/infer") -> Incoming:
    incoming = begun(url)
    incoming.end_headers()
    for piece in pieces:
        if chunked:
            incoming.on_chunk_header()
        incoming.add(piece)
    return incoming


class TestContentLength:
    """The one header that is read before the application sees it."""

    @pytest.mark.parametrize(
        ("text", "length"), [(b"0", 0), (b" 12 ", 12), (b"0000000000000012", 12), (b"2147483647", MAX_INT32)]
    )
    def test_a_number_is_taken(self, text: bytes, length: int) -> None:
        assert content_length(text) == length

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            (b"", "Unable to parse Content-Length, got: "),
            (b"x", "Unable to parse Content-Length, got: x"),
            (b"-1", "Unable to parse Content-Length, got: -1"),
            (b"1 2", "Unable to parse Content-Length, got: 1 2"),
            (b"\xff", "Unable to parse Content-Length, got: \xff"),
            (
                b"2147483648",
                "Unable to parse Content-Length, value is out of range [ 0, 2147483647 ], got: 2147483648",
            ),
            (b"9" * 11, f"Unable to parse Content-Length, value is out of range [ 0, 2147483647 ], got: {'9' * 11}"),
        ],
    )
    def test_what_is_none_or_too_large_is_refused_in_tritons_words(self, text: bytes, message: str) -> None:
        with pytest.raises(Refused) as raised:
            content_length(text)
        assert (raised.value.status, raised.value.message) == (400, message)

    def test_it_is_read_when_its_header_comes_in_any_case(self) -> None:
        with pytest.raises(Refused):
            begun(b"/", (b"CONTENT-Length", b"x"))

    def test_in_a_trailer_it_means_nothing(self) -> None:
        incoming = with_body(b"abc", chunked=True)
        incoming.on_header(b"Content-Length", b"x")
        assert incoming.headers == []


class TestHeaders:
    """What the headers claim is checked before any of the body is kept."""

    def test_their_names_come_in_small_letters_and_their_values_as_they_are(self) -> None:
        assert begun(b"/", (b"X-Some", b"Value"), (b"x-some", b"2")).headers == [
            (b"x-some", b"Value"),
            (b"x-some", b"2"),
        ]

    def test_the_target_may_come_in_pieces(self) -> None:
        incoming = begun(b"/v2/mod")
        incoming.on_url(b"els")
        assert incoming.url == b"/v2/models"

    @pytest.mark.parametrize(("value", "expects"), [(b"100-Continue", True), (b"200-ok", False)])
    def test_only_100_continue_can_be_expected(self, value: bytes, expects: bool) -> None:
        assert begun(b"/", (b"Expect", value)).expects_continue is expects

    def test_a_body_that_is_claimed_too_large_is_refused(self) -> None:
        with pytest.raises(
            Refused, match="request JSON size of 1001 bytes exceeds the maximum allowed input size of 1000"
        ):
            begun(b"/v2/repository/index", (b"Content-Length", b"1001")).end_headers()
        begun(b"/v2/repository/index", (b"Content-Length", b"1000")).end_headers()

    @pytest.mark.parametrize("url", [b"/v2/models/m/infer", b"/v2/models/m/infer?x=1", b"http://h/v2/models/m/infer"])
    def test_but_not_before_an_inference_because_tensors_have_no_such_limit(self, url: bytes) -> None:
        begun(url, (b"Content-Length", b"1001")).end_headers()

    def test_they_are_measured_where_more_was_fed_than_they_may_have(self) -> None:
        incoming = begun(b"/" + b"a" * 59, (b"x", b"y" * 40))
        incoming.untraced = 101
        with pytest.raises(Refused, match="exceeds the maximum of 100 bytes") as raised:
            incoming.end_headers()
        assert raised.value.status == 431

    def test_what_was_fed_may_be_body_too(self) -> None:
        incoming = begun(b"/" + b"a" * 59, (b"x", b"y" * 39))
        incoming.untraced = 5000
        incoming.end_headers()
        assert incoming.untraced == 0


class TestBody:
    """A small body stays where it was received; a large one is joined once and grows."""

    def test_one_piece_is_the_body_itself(self) -> None:
        piece = b"some body"
        assert with_body(piece).end() is piece

    def test_pieces_are_joined_in_order(self) -> None:
        assert with_body(b"ab", b"", b"cd").end() == b"abcd"

    def test_no_piece_is_an_empty_body(self) -> None:
        assert with_body().end() == b""

    @pytest.mark.parametrize("size", [(1 << 20) - 1, 1 << 20, (1 << 20) + 1])
    def test_pieces_around_a_megabyte_are_whole(self, size: int) -> None:
        whole = (bytes(range(251)) * (size // 251 + 1))[:size]
        incoming = with_body(*[whole[start : start + 100_000] for start in range(0, size, 100_000)], b"end")
        assert incoming.received == size + 3
        assert incoming.end() == whole + b"end"

    def test_every_piece_shows_that_the_parser_does_not_hoard(self) -> None:
        incoming = with_body()
        incoming.untraced = 50
        incoming.add(b"x")
        assert incoming.untraced == 0

    @pytest.mark.parametrize("first", [b"small", bytes(2 << 20)])
    def test_nothing_of_a_request_is_left_for_the_next(self, first: bytes) -> None:
        incoming = with_body(first, chunked=True)
        incoming.end()
        incoming.on_message_begin()
        incoming.on_url(b"/v2")
        incoming.end_headers()
        incoming.add(b"second")
        assert (incoming.received, incoming.url, incoming.headers) == (6, b"/v2", [])
        assert incoming.end() == b"second"

    @pytest.mark.parametrize("first", [b"small", bytes(2 << 20)])
    def test_what_is_dropped_is_gone(self, first: bytes) -> None:
        incoming = with_body(first)
        incoming.drop()
        assert incoming.end() == b""


class TestChunks:
    """A chunked body has no length to check beforehand."""

    def test_as_many_chunks_as_triton_takes_are_taken(self) -> None:
        incoming = with_body(*[b"x"] * MAX_CHUNKS, chunked=True)
        incoming.on_chunk_header()
        assert incoming.end() == b"x" * MAX_CHUNKS

    def test_one_more_is_refused(self) -> None:
        incoming = with_body(*[b"x"] * MAX_CHUNKS, chunked=True)
        incoming.on_chunk_header()
        with pytest.raises(Refused, match="exceeds maximum of 65536 non-empty chunks"):
            incoming.add(b"x")

    def test_a_body_over_the_limit_is_refused_when_it_gets_there(self) -> None:
        incoming = with_body(bytes(1000), chunked=True, url=b"/v2/repository/index")
        with pytest.raises(Refused, match="request JSON size of 1001 bytes"):
            incoming.add(b"x")

    def test_an_inference_may_be_larger(self) -> None:
        assert with_body(bytes(1000), b"x", chunked=True).received == 1001


def test_the_phase_says_what_is_waited_for() -> None:
    incoming = Incoming(LIMITS)
    phases = [incoming.phase]
    for step in (incoming.on_message_begin, incoming.end_headers, incoming.end):
        step()
        phases.append(incoming.phase)
    assert phases == [Phase.IDLE, Phase.HEADERS, Phase.BODY, Phase.IDLE]
