"""Frames: what server, zygote and workers say to each other on a SEQPACKET socket pair.

One packet is one frame: a fixed header (kind, flags, descriptor count, payload length, id) and a payload. Requests
and responses travel as a *parcel*: a list of entries, each with

- a *signature*: names, datatypes, shapes and sizes of its tensors as JSON. Clients repeat themselves, so both sides
  keep what they made of a signature, found by its bytes;
- a text (the request id, or an error message) and *extras* as JSON (parameters and the rarer fields), mostly empty;
- its tensors, each at a multiple of 64 bytes: behind the entries, or together in one slab.

A frame that outgrows a packet carries its payload in a sealed memfd. Nothing here is pickled or marshalled.
"""

from __future__ import annotations

import array
import json
import os
import socket
import struct
from typing import TYPE_CHECKING, Any, NamedTuple

from . import slabs

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

PROTOCOL = 1
"""Version of this format; both sides say it in HELLO."""

ALIGNMENT = 64
INLINE_LIMIT = 64 * 1024
"""Bytes of tensors that still travel inside a frame."""
MAX_PACKET = 128 * 1024
"""Bytes of the largest packet; well below a socket's default send buffer (208 KiB)."""
MAX_DESCRIPTORS = 8
WINDOW = 16
"""Responses of one request (or one BLS call) that may be under way unacknowledged."""

HEADER = struct.Struct("<BBHIQ")
PREFIX = struct.Struct("<IIQ4Q")
ENTRY = struct.Struct("<QIIII")
SINGLE = struct.Struct(HEADER.format + PREFIX.format[1:] + ENTRY.format[1:])
"""Header, prefix and entry of a parcel with one entry."""
_SINGLE_PAYLOAD = SINGLE.size - HEADER.size
_ONE = struct.Struct(PREFIX.format + ENTRY.format[1:])
IDS = struct.Struct("<I")
_ANCILLARY = socket.CMSG_SPACE(MAX_DESCRIPTORS * 4)
_RECEIVE = int(socket.MSG_CMSG_CLOEXEC)
_CUT_OFF = int(socket.MSG_TRUNC | socket.MSG_CTRUNC)
_PADDING = [bytes(count) for count in range(ALIGNMENT)]
_NOTHING: dict[str, Any] = {}
NO_STAMPS = (0, 0, 0, 0)


class Kind:
    """What a frame means. The id is the batch's, request's, call's or spawn's, as said here.

    Plain numbers: an enum's members cost the hot path more than the frames they stand for.
    """

    HELLO = 1
    """Both ways, first: who speaks, and to a worker all it needs. With a descriptor: a forked child's own channel."""
    EXECUTE = 2
    """To a worker: a parcel of requests to execute together (id: the batch)."""
    RESPONSE = 3
    """From a worker: a parcel of responses."""
    FINAL = 4
    """From a worker: the same, and the execute call of the batch (id) is over; carries its time stamps."""
    CANCEL = 5
    """To a worker: nobody waits for this request. From a worker: end this call."""
    CALL = 6
    """From a worker: a parcel with one request for another model (id: the call)."""
    CALL_REPLY = 7
    """To a worker: a parcel with one response of a call."""
    CREDIT = 8
    """More responses may come: for a request (to a worker) or for a call (from a worker). Payload: how many."""
    RELEASE = 9
    """Slabs are free again (their user says so), or gone for good (their creator, flag FORGET). Payload: ids."""
    LOG = 10
    """From a worker: one log line as JSON."""
    METRIC = 11
    """From a worker: a custom metric. Reserved."""
    STATE = 12
    """JSON: what a worker has become, what it should become, or (from the zygote) whom it has spawned."""
    SPAWN = 13
    """To the zygote: fork a worker; carries its channel, stdout and stderr."""


OVERFLOW = 0x80
"""Header flag: the payload is in the frame's first descriptor."""
FORGET = 0x01
"""Header flag of RELEASE: the slabs are gone."""
DECOUPLED = 0x01
"""Header flag of CALL: the caller takes any number of responses."""

