"""The clients of the soak: unary calls and streams over a few gRPC channels, many of them cut short at random.

Raw stubs on ``grpc.aio`` with prepared messages. Every call is guarded by a long deadline, so that an answer that
never comes is found and not waited for.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import struct
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import grpc
import grpc.aio
import grpc_messages
from soak_ledger import Tally

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

GUARD_S = 60.0
"""A call that nobody cut must have ended by then."""

CANCELLED = 0.6
"""The share of the calls cut short that are cancelled; the others have a deadline that is too short."""
CUT_WITHIN_S = 0.25
_ENDED_BEFORE_IT_BEGAN = "Internal error from Core"
"""What grpc.aio's client says, as INTERNAL, of a call that was cut before it had sent anything."""
UNARY_MODELS = {"batched": 0.6, "slow": 0.4}
STREAM_MODELS = {"repeat": 0.7, "batched": 0.2, "slow": 0.1}
MOST_REQUESTS, MOST_RESPONSES = 4, 20
LONGEST_MS = 5.0


@dataclass(frozen=True)
class Crowd:
    """How many clients there are, over how many connections, for how long, from which seed.

    ``cut`` is the share of the calls that their clients cut short.
    """

    streams: int
    unary: int
    channels: int
    seconds: float
    seed: int
    cut: float = 0.25


@dataclass
class Request:
    """A request under way. ``expected`` is its responses with data; ``got`` the raw outputs of those that came."""

    model: str
    message: bytes
    expected: list[bytes]
    got: list[bytes] = field(default_factory=list[bytes])
    ended: bool = False
    error: str = ""

    def take(self, answer: grpc_messages.Answer) -> None:
        """Note one response."""
        if self.ended:
            self.error = "a response came after the final one"
        self.error = answer.error or self.error
        self.got += answer.outputs
        self.ended = self.ended or bool(answer.final) or bool(answer.error)

    def verdict(self, tally: Tally, *, cut: bool) -> None:
        """How it ended, into the tally."""
        tally.responses += len(self.got)
        if self.ended and not self.error and self.got == self.expected:
            tally.answered += 1
        elif cut and not self.error:
            tally.cut += 1
            if self.got != self.expected[: len(self.got)]:
                tally.wrong.append(f"a request that was cut got {len(self.got)} responses that are not its own")
        else:
            tally.refused += 1
            state = "ended" if self.ended else "not ended"
            tally.wrong.append(
                f"{len(self.got)} of {len(self.expected)} responses, {state}: {self.error or 'no error'}"
            )


class Maker:
    """Makes random requests, the same ones for the same seed."""

    def __init__(self, crowd: Crowd, client: int) -> None:
        self._random = random.Random(f"{crowd.seed}/{client}")  # noqa: S311  to be the same again, not to be secret
        self._cut = crowd.cut
        self._client = client
        self._made = 0

    def request(self, models: dict[str, float]) -> Request:
        """A request to one of the models."""
        self._made += 1
        request_id = f"{self._client}-{self._made}"
        model = self._random.choices([*models], [*models.values()])[0]
        tensors, expected = getattr(self, f"_{model}")()
        message = grpc_messages.infer_request(model, tensors, request_id, empty_final=model == "repeat")
        return Request(model, message, expected)

    def fate(self) -> tuple[str, float]:
        """What becomes of a call: `cancel` or `deadline` after so many seconds, or `none`."""
        cut, cancelled = self._random.random() < self._cut, self._random.random() < CANCELLED
        if not cut:
            return "none", GUARD_S
        after = self._random.uniform(0.001, CUT_WITHIN_S)
        return "cancel" if cancelled else "deadline", after

    def count(self, most: int) -> int:
        """A number from 1 to ``most``."""
        return self._random.randint(1, most)

    def id_of(self, index: int) -> str:
        """The id of this client's ``index``-th request, from 1 on."""
        return f"{self._client}-{index}"

    @property
    def made(self) -> int:
        """How many requests were made."""
        return self._made

    def _slow(self) -> tuple[list[grpc_messages.Tensor], list[bytes]]:
        number = self._milliseconds()
        return [("MS", "FP32", [1], number)], [number]

    def _batched(self) -> tuple[list[grpc_messages.Tensor], list[bytes]]:
        rows, numbers = self.count(3), self.count(8)
        tensor = struct.pack("<f", self._random.random()) * (rows * numbers)
        return [("IN", "FP32", [rows, numbers], tensor)], [tensor]

    def _repeat(self) -> tuple[list[grpc_messages.Tensor], list[bytes]]:
        count = self.count(MOST_RESPONSES)
        tensors = [("COUNT", "INT32", [1], struct.pack("<i", count)), ("MS", "FP32", [1], self._milliseconds())]
        return tensors, [struct.pack("<i", index) for index in range(count)]

    def _milliseconds(self) -> bytes:
        return struct.pack("<f", self._random.uniform(0, LONGEST_MS))


