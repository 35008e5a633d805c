"""Parcels: how requests and responses, with their tensors, travel in a frame.

A parcel is a list of entries, each with

- a *signature*: names, datatypes, shapes and sizes of its tensors as JSON. Clients repeat themselves, so both sides
  keep what they made of a signature, found by its bytes;
- a text (the request id, or an error message) and *extras* as JSON (parameters and the rarer fields), mostly empty;
- its tensors, each at a multiple of 64 bytes: behind the entries, or together in one slab.
"""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING, Any, NamedTuple

from .frames import HEADER, FrameError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .slabs import Slab

ALIGNMENT = 64
INLINE_LIMIT = 64 * 1024
"""Bytes of tensors that still travel inside a frame."""
NO_STAMPS = (0, 0, 0, 0)

ENTRY_FINAL = 0x01
"""Entry flag: the last response of its request."""
ENTRY_ERROR = 0x02
"""Entry flag: the text is an error message; its code is in bits 8 to 15."""
ENTRY_RAISED = 0x04
"""Entry flag: the error is an exception that escaped the model, not one it answered with."""
ENTRY_RESCHEDULED = 0x08
"""Entry flag, in FINAL only: no response; the request goes back to the scheduler and is executed again."""

_PREFIX = struct.Struct("<IIQ4Q")
"""How many entries, the slab (0: none), the bytes of all tensors, four time stamps."""
_ENTRY = struct.Struct("<QIIII")
"""Id, flags, and the bytes of signature, text and extras."""
_SINGLE = struct.Struct(HEADER.format + _PREFIX.format[1:] + _ENTRY.format[1:])
"""Header, prefix and entry of a parcel with one entry."""
_SINGLE_PAYLOAD = _SINGLE.size - HEADER.size
_ONE = struct.Struct(_PREFIX.format + _ENTRY.format[1:])
_ALONE = struct.Struct(HEADER.format + "16s4QQI")
"""The same, as far as not all with its signature have it in common."""
_STAMPS = struct.Struct("<4Q")
_WHO = struct.Struct("<QI")
_STAMPS_AT = 16
_WHO_AT = _STAMPS_AT + _STAMPS.size
_SIGNATURE_AT = _WHO_AT + _WHO.size
"""Where the part of the entry begins that all have in common who have its signature."""
_PADDING = [bytes(count) for count in range(ALIGNMENT)]
_NOTHING: dict[str, Any] = {}
_new: Any = tuple.__new__  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]


class Layout:
    """What a signature says.

    ``head`` is () for a response and (model name, version, requested outputs) for a request, version -1 standing for
    the version policy's choice. ``tensors`` holds (name, datatype, shape, bytes); ``offsets`` are relative to the start
    of the entry's tensors, ``total`` is a multiple of the alignment. ``derived`` is the receiver's to fill.
    """

    __slots__ = (
        "derived",
        "head",
        "offsets",
        "padded",
        "pads",
        "signature",
        "single",
        "single_base",
        "single_prefix",
        "single_size",
        "tensors",
        "total",
    )

    def __init__(self, head: tuple[Any, ...], tensors: tuple[tuple[str, str, tuple[int, ...], int], ...]) -> None:
        self.head = head
        self.tensors = tensors
        self.signature = json.dumps([head, tensors], separators=(",", ":")).encode()
        self.offsets: list[int] = []
        self.pads: list[bytes] = []
        self.total = 0
        for _, _, _, size in tensors:
            self.offsets.append(self.total)
            pad = -size % ALIGNMENT
            self.pads.append(_PADDING[pad])
            self.total += size + pad
        # Alone in a parcel, with neither text nor extras: its size, what all such parcels have in common, and where the
        # tensors begin.
        end = _PREFIX.size + _ENTRY.size + len(self.signature)
        base = end + (-end % ALIGNMENT if self.total else 0)
        self.single_base = base if self.total else 0
        self.single_size = base + self.total
        self.single_prefix = _PREFIX.pack(1, 0, self.total, *NO_STAMPS)[:_STAMPS_AT]
        self.single = struct.pack("<III", len(self.signature), 0, 0) + self.signature + bytes(base - end)
        self.padded = any(self.pads)
        self.derived: Any = None

    @classmethod
    def from_signature(cls, signature: bytes) -> Layout:
        """Read a received signature. Raises FrameError."""
        try:
            parts: tuple[list[Any], list[Any]] = json.loads(signature)
            head, tensors = parts
            rows = tuple((str(n), str(d), tuple(map(int, shape)), int(size)) for n, d, shape, size in tensors)
            layout = cls(tuple(map(_frozen, head)), rows)
        except (ValueError, TypeError) as exc:
            msg = f"unreadable tensor signature of {len(signature)} bytes: {exc}"
            raise FrameError(msg) from exc
        if any(size < 0 or min(shape, default=0) < 0 for _, _, shape, size in rows):
            msg = "tensor signature with a negative size"
            raise FrameError(msg)
        return layout


def _frozen(part: Any) -> Any:  # noqa: ANN401  JSON
    return tuple(part) if isinstance(part, list) else part  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]


