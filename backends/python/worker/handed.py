"""Frames that stay in their process: what they carry is handed over as it is, nothing is packed and unpacked.

The payload of such a frame is the pair that ``open_parcel`` gives: the parcel and the memory of its tensors, which is
the receiver's own. Sender and receiver may use different copies of this folder, so nothing here asks for a class.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from . import parcels
from .frames import HEADER, Frame, FrameError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from .parcels import Entry, Parcel
    from .slabs import Slab, SlabPool


class PlainSlab:
    """Memory for one large parcel: it belongs to whoever receives it, so there is nothing to give back."""

    __slots__ = ("memory",)
    id = 0

    def __init__(self, size: int) -> None:
        self.memory: NDArray[np.uint8] = np.empty(size, np.uint8)

    def write(self, offset: int, data: Any) -> int:  # noqa: ANN401  any bytes-like object
        """Copy one tensor in and return its length."""
        source: NDArray[np.uint8] = np.frombuffer(data, dtype=np.uint8)
        self.memory[offset : offset + source.size] = source
        return source.size


class PlainPool:
    """What stands for a pool of slabs where nothing has to be mapped by anyone."""

    def take(self, size: int) -> PlainSlab:
        """Memory of that many bytes."""
        return PlainSlab(size)

    def close(self) -> None:
        """Nothing is kept."""


def plain_pool() -> SlabPool:
    """A pool for an end of a channel that stays in its process."""
    return cast("SlabPool", PlainPool())


def opened(frame: bytes, descriptors: Sequence[int]) -> Frame:
    """A packed frame without descriptors as its receiver sees it. Raises FrameError for one with some."""
    if descriptors:
        msg = "a frame with descriptors stays in its process"
        raise FrameError(msg)
    kind, flags, _, _, frame_id = HEADER.unpack_from(frame)
    return Frame(kind, flags, frame_id, bytearray(memoryview(frame)[HEADER.size :]), [])


def hand_over(  # noqa: PLR0913  as packing does
    kind: int,
    frame_id: int,
    entries: Sequence[Entry],
    *,
    flags: int = 0,
    stamps: tuple[int, int, int, int] = parcels.NO_STAMPS,
    slab: Slab | None = None,
) -> Frame:
    """A frame with requests or responses, their tensors copied into memory of the receiver's or already in ``slab``."""
    items: list[parcels.Item] = []
    start = 0
    for entry in entries:
        text = entry.text.decode() if entry.text else ""
        extras: dict[str, Any] = json.loads(entry.extras) if entry.extras else {}
        items.append(parcels.Item(entry.id, entry.flags, entry.layout, text, extras, start))
        start += entry.layout.total
    parcel = parcels.Parcel(0, start, stamps, items)
    memory = slab.memory if slab is not None else _copied(entries, start)
    return Frame(kind, flags, frame_id, cast("bytearray", (parcel, memory)), [])


def parcel_of(payload: Any) -> tuple[Parcel, Any] | None:  # noqa: ANN401  what a frame carries
    """What was handed over; None for a payload of bytes."""
    return cast("tuple[Parcel, Any]", payload) if type(payload) is tuple else None


def _copied(entries: Sequence[Entry], size: int) -> bytearray | NDArray[np.uint8]:
    if size > parcels.INLINE_LIMIT:
        slab = PlainSlab(size)
        parcels.fill(cast("Slab", slab), entries)
        return slab.memory
    parts: list[Any] = []
    for entry in entries:
        for buffer, pad in zip(entry.buffers, entry.layout.pads):
            parts += (buffer, pad)
    return bytearray().join(parts)
