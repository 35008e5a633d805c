"""What both ends of a channel do alike with slabs: send parcels in them, map them, and take them back."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from . import frames, parcels, slabs
from .frames import Frame, FrameError, Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from .parcels import Entry, Parcel


class Exchange:
    """The memory of one end of a channel.

    ``on_release(id)`` is called when the last view of a slab of the other side is gone, on any thread.
    """

    def __init__(self, on_release: Callable[[int], None]) -> None:
        self.signatures = parcels.Signatures()
        self.pool = slabs.SlabPool()
        self.slabs = slabs.SlabMap(on_release)

    def open_parcel(self, payload: bytearray) -> tuple[Parcel, bytearray | NDArray[np.uint8]]:
        """A received parcel and the memory its tensors are in. Raises FrameError."""
        parcel = parcels.unpack(payload, self.signatures)
        if not parcel.slab:
            return parcel, payload
        try:
            return parcel, self.slabs.lease(parcel.slab, parcel.size)
        except slabs.SlabError as exc:
            raise FrameError(str(exc)) from exc

    def fill_slab(self, entries: Sequence[Entry], total: int) -> slabs.Slab:
        """A slab with the ``total`` bytes of the entries' tensors."""
        slab = self.pool.take(total)
        parcels.fill(slab, entries)
        return slab

    def admit(self, frame: Frame) -> None:
        """Map the slab that came with a parcel; the frame's descriptors are closed. Raises FrameError and SlabError."""
        descriptor, *others = frame.descriptors
        frame.descriptors.clear()
        for other in others:
            os.close(other)
        try:
            slab_id, size = parcels.slab_of(frame.payload)
        except FrameError:
            os.close(descriptor)
            raise
        self.slabs.admit(slab_id, descriptor, size)

    def take_back(self, frame: Frame) -> bytes | None:
        """Do what RELEASE says; the frame to answer with where the other side should forget some of its slabs."""
        ids = frames.unpack_ids(frame.payload)
        if frame.flags & frames.FORGET:
            for slab_id in ids:
                self.slabs.forget(slab_id)
            return None
        gone = [slab_id for slab_id in ids if not self.pool.give_back(slab_id)]
        return frames.pack_ids(Kind.RELEASE, gone, flags=frames.FORGET) if gone else None