async def drive(port: int, crowd: Crowd) -> dict[str, Tally]:
    """Let the crowd work for its time and finish what is under way; the tallies by model."""
    tallies = {model: Tally() for model in {**UNARY_MODELS, **STREAM_MODELS}}
    until = time.monotonic() + crowd.seconds
    async with contextlib.AsyncExitStack() as stack:
        channels = [await stack.enter_async_context(_channel(port)) for _ in range(crowd.channels)]
        async with asyncio.TaskGroup() as group:
            for client in range(crowd.streams + crowd.unary):
                kind = _stream_client if client < crowd.streams else _unary_client
                channel, maker = channels[client % len(channels)], Maker(crowd, client)
                group.create_task(kind(channel, maker, until, tallies))
    return tallies


def _channel(port: int) -> grpc.aio.Channel:
    # Channels with the same options would share one connection.
    return grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=[("grpc.use_local_subchannel_pool", 1)])


async def _unary_client(channel: Any, maker: Maker, until: float, tallies: dict[str, Tally]) -> None:  # noqa: ANN401
    stub = channel.unary_unary(grpc_messages.UNARY)
    while time.monotonic() < until:
        request, (fate, after) = maker.request(UNARY_MODELS), maker.fate()
        tallies[request.model].begun += 1
        call = stub(request.message, timeout=GUARD_S if fate == "cancel" else after)
        async with _until_its_end(call, fate, after, request):
            answer = grpc_messages.infer_answer(await call)
            answer.final = True
            request.take(answer)
        request.verdict(tallies[request.model], cut=fate != "none")


async def _stream_client(channel: Any, maker: Maker, until: float, tallies: dict[str, Tally]) -> None:  # noqa: ANN401
    stub = channel.stream_stream(grpc_messages.STREAM)
    while time.monotonic() < until:
        fate, after = maker.fate()
        requests: dict[str, Request] = {}
        call = stub(timeout=GUARD_S if fate == "cancel" else after)
        broken = Request("", b"", [])
        async with _until_its_end(call, fate, after, broken):
            await _write(call, maker, requests)
            async for message in call:
                answer = grpc_messages.stream_answer(message)
                requests.get(answer.request_id, broken).take(answer)
        for request in requests.values():
            request.error = request.error or broken.error
            tallies[request.model].begun += 1
            request.verdict(tallies[request.model], cut=fate != "none")


async def _write(call: Any, maker: Maker, requests: dict[str, Request]) -> None:  # noqa: ANN401
    """Send a few requests and say that no more come; a stream that has ended breaks that in several ways."""
    with contextlib.suppress(asyncio.InvalidStateError, grpc.aio.InternalError):
        for _ in range(maker.count(MOST_REQUESTS)):
            request = maker.request(STREAM_MODELS)
            requests[maker.id_of(maker.made)] = request
            await call.write(request.message)
        await call.done_writing()


@contextlib.asynccontextmanager
async def _until_its_end(call: Any, fate: str, after: float, request: Request) -> AsyncIterator[None]:  # noqa: ANN401
    """Let a call run until its fate ends it; an end that was not its fate is noted on the request.

    The client's own waiting is cut, which cancels the call: after ``call.cancel()`` alone, reading may wait for ever.
    """
    try:
        async with asyncio.timeout(after if fate == "cancel" else 2 * GUARD_S):
            yield
    except TimeoutError:
        call.cancel()
        if fate != "cancel":
            request.error = f"grpc.aio waits for ever, {call!r}"
    except grpc.aio.AioRpcError as error:
        expected = {"cancel": grpc.StatusCode.CANCELLED, "deadline": grpc.StatusCode.DEADLINE_EXCEEDED}.get(fate)
        if error.code() is not expected and not (expected and error.details() == _ENDED_BEFORE_IT_BEGAN):
            request.error = f"{error.code().name}: {error.details()}"
