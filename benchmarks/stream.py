"""Responses a second on one gRPC stream: 20,000 of one decoupled request, and one each of 10,000 requests."""

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
OUTPUTS = 2
"""How many `simple` has."""
RESPONSES = 20_000
REQUESTS = 10_000
WINDOW = 32
"""Requests of a stream that may be unanswered at a time: with 256 Triton 2.51 dies of a segmentation fault."""
PAUSE_S = 0.01
"""The reader looks at the socket this often, so that reading takes next to nothing of the cores."""
WINDOW_PAUSE_S = 0.001
"""The same where the server waits for what follows an answer."""


@dataclass(frozen=True)
class StreamLoad:
    """One stream. CPU is microseconds by response: of the server's process tree, and of the reader."""

    rate: float
    first_ms: float
    cpu_us: float
    reader_us: float


MEASURES: tuple[tuple[str, Callable[[StreamLoad], float]], ...] = (
    ("responses/s", lambda found: found.rate),
    ("first ms", lambda found: found.first_ms),
    ("CPU µs/response", lambda found: found.cpu_us),
    ("reader CPU µs", lambda found: found.reader_us),
)


def measure(plan: Plan) -> list[Row]:
    """One request with many responses; both servers in turn, a stream at a time."""
    measured = _turns(plan, RESPONSES, read)
    return _rows("stream", f"{RESPONSES:,} responses", measured, Target(1.0))


def single(plan: Plan) -> list[Row]:
    """Many requests on one stream, each with one response."""
    measured = _turns(plan, REQUESTS, ask)
    return _rows("stream_single", f"{REQUESTS:,} requests", measured, Target(1.2))


def _turns(plan: Plan, count: int, load: Callable[[Server, int], StreamLoad]) -> dict[str, list[StreamLoad]]:
    measured: dict[str, list[StreamLoad]] = {}
    with contextlib.ExitStack() as stack:
        running = [stack.enter_context(server) for server in both(plan, MODELS)]
        for server in running:
            load(server, count // 20)
            server.raise_priority()
        for _ in range(plan.rounds):
            for server in running:
                measured.setdefault(server.name, []).append(load(server, count))
    return measured


def _rows(part: str, case: str, measured: dict[str, list[StreamLoad]], rate: Target) -> list[Row]:
    return [
        Row(
            part,
            case,
            measure,
            median([pick(found) for found in measured.get("infer", ())]),
            median([pick(found) for found in measured.get("triton", ())]),
            rate if measure == "responses/s" else None,
        )
        for measure, pick in MEASURES
    ]


def read(server: Server, count: int) -> StreamLoad:
    """One request for ``count`` responses. Raises RuntimeError unless just these come, in order."""
    message = payloads.integers_grpc(MODEL, count).message
    found, answers = _timed(server, [message], count, PAUSE_S)
    expected = [index.to_bytes(4, "little") for index in range(count)]
    if [answer.outputs[0] if answer.outputs else b"" for answer in answers] != expected:
        got = len(answers)
        raise RuntimeError(f"{server.name}: {got} responses instead of {count} in order; the first: {answers[:1]}")
    return found


def ask(server: Server, count: int) -> StreamLoad:
    """So many requests to `simple`. Raises RuntimeError unless each gets its one response, in order."""
    messages = [payloads.simple_grpc(str(index)).message for index in range(count)]
    found, answers = _timed(server, messages, count, WINDOW_PAUSE_S)
    good = [answer.request_id for answer in answers if len(answer.outputs) == OUTPUTS]
    if good != [str(index) for index in range(count)]:
        raise RuntimeError(
            f"{server.name}: {len(good)} responses to {count} requests in order; the first: {answers[:1]}"
        )
    return found


def _timed(
    server: Server, messages: list[bytes], responses: int, pause_s: float
) -> tuple[StreamLoad, list[grpc_messages.Answer]]:
    """One stream with these requests, and what came back on it."""
    cpu_us, own = server.cpu_us(), time.process_time()
    try:
        reply = http2_call.converse(server.grpc_port, grpc_messages.STREAM, messages, window=WINDOW, pause_s=pause_s)
    except (OSError, http2_call.CallFailed) as error:
        raise RuntimeError(f"{server.name}: no stream on port {server.grpc_port}: {error}") from error
    used, own = server.cpu_us() - cpu_us, time.process_time() - own
    answers = [grpc_messages.stream_answer(message) for message in reply.messages]
    rate = responses / reply.last_s if reply.last_s else 0.0
    return StreamLoad(rate, reply.first_s * 1000, used / responses, own * 1e6 / responses), answers
