"""Responses a second of one decoupled request: 20,000 small responses of a Python model on one gRPC stream."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import grpc_messages
import http2_call
import payloads
from report import Row, Target, median
from throughput import MODELS, both

if TYPE_CHECKING:
    from collections.abc import Callable

    from servers import Server
    from throughput import Plan

MODEL = "repeat_int32"
RESPONSES = 20_000
PAUSE_S = 0.01
"""The reader looks at the socket this often, so that reading takes next to nothing of the cores."""


@dataclass(frozen=True)
class StreamLoad:
    """One stream. CPU is microseconds by response: of the server's process tree, and of the reader."""

    rate: float
    first_ms: float
    cpu_us: float
    reader_us: float


MEASURES: tuple[tuple[str, Callable[[StreamLoad], float], Target | None], ...] = (
    ("responses/s", lambda found: found.rate, Target(1.0)),
    ("first ms", lambda found: found.first_ms, None),
    ("CPU µs/response", lambda found: found.cpu_us, None),
    ("reader CPU µs", lambda found: found.reader_us, None),
)


def measure(plan: Plan) -> list[Row]:
    """Both servers in turn, a stream at a time."""
    measured: dict[str, list[StreamLoad]] = {}
    with contextlib.ExitStack() as stack:
        running = [stack.enter_context(server) for server in both(plan, MODELS)]
        for server in running:
            read(server, RESPONSES // 20)
            server.raise_priority()
        for _ in range(plan.rounds):
            for server in running:
                measured.setdefault(server.name, []).append(read(server, RESPONSES))
    return [
        Row(
            "stream",
            f"{RESPONSES:,} responses",
            measure,
            median([pick(found) for found in measured.get("infer", ())]),
            median([pick(found) for found in measured.get("triton", ())]),
            target,
        )
        for measure, pick, target in MEASURES
    ]


def read(server: Server, count: int) -> StreamLoad:
    """One request for ``count`` responses. Raises RuntimeError unless just these come, in order."""
    message = payloads.integers_grpc(MODEL, count).message
    cpu_us, own = server.cpu_us(), time.process_time()
    try:
        reply = http2_call.call(server.grpc_port, grpc_messages.STREAM, message, pause_s=PAUSE_S)
    except (OSError, http2_call.CallFailed) as error:
        raise RuntimeError(f"{server.name}: no stream on port {server.grpc_port}: {error}") from error
    used, own = server.cpu_us() - cpu_us, time.process_time() - own
    got = len(reply.messages)
    answers = [grpc_messages.stream_answer(message) for message in reply.messages]
    expected = [index.to_bytes(4, "little") for index in range(count)]
    if [answer.outputs[0] if answer.outputs else b"" for answer in answers] != expected:
        raise RuntimeError(f"{server.name}: {got} responses instead of {count} in order; the first: {answers[:1]}")
    return StreamLoad(count / reply.last_s, reply.first_s * 1000, used / count, own * 1e6 / count)