class Signatures:
    """The layouts of one side of one channel, found by what is sent and by the bytes that are received."""

    LIMIT = 1024

    def __init__(self) -> None:
        self._by_key: dict[tuple[Any, ...], Layout] = {}
        self._by_form: dict[object, tuple[Layout, bytes]] = {}
        self._by_bytes: dict[bytes, Layout] = {}
        self.last = Layout((), ())
        """The layout that was received last."""

    def layout(self, head: tuple[Any, ...], tensors: tuple[tuple[str, str, tuple[int, ...], int], ...]) -> Layout:
        """The layout of what is to be sent."""
        key = (head, tensors)
        found = self._by_key.get(key)
        if found is None:
            found = Layout(head, tensors)
            if len(self._by_key) >= self.LIMIT:
                self._by_key.clear()
            self._by_key[key] = found
        return found

    def of_form(self, form: object) -> tuple[Layout, bytes] | None:
        """Layout and extras of what is to be sent, where something of that form was sent before."""
        return self._by_form.get(form)

    def remember_form(self, form: object, layout: Layout, extras: bytes) -> None:
        """Keep them."""
        if len(self._by_form) >= self.LIMIT:
            self._by_form.clear()
        self._by_form[form] = (layout, extras)

    def received(self, signature: bytes) -> Layout:
        """The layout of what was received. Raises FrameError."""
        found = self._by_bytes.get(signature)
        if found is None:
            found = Layout.from_signature(signature)
            if len(self._by_bytes) >= self.LIMIT:
                self._by_bytes.clear()
            self._by_bytes[signature] = found
        self.last = found
        return found


class Entry:
    """One request or response to send. ``buffers`` are C-contiguous bytes-like objects in the layout's order."""

    __slots__ = ("buffers", "extras", "flags", "id", "layout", "text")

    def __init__(  # noqa: PLR0913, PLR0917  a record
        self,
        entry_id: int,
        layout: Layout,
        buffers: Sequence[Any],
        flags: int = 0,
        text: bytes = b"",
        extras: bytes = b"",
    ) -> None:
        self.id = entry_id
        self.layout = layout
        self.buffers = buffers
        self.flags = flags
        self.text = text
        self.extras = extras


class Item:
    """One received request or response; its tensors start at ``start`` of the parcel's tensor memory."""

    __slots__ = ("extras", "flags", "id", "layout", "start", "text")

    def __init__(  # noqa: PLR0913, PLR0917  a record
        self, item_id: int, flags: int, layout: Layout, text: str, extras: dict[str, Any], start: int
    ) -> None:
        self.id = item_id
        self.flags = flags
        self.layout = layout
        self.text = text
        self.extras = extras
        self.start = start


class Parcel(NamedTuple):
    """A received parcel. ``slab`` is 0 where the tensors are in the payload; ``size`` is what they take there."""

    slab: int
    size: int
    stamps: tuple[int, ...]
    items: list[Item]


def pack(  # noqa: PLR0913  the hot path takes its arguments one by one
    kind: int,
    frame_id: int,
    entries: Sequence[Entry],
    *,
    flags: int = 0,
    stamps: tuple[int, int, int, int] = NO_STAMPS,
    slab: int = 0,
    descriptors: int = 0,
) -> bytes:
    """A frame with requests or responses, their tensors inside unless ``slab`` names where they are."""
    if len(entries) == 1 and not slab:
        entry = entries[0]
        if not entry.extras:
            if entry.text:
                return _pack_with_text(kind, frame_id, entry, flags, stamps, descriptors)
            # PERF: what nearly every frame is; one pack and one join, the rest was made with the layout.
            layout = entry.layout
            head = _ALONE.pack(
                kind, flags, descriptors, layout.single_size, frame_id, layout.single_prefix, *stamps,
                entry.id, entry.flags,
            )  # fmt: skip
            if not layout.padded:
                return b"".join((head, layout.single, *entry.buffers))
            parts: list[Any] = [head, layout.single]
            for buffer, pad in zip(entry.buffers, layout.pads):
                parts.append(buffer)
                if pad:
                    parts.append(pad)
            return b"".join(parts)
    return _pack(kind, frame_id, entries, flags, stamps, slab, descriptors)


def _pack_with_text(  # noqa: PLR0913, PLR0917  as above
    kind: int, frame_id: int, entry: Entry, flags: int, stamps: tuple[int, int, int, int], descriptors: int
) -> bytes:
    """One entry with a text, which is most often the id of a request."""
    layout = entry.layout
    total = layout.total
    text = entry.text
    end = _SINGLE_PAYLOAD + len(layout.signature) + len(text)
    base = end + (-end % ALIGNMENT if total else 0)
    head = _SINGLE.pack(
        kind, flags, descriptors, base + total, frame_id,
        1, 0, total, *stamps,
        entry.id, entry.flags, len(layout.signature), len(text), 0,
    )  # fmt: skip
    parts: list[Any] = [head, layout.signature, text, _PADDING[base - end]]
    for buffer, pad in zip(entry.buffers, layout.pads):
        parts.append(buffer)
        if pad:
            parts.append(pad)
    return b"".join(parts)


