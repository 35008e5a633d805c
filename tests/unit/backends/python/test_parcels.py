"""Parcels: what is packed comes back equal, what is broken is refused."""

from __future__ import annotations

import pytest

from infer.backends.python.worker import parcels
from infer.backends.python.worker.frames import HEADER, FrameError, Kind
from infer.backends.python.worker.parcels import Entry, Layout, Signatures


def entries() -> list[Entry]:
    signatures = Signatures()
    rows = (("x", "INT8", (3,), 3), ("y", "BYTES", (1,), 9), ("z", "FP32", (0,), 0))
    one = signatures.layout(("m", 3, ("A", "B")), rows)
    other = signatures.layout((), ())
    return [
        Entry(7, one, [b"abc", b"\x05\0\0\0hello", b""], 0, "ré".encode(), b'{"parameters": {"a": 1}}'),
        Entry(2**63, other, [], parcels.ENTRY_FINAL | parcels.ENTRY_ERROR | 5 << 8, b"bad"),
    ]


def test_a_parcel_comes_back_as_it_was_packed() -> None:
    frame = parcels.pack(Kind.FINAL, 9, entries(), stamps=(1, 2, 3, 4))
    payload = bytearray(frame[HEADER.size :])
    parcel = parcels.unpack(payload, Signatures())
    assert (parcel.slab, parcel.stamps) == (0, (1, 2, 3, 4))
    first, second = parcel.items
    assert (first.id, first.text, first.extras) == (7, "ré", {"parameters": {"a": 1}})
    assert first.layout.head == ("m", 3, ("A", "B"))
    starts = [first.start + offset for offset in first.layout.offsets]
    assert all(start % parcels.ALIGNMENT == 0 for start in starts)
    assert [
        bytes(payload[start : start + row[3]]) for start, row in zip(starts, first.layout.tensors, strict=True)
    ] == [
        b"abc",
        b"\x05\0\0\0hello",
        b"",
    ]
    assert (second.id, second.text, second.extras, second.layout.tensors) == (2**63, "bad", {}, ())
    assert second.flags >> 8 == 5


@pytest.mark.parametrize("text", ["", "7", "ré", "x" * 63, "x" * 64, "x" * 5000])
@pytest.mark.parametrize("content", [b"", b"abc"])
def test_an_entry_alone_comes_back_with_its_text(text: str, content: bytes) -> None:
    layout = Signatures().layout(("m", 1, ()), (("x", "INT8", (len(content),), len(content)),))
    frame = parcels.pack(Kind.EXECUTE, 5, [Entry(6, layout, [content], 0, text.encode())])
    payload = bytearray(frame[HEADER.size :])
    (item,) = parcels.unpack(payload, Signatures()).items
    assert (item.id, item.text, item.extras, item.layout.head) == (6, text, {}, ("m", 1, ()))
    assert bytes(payload[item.start : item.start + len(content)]) == content
    assert item.start % parcels.ALIGNMENT == 0


def test_it_is_packed_as_it_would_be_among_others(monkeypatch: pytest.MonkeyPatch) -> None:
    layout = Signatures().layout(("m", 1, ()), (("x", "INT8", (3,), 3),))
    entry = Entry(6, layout, [b"abc"], parcels.ENTRY_FINAL, b"id")
    quick = parcels.pack(Kind.EXECUTE, 5, [entry], stamps=(1, 2, 3, 4))
    monkeypatch.setattr(parcels, "_unpack_single", lambda *_: None)
    payload = bytearray(quick[HEADER.size :])
    parcel = parcels.unpack(payload, Signatures())
    (item,) = parcel.items
    assert (parcel.stamps, item.id, item.flags, item.text) == ((1, 2, 3, 4), 6, parcels.ENTRY_FINAL, "id")
    assert bytes(payload[item.start : item.start + 3]) == b"abc"


def test_an_entry_alone_whose_text_is_none_is_refused() -> None:
    frame = parcels.pack(Kind.EXECUTE, 5, [Entry(6, Signatures().layout((), ()), [], 0, b"\xff\xfe")])
    with pytest.raises(FrameError, match="unreadable parcel"):
        parcels.unpack(bytearray(frame[HEADER.size :]), Signatures())


def test_equal_signatures_share_one_layout_on_both_sides() -> None:
    sender, receiver = Signatures(), Signatures()
    rows = (("x", "INT32", (1, 16), 64),)
    assert sender.layout((), rows) is sender.layout((), (("x", "INT32", (1, 16), 64),))
    signature = sender.layout((), rows).signature
    assert receiver.received(signature) is receiver.received(bytes(signature))
    assert receiver.received(signature).tensors == rows


def test_the_memory_of_signatures_is_bounded() -> None:
    signatures = Signatures()
    for size in range(3 * Signatures.LIMIT):
        signatures.received(signatures.layout((), (("x", "INT8", (size,), size),)).signature)
    assert len(signatures._by_key) <= Signatures.LIMIT
    assert len(signatures._by_bytes) <= Signatures.LIMIT


@pytest.mark.parametrize("cut", range(0, 300, 7))
def test_a_parcel_that_is_cut_off_anywhere_is_refused(cut: int) -> None:
    payload = parcels.pack(Kind.EXECUTE, 1, entries())[HEADER.size :]
    if cut < len(payload):
        with pytest.raises(FrameError):
            parcels.unpack(bytearray(payload[:cut]), Signatures())


@pytest.mark.parametrize(
    "signature",
    [
        b"",
        b"[",
        b"7",
        b"[[]]",
        b"[[],[[1]]]",
        b'[[],[["x","INT8",[-1],1]]]',
        b'[[],[["x","INT8",[1],-1]]]',
        b"\xff",
        b'[[],[["x","INT8",null,1]]]',
    ],
)
def test_a_signature_that_makes_no_sense_is_refused(signature: bytes) -> None:
    with pytest.raises(FrameError):
        Layout.from_signature(signature)


@pytest.mark.parametrize("size", [0, 5, 64])
def test_parcels_like_the_one_before_differ_in_what_is_their_own(size: int) -> None:
    layout = Layout((), (("OUT", "INT8", (size,), size),))
    signatures = Signatures()
    for number in range(3):
        data = bytes([number]) * size
        packed = parcels.pack(3, 9, [Entry(number, layout, [data], number)], stamps=(number, 2, 3, 4))
        payload = bytearray(packed[HEADER.size :])
        parcel = parcels.unpack(payload, signatures)
        item = parcel.items[0]
        assert (item.id, item.flags, parcel.stamps, parcel.size) == (number, number, (number, 2, 3, 4), layout.total)
        assert payload[item.start : item.start + size] == data
    assert signatures.last is item.layout


def test_a_parcel_of_the_length_of_the_one_before_is_read_by_its_own_signature() -> None:
    signatures = Signatures()
    for name in ("AA", "BB", "AA"):
        layout = Layout((), ((name, "INT8", (4,), 4),))
        payload = bytearray(parcels.pack(3, 9, [Entry(1, layout, [b"abcd"])])[HEADER.size :])
        assert parcels.unpack(payload, signatures).items[0].layout.tensors[0][0] == name