ENTRY_FINAL = 0x01
"""Entry flag: the last response of its request."""
ENTRY_ERROR = 0x02
"""Entry flag: the text is an error message; its code is in bits 8 to 15."""
ENTRY_RAISED = 0x04
"""Entry flag: the error is an exception that escaped the model, not one it answered with."""


class FrameError(Exception):
    """A frame that breaks the format. The channel it came on is closed: nothing after it can be trusted."""


class Frame(NamedTuple):
    """A received frame; the receiver owns the descriptors and the payload."""

    kind: int
    flags: int
    id: int
    payload: bytearray
    descriptors: list[int]


class Layout:
    """What a signature says.

    ``head`` is () for a response and (model name, version, requested outputs) for a request, version -1 standing for
    the version policy's choice. ``tensors`` holds (name, datatype, shape, bytes); ``offsets`` are relative to the start
    of the entry's tensors, ``total`` is a multiple of the alignment. ``derived`` is the receiver's to fill.
    """

    __slots__ = ("derived", "head", "offsets", "pads", "signature", "single", "single_base", "tensors", "total")

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
        # Alone in a parcel, with neither text nor extras: what follows the entry, and where the tensors begin.
        end = _SINGLE_PAYLOAD + len(self.signature)
        self.single_base = end + (-end % ALIGNMENT if self.total else 0)
        self.single = self.signature + bytes(self.single_base - end)
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


def pack(kind: int, frame_id: int, payload: bytes = b"", *, flags: int = 0, descriptors: int = 0) -> bytes:
    """A frame with a plain payload."""
    return HEADER.pack(kind, flags, descriptors, len(payload), frame_id) + payload


def pack_json(kind: int, frame_id: int, content: object, *, descriptors: int = 0) -> bytes:
    """A frame with a JSON payload."""
    return pack(kind, frame_id, json.dumps(content).encode(), descriptors=descriptors)


def pack_ids(kind: int, ids: Sequence[int], *, flags: int = 0) -> bytes:
    """A frame with a list of slab ids."""
    return pack(kind, 0, struct.pack(f"<{len(ids)}I", *ids), flags=flags)


def unpack_ids(payload: bytearray) -> tuple[int, ...]:
    """The inverse of :func:`pack_ids`. Raises FrameError."""
    if len(payload) % 4:
        msg = f"list of slab ids of {len(payload)} bytes"
        raise FrameError(msg)
    return struct.unpack(f"<{len(payload) // 4}I", payload)


def pack_parcel(  # noqa: PLR0913  the hot path takes its arguments one by one
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
        if not entry.text and not entry.extras:
            return _pack_single(kind, frame_id, entry, flags, stamps, descriptors)
    parts: list[Any] = [b"", b""]
    tensors: list[Any] = []
    length = PREFIX.size
    count = size = 0
    for entry in entries:
        layout = entry.layout
        signature = layout.signature
        text, extras = entry.text, entry.extras
        meta = len(signature) + len(text) + len(extras)
        parts += (ENTRY.pack(entry.id, entry.flags, len(signature), len(text), len(extras)), signature, text, extras)
        length += ENTRY.size + meta
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
    parts[1] = PREFIX.pack(count, slab, size, *stamps)
    return b"".join(parts)


def _pack_single(  # noqa: PLR0913, PLR0917  as above
    kind: int, frame_id: int, entry: Entry, flags: int, stamps: tuple[int, int, int, int], descriptors: int
) -> bytes:
    """PERF: what nearly every frame is; one pack and one join, the rest was made with the layout."""
    layout = entry.layout
    total = layout.total
    first, second, third, fourth = stamps
    head = SINGLE.pack(
        kind, flags, descriptors, layout.single_base + total, frame_id,
        1, 0, total, first, second, third, fourth,
        entry.id, entry.flags, len(layout.signature), 0, 0,
    )  # fmt: skip
    parts: list[Any] = [head, layout.single]
    for buffer, pad in zip(entry.buffers, layout.pads):
        parts.append(buffer)
        if pad:
            parts.append(pad)
    return b"".join(parts)


def _unpack_single(payload: bytearray, signatures: Signatures) -> Parcel | None:
    """The inverse; None for any other parcel."""
    if len(payload) < _SINGLE_PAYLOAD:
        return None
    count, slab, size, first, second, third, fourth, entry_id, flags, length, text, extras = _ONE.unpack_from(payload)
    if count != 1 or slab or text or extras:
        return None
    layout = signatures.received(bytes(payload[_SINGLE_PAYLOAD : _SINGLE_PAYLOAD + length]))
    if layout.total != size or layout.single_base + size > len(payload):
        return None
    item = Item(entry_id, flags, layout, "", {}, layout.single_base if size else 0)
    return Parcel(0, size, (first, second, third, fourth), [item])


def unpack_parcel(payload: bytearray, signatures: Signatures) -> Parcel:
    """Read a parcel. Raises FrameError where it is cut off or claims more tensors than there are."""
    single = _unpack_single(payload, signatures)
    if single is not None:
        return single
    try:
        fields = PREFIX.unpack_from(payload)
        count, slab, size = fields[:3]
        position = PREFIX.size
        start = 0
        items: list[Item] = []
        for _ in range(count):
            entry_id, flags, signature, text, extras = ENTRY.unpack_from(payload, position)
            position += ENTRY.size
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


def overflow(frame: bytes) -> tuple[bytes, int]:
    """A frame too large for a packet: its short form, and the descriptor that carries its payload (first)."""
    kind, flags, descriptors, length, frame_id = HEADER.unpack_from(frame)
    descriptor = slabs.from_bytes(memoryview(frame)[HEADER.size :])
    return HEADER.pack(kind, flags | OVERFLOW, descriptors + 1, length, frame_id), descriptor


def rights(descriptors: Iterable[int]) -> list[tuple[int, int, array.array[int]]]:
    """Ancillary data that hands descriptors over."""
    return [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))]


