"""Frames: what server, zygote and workers say to each other on a SEQPACKET socket pair.

One packet is one frame: a fixed header (kind, flags, descriptor count, payload length, id) and a payload: nothing, a
number, JSON, slab ids, or a parcel of requests or responses (see ``parcels``). A frame that outgrows a packet carries
its payload in a sealed memfd. Nothing here is pickled or marshalled.
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

MAX_PACKET = 128 * 1024
"""Bytes of the largest packet; well below a socket's default send buffer (208 KiB)."""
MAX_DESCRIPTORS = 8
WINDOW = 16
"""Responses of one request (or one BLS call) that may be under way unacknowledged."""

HEADER = struct.Struct("<BBHIQ")
_ANCILLARY = socket.CMSG_SPACE(MAX_DESCRIPTORS * 4)
_RECEIVE = int(socket.MSG_CMSG_CLOEXEC)
_SIZE = HEADER.size
_CUT_OFF = int(socket.MSG_TRUNC | socket.MSG_CTRUNC)


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
    """From a worker: a parcel with one request for another model (id: the call).

    Its first time stamp is the id of the batch whose execution makes it, 0 where that is not known.
    """
    CALL_REPLY = 7
    """To a worker: a parcel with one response of a call."""
    CREDIT = 8
    """More responses may come: for a request (to a worker) or for a call (from a worker). Payload: how many."""
    RELEASE = 9
    """Slabs are free again (their user says so), or gone for good (their creator, flag FORGET). Payload: ids."""
    LOG = 10
    """From a worker: one log line as JSON."""
    METRIC = 11
    """From a worker: a change of a custom metric (id: its handle; flags: which; payload: by how much)."""
    STATE = 12
    """JSON: what a worker has become, what it should become, or (from the zygote) whom it has spawned."""
    SPAWN = 13
    """To the zygote: fork a worker; carries its channel, stdout and stderr."""
    QUERY = 14
    """From a worker: a question as JSON (id: the question): load a model, the value of a metric."""
    ANSWER = 15
    """To a worker: what becomes of it, JSON with either ``ok`` or ``error`` and ``code``."""
    PROBE = 16
    """To a worker: ask the model whether it is ready (id: the probe). From it: the answer as JSON."""


OVERFLOW = 0x80
"""Header flag: the payload is in the frame's first descriptor."""
FORGET = 0x01
"""Header flag of RELEASE: the slabs are gone."""
DECOUPLED = 0x01
"""Header flag of CALL: the caller takes any number of responses."""
BLOCKING = 0x02
"""Header flag of CALL, or of a later CREDIT for it: the instance does nothing else until it has a response."""
METRIC_ADD, METRIC_SET, METRIC_OBSERVE, METRIC_CLOSE = 1, 2, 3, 4
"""Header flags of METRIC. What is closed may be a metric or a family; then there is no payload."""


class FrameError(Exception):
    """A frame that breaks the format. The channel it came on is closed: nothing after it can be trusted."""


class Frame(NamedTuple):
    """A received frame; the receiver owns the descriptors and the payload."""

    kind: int
    flags: int
    id: int
    payload: bytearray
    descriptors: list[int]


_new: Any = tuple.__new__  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
"""PERF: makes a named tuple without its own Python code."""


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
    if not ancillary and count >= _SIZE and not message_flags & _CUT_OFF:
        kind, flags, expected, length, frame_id = HEADER.unpack_from(memory)
        if length == count - _SIZE and not expected and not flags & OVERFLOW:
            # PERF: what nearly every frame is.
            return _new(Frame, (kind, flags, frame_id, bytearray(memory[_SIZE:count]), []))
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