def _pack(  # noqa: PLR0913, PLR0917  as above
    kind: int,
    frame_id: int,
    entries: Sequence[Entry],
    flags: int,
    stamps: tuple[int, int, int, int],
    slab: int,
    descriptors: int,
) -> bytes:
    """The same for any entries."""
    parts: list[Any] = [b"", b""]
    tensors: list[Any] = []
    length = _PREFIX.size
    count = size = 0
    for entry in entries:
        layout = entry.layout
        signature = layout.signature
        text, extras = entry.text, entry.extras
        meta = len(signature) + len(text) + len(extras)
        parts += (_ENTRY.pack(entry.id, entry.flags, len(signature), len(text), len(extras)), signature, text, extras)
        length += _ENTRY.size + meta
        count += 1
        size += layout.total
        if not slab:
            for buffer, pad in zip(entry.buffers, layout.pads):
                tensors += (buffer, pad)
    if not slab and size:
        pad = -length % ALIGNMENT
        parts.append(_PADDING[pad])
        parts += tensors
        length += pad + size
    parts[0] = HEADER.pack(kind, flags, descriptors, length, frame_id)
    parts[1] = _PREFIX.pack(count, slab, size, *stamps)
    return b"".join(parts)


def _unpack_single(payload: bytearray, signatures: Signatures) -> Parcel | None:
    """A parcel with one entry and no extras; None for any other."""
    if len(payload) < _SINGLE_PAYLOAD:
        return None
    count, slab, size, first, second, third, fourth, entry_id, flags, length, text, extras = _ONE.unpack_from(payload)
    if count != 1 or slab or extras:
        return None
    end = _SINGLE_PAYLOAD + length
    layout = signatures.received(bytes(payload[_SINGLE_PAYLOAD:end]))
    words = ""
    if text:
        words = payload[end : end + text].decode()
        end += text
    base = end + (-end % ALIGNMENT if size else 0)
    if layout.total != size or base + size > len(payload):
        return None
    item = Item(entry_id, flags, layout, words, _NOTHING, base if size else 0)
    return Parcel(0, size, (first, second, third, fourth), [item])


def unpack(payload: bytearray, signatures: Signatures) -> Parcel:
    """Read a parcel. Raises FrameError where it is cut off or claims more tensors than there are."""
    layout = signatures.last
    if (
        len(payload) == layout.single_size
        and payload.startswith(layout.single, _SIGNATURE_AT)
        and payload.startswith(layout.single_prefix)
    ):
        # PERF: one entry like the one before; nothing has to be taken apart but what differs.
        entry_id, flags = _WHO.unpack_from(payload, _WHO_AT)
        item = Item(entry_id, flags, layout, "", _NOTHING, layout.single_base)
        return _new(Parcel, (0, layout.total, _STAMPS.unpack_from(payload, _STAMPS_AT), [item]))
    return _unpack(payload, signatures)


def _unpack(payload: bytearray, signatures: Signatures) -> Parcel:
    """The same for any parcel."""
    try:
        single = _unpack_single(payload, signatures)
        if single is not None:
            return single
        fields = _PREFIX.unpack_from(payload)
        count, slab, size = fields[:3]
        position = _PREFIX.size
        start = 0
        items: list[Item] = []
        for _ in range(count):
            entry_id, flags, signature, text, extras = _ENTRY.unpack_from(payload, position)
            position += _ENTRY.size
            middle = position + signature
            layout = signatures.received(bytes(payload[position:middle]))
            position = middle + text
            words = payload[middle:position].decode() if text else ""
            middle, position = position, position + extras
            more: dict[str, Any] = json.loads(payload[middle:position]) if extras else _NOTHING
            items.append(Item(entry_id, flags, layout, words, more, start))
            start += layout.total
    except (struct.error, ValueError) as exc:
        msg = f"unreadable parcel of {len(payload)} bytes: {exc}"
        raise FrameError(msg) from exc
    if start != size:
        msg = f"parcel claims {size} bytes of tensors, its entries {start}"
        raise FrameError(msg)
    if not slab and size:
        base = position + -position % ALIGNMENT
        if base + size > len(payload):
            msg = f"parcel claims {size} bytes of tensors and holds {len(payload) - base}"
            raise FrameError(msg)
        for item in items:
            item.start += base
    return Parcel(slab, size, fields[3:], items)


def slab_of(payload: bytearray) -> tuple[int, int]:
    """The slab that a parcel's tensors are in (0: none), and how many bytes they take there. Raises FrameError."""
    if len(payload) < _PREFIX.size:
        msg = f"parcel of {len(payload)} bytes is cut off"
        raise FrameError(msg)
    _, slab, size, *_ = _PREFIX.unpack_from(payload)
    return slab, size


def fill(slab: Slab, entries: Sequence[Entry]) -> None:
    """Copy the tensors of a parcel into its slab. Any thread."""
    start = 0
    for entry in entries:
        for offset, buffer, row in zip(entry.layout.offsets, entry.buffers, entry.layout.tensors):
            if row[3]:
                slab.write(start + offset, buffer)
        start += entry.layout.total