def receive(sock: socket.socket, memory: memoryview) -> Frame | None:
    """Receive one frame into ``memory`` (MAX_PACKET bytes) and copy it out; None at the end of the channel.

    Raises FrameError; BlockingIOError on a non-blocking socket with nothing to read.
    """
    try:
        count, ancillary, message_flags, _ = sock.recvmsg_into((memory,), _ANCILLARY, _RECEIVE)
    except ConnectionResetError:  # an end at which something was left unread
        return None
    if not count:
        return None
    descriptors = _descriptors(ancillary) if ancillary else []
    try:
        return _frame(memory[:count], descriptors, cut_off=bool(message_flags & _CUT_OFF))
    except FrameError:
        for descriptor in descriptors:
            os.close(descriptor)
        raise


def _frame(packet: memoryview, descriptors: list[int], *, cut_off: bool) -> Frame:
    """A packet taken apart. Raises FrameError."""
    if cut_off or len(packet) < HEADER.size:
        msg = f"packet of {len(packet)} bytes is {'cut off' if cut_off else 'shorter than a header'}"
        raise FrameError(msg)
    kind, flags, expected, length, frame_id = HEADER.unpack_from(packet)
    if expected != len(descriptors):
        msg = f"frame of kind {kind} claims {expected} descriptors and carries {len(descriptors)}"
        raise FrameError(msg)
    if flags & OVERFLOW:
        return Frame(kind, flags & ~OVERFLOW, frame_id, _read_overflow(descriptors, length), descriptors)
    payload = bytearray(packet[HEADER.size :])
    if len(payload) != length:
        msg = f"frame of kind {kind} claims {length} bytes and carries {len(payload)}"
        raise FrameError(msg)
    return Frame(kind, flags, frame_id, payload, descriptors)


def _descriptors(ancillary: list[tuple[int, int, bytes]]) -> list[int]:
    found: list[int] = []
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            numbers = array.array("i")
            numbers.frombytes(data[: len(data) - len(data) % numbers.itemsize])
            found.extend(numbers)
    return found


def _read_overflow(descriptors: list[int], length: int) -> bytearray:
    if not descriptors:
        msg = "frame claims a payload in a descriptor and carries none"
        raise FrameError(msg)
    descriptor = descriptors.pop(0)
    try:
        return slabs.to_bytes(descriptor, length)
    except slabs.SlabError as exc:
        raise FrameError(str(exc)) from exc
    finally:
        os.close(descriptor)
