"""The memory of a channel's two ends, handed to and fro without a socket."""

from __future__ import annotations

import os

import pytest

from infer.backends.python.worker import frames, parcels, slabs
from infer.backends.python.worker.exchange import Exchange
from infer.backends.python.worker.frames import HEADER, Frame, FrameError, Kind
from infer.backends.python.worker.parcels import Entry

SIZE = 2 * parcels.INLINE_LIMIT


def sent(sender: Exchange) -> Frame:
    """A parcel with one large tensor, as it arrives."""
    layout = sender.signatures.layout((), (("x", "UINT8", (SIZE,), SIZE),))
    entries = [Entry(1, layout, [b"a" * SIZE])]
    slab = sender.fill_slab(entries, layout.total)
    frame = parcels.pack(Kind.RESPONSE, 0, entries, slab=slab.id, descriptors=1)
    return Frame(Kind.RESPONSE, 0, 0, bytearray(frame[HEADER.size :]), [slab.take_descriptor()])


def release(ids: list[int], flags: int = 0) -> Frame:
    """RELEASE, as it arrives."""
    return Frame(Kind.RELEASE, flags, 0, bytearray(frames.pack_ids(Kind.RELEASE, ids)[HEADER.size :]), [])


def is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


def test_a_slab_comes_back_when_its_last_view_is_gone() -> None:
    released: list[int] = []
    sender, receiver = Exchange(released.append), Exchange(released.append)
    frame = sent(sender)
    receiver.admit(frame)
    parcel, memory = receiver.open_parcel(frame.payload)
    assert bytes(memory[:SIZE]) == b"a" * SIZE
    assert released == []
    del memory
    assert released == [parcel.slab]
    assert sender.take_back(release(released)) is None
    assert sender.pool.counts == (0, 1)


def test_a_slab_beyond_what_a_pool_keeps_is_to_be_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slabs, "IDLE_LIMIT", 0)
    sender, receiver = Exchange(lambda _: None), Exchange(lambda _: None)
    frame = sent(sender)
    receiver.admit(frame)
    slab_id = receiver.open_parcel(frame.payload)[0].slab
    answer = sender.take_back(release([slab_id]))
    assert answer == frames.pack_ids(Kind.RELEASE, [slab_id], flags=frames.FORGET)
    assert receiver.take_back(release([slab_id], frames.FORGET)) is None
    with pytest.raises(FrameError, match=f"slab {slab_id} is unknown"):
        receiver.open_parcel(frame.payload)


def test_descriptors_of_a_parcel_that_makes_no_sense_are_closed() -> None:
    descriptors = [os.memfd_create("one"), os.memfd_create("other")]
    frame = Frame(Kind.RESPONSE, 0, 0, bytearray(b"short"), list(descriptors))
    with pytest.raises(FrameError):
        Exchange(lambda _: None).admit(frame)
    assert [is_open(descriptor) for descriptor in descriptors] == [False, False]
    assert frame.descriptors == []
