"""What is handed over within a process is what packing and unpacking would give."""

from __future__ import annotations

import json
import os
from typing import Any, cast

import numpy as np
import pytest

from infer.backends.python.worker import frames, handed, parcels
from infer.backends.python.worker.frames import FrameError, Kind

ROWS = (("a", "INT32", (3,), 12), ("b", "BYTES", (1,), 5), ("none", "FP32", (0,), 0))


def entry(number: int, **more: Any) -> parcels.Entry:
    buffers = [np.arange(3, dtype=np.int32) + number, b"12345", b""]
    return parcels.Entry(number, parcels.Layout(("m", -1, ()), ROWS), buffers, **more)


@pytest.mark.parametrize(
    "entries",
    [
        [],
        [entry(1)],
        [entry(1, flags=7, text="é".encode(), extras=json.dumps({"parameters": {"x": 1}}).encode()), entry(2)],
    ],
    ids=["none", "one", "two"],
)
def test_a_parcel_is_the_same_handed_over_and_packed(entries: list[parcels.Entry]) -> None:
    stamps = (1, 2, 3, 4)
    frame = handed.hand_over(Kind.FINAL, 9, entries, flags=3, stamps=stamps)
    assert (frame.kind, frame.flags, frame.id, frame.descriptors) == (Kind.FINAL, 3, 9, [])
    found = handed.parcel_of(frame.payload)
    assert found is not None
    parcel, memory = found
    packed = parcels.pack(Kind.FINAL, 9, entries, flags=3, stamps=stamps)
    payload = bytearray(packed[frames.HEADER.size :])
    other = parcels.unpack(payload, parcels.Signatures())
    assert (parcel.slab, parcel.size, parcel.stamps) == (0, other.size, stamps)
    for one, two in zip(parcel.items, other.items, strict=True):
        assert (one.id, one.flags, one.text, one.extras) == (two.id, two.flags, two.text, two.extras)
        assert one.layout.signature == two.layout.signature
        for row, offset in zip(one.layout.tensors, one.layout.offsets, strict=True):
            size = row[3]
            mine = bytes(memory[one.start + offset : one.start + offset + size])
            assert mine == bytes(payload[two.start + offset : two.start + offset + size])


@pytest.mark.parametrize("count", [4, 100_000])
def test_the_memory_is_the_receivers_alone(count: int) -> None:
    array = np.zeros(count, np.int32)
    layout = parcels.Layout((), (("a", "INT32", (count,), array.nbytes),))
    frame = handed.hand_over(Kind.EXECUTE, 1, [parcels.Entry(1, layout, [array])])
    found = handed.parcel_of(frame.payload)
    assert found is not None
    view = np.ndarray((count,), np.int32, found[1], found[0].items[0].start)
    view += 1
    array += 5
    assert (int(view[-1]), int(array[-1])) == (1, 5)


def test_tensors_that_lie_ready_in_a_slab_are_not_copied() -> None:
    array = np.arange(4, dtype=np.int32)
    layout = parcels.Layout((), (("a", "INT32", (4,), 16),))
    pool = handed.plain_pool()
    slab = pool.take(layout.total)
    parcels.fill(slab, [parcels.Entry(1, layout, [array])])
    frame = handed.hand_over(Kind.EXECUTE, 1, [parcels.Entry(1, layout, [array])], slab=slab)
    found = handed.parcel_of(frame.payload)
    assert found is not None
    assert found[1] is slab.memory
    assert slab.memory[:16].view(np.int32).tolist() == [0, 1, 2, 3]
    pool.close()


def test_a_packed_frame_is_opened_as_its_receiver_would_see_it() -> None:
    frame = handed.opened(frames.pack(Kind.CANCEL, 7, b"ab", flags=1), ())
    assert frame == (Kind.CANCEL, 1, 7, bytearray(b"ab"), [])
    assert handed.parcel_of(frame.payload) is None


def test_a_frame_with_descriptors_is_refused() -> None:
    descriptor = os.open(os.devnull, os.O_RDONLY)
    try:
        with pytest.raises(FrameError, match="descriptors"):
            handed.opened(frames.pack(Kind.HELLO, 1, descriptors=1), [descriptor])
    finally:
        os.close(descriptor)


def test_memory_of_no_bytes_serves_tensors_without_elements() -> None:
    layout = parcels.Layout((), (("a", "INT32", (0,), 0),))
    frame = handed.hand_over(Kind.EXECUTE, 1, [parcels.Entry(1, layout, [b""])])
    _, memory = cast("Any", handed.parcel_of(frame.payload))
    assert np.ndarray((0,), np.int32, memory, 0).size == 0
