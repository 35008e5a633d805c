"""``POST /v2/models/m[/versions/v]/infer``: a bare ASGI callable, because this is the hot path.

Checks come in Triton's order: model, decoupled, encoding, lengths, JSON, then the core's. One future stands for the
answer; when the client goes away first, the connection cancels the ticket.
"""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Any

from ...backends.api.errors import Cancelled, InferError, InvalidArgument
from ..wire import refusals
from . import compression, json_codec, json_text
from .cycle import CONNECTION
from .errors import error_body, status_of, too_large
from .json_codec import RequestPlan
from .repeat import Repeat
from .reply import ReplyWriter, json_bytes

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ...backends.api.response import InferenceResponse
    from ..engine import Engine
    from ..lifecycle.models import ServedModel
    from ..lifecycle.signature import ModelSignature
    from .codec import Codec
    from .cycle import Connection
    from .json_codec import DecodedRequest
    from .reply import Reply

    Receive = Callable[[], Awaitable[dict[str, Any]]]
    Send = Callable[[dict[str, Any]], Awaitable[None]]

_PATH = re.compile(r"/v2/models/([^/]+)(?:/versions/([0-9]+))?/infer")
_INTEGER = re.compile(rb"[+-]?[0-9]+")
_MAX_ROUTES = 1024
_MAX_PLANS = 64
_MAX_PLAN_SIZE = 2048
_JOINED = 16 << 10
"""Up to this size one body is cheaper than several without a copy."""
MAX_INT32 = 2**31 - 1
MAX_INT64 = 2**63 - 1
_INT64_DIGITS = 20
_INT32_DIGITS = 10
JSON_GROWTH = 4
"""Bytes of JSON that a byte of tensor is taken to become."""
_NO_TAIL = memoryview(b"")

Target = tuple[str, int | None]


class ModelFacts:
    """What the door knows of one model version: how it replies, and the requests that clients repeat."""

    __slots__ = ("model", "plans", "target", "writer")

    def __init__(self, model: ServedModel, target: Target) -> None:
        self.model = model
        self.target = target
        self.writer = ReplyWriter(model)
        self.plans: dict[bytes, RequestPlan] = {}

    def remember(self, text: bytes, decoded: DecodedRequest, tail_size: int) -> None:
        """Keep the plan of a request that may be repeated."""
        if len(text) <= _MAX_PLAN_SIZE and RequestPlan.suits(decoded, tail_size):
            if len(self.plans) >= _MAX_PLANS:
                self.plans.clear()
            self.plans[text] = RequestPlan(decoded, tail_size)


class Inference:
    """The inference routes."""

    def __init__(self, engine: Engine, codec: Codec, max_input_size: int) -> None:
        self.engine = engine
        self._codec = codec
        self._limit = max_input_size
        self._routes: dict[str, Target | None] = {}
        self._facts: dict[Target, ModelFacts] = {}
        self._loop: asyncio.AbstractEventLoop | None = None

    def route(self, path: str) -> Target | None:
        """Name and version of the model that an inference path names; None for another path.

        A version that does not fit an int64 comes back as -1.
        """
        try:
            return self._routes[path]
        except KeyError:
            pass
        match = _PATH.fullmatch(path)
        target: Target | None = None
        if match is not None:
            version = match[2]
            number = None if version is None else int(version.lstrip("0")[:_INT64_DIGITS] or "0")
            target = (match[1], number if number is None or number <= MAX_INT64 else -1)
        if len(self._routes) >= _MAX_ROUTES:
            self._routes.clear()
        self._routes[path] = target
        return target

    async def __call__(self, target: Target, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        """Answer one request."""
        headers: dict[bytes, bytes] = dict(scope["headers"])
        try:
            facts = self._find(target)
            decoded = await self._read(facts, headers, receive)
        except InferError as error:
            self.engine.refuse(error)
            await send_error(send, error)
            return
        connection: Connection | None = scope.get(CONNECTION)
        try:
            response = await self._infer(facts.model, decoded, connection)
        except InferError as error:
            await send_error(send, error)
            return
        await self.reply(facts, decoded, response, send, headers.get(b"accept-encoding"))
        if connection is not None and connection.segment is not None:
            self._expect_again(facts, decoded, headers, connection)

    async def reply(
        self, facts: ModelFacts, decoded: DecodedRequest, response: InferenceResponse, send: Send, accept: bytes | None
    ) -> Reply | None:
        """Send a response and release it; what was sent, or None where it was an error."""
        try:
            if response.error is not None:
                # Raised, it would hold this frame, which holds the response, which holds it: a circle with a request.
                await send_error(send, response.error)
                return None
            if self._codec.wants(JSON_GROWTH * json_bytes(response, decoded)):
                reply = await facts.writer.write_elsewhere(response, decoded, self._codec)
            else:
                reply = facts.writer.write(response, decoded)
            await _send_reply(send, reply, accept)
        except InferError as error:
            await send_error(send, error)
            return None
        finally:
            response.release()
        return reply

    def still_serves(self, facts: ModelFacts) -> bool:
        """Whether the model is the one that its name and version mean now."""
        try:
            return self.engine.find(*facts.target) is facts.model
        except InferError:
            return False

    def _expect_again(
        self, facts: ModelFacts, decoded: DecodedRequest, headers: dict[bytes, bytes], connection: Connection
    ) -> None:
        """Have the connection recognise this request when it comes again."""
        plan, segment = decoded.request.form, connection.segment
        accept = headers.get(b"accept-encoding")
        if (
            isinstance(plan, RequestPlan)
            and segment is not None
            and not headers.get(b"content-encoding")
            and b"expect" not in headers
            and not (accept and compression.choose(accept, has_tensors=True))
        ):
            repeat = Repeat.of(self, facts, plan, segment, int(headers.get(b"content-length", b"-1")))
            if repeat is not None:
                connection.may_repeat(repeat)

    def _find(self, target: Target) -> ModelFacts:
        name, version = target
        if version == -1:
            msg = f"failed to get model version from the path: it is larger than {MAX_INT64}"
            raise InvalidArgument(msg)
        model = self.engine.find(name, version)
        if model.signature.decoupled:
            raise refusals.decoupled("HTTP end point")
        facts = self._facts.get(target)
        if facts is None or facts.model is not model:
            if len(self._facts) >= _MAX_ROUTES:
                self._facts.clear()
            facts = self._facts[target] = ModelFacts(model, target)
        return facts

    # Reading

    async def _read(self, facts: ModelFacts, headers: dict[bytes, bytes], receive: Receive) -> DecodedRequest:
        """The request in the body. Raises InferError."""
        message = await receive()
        body: bytes | bytearray = message.get("body", b"")
        while message.get("more_body", False):
            message = await receive()
            body += message.get("body", b"")
        encoding = headers.get(b"content-encoding")
        if encoding:
            body = await compression.decompress(body, encoding, self._limit)
        view = memoryview(body)
        size = _json_size(headers.get(b"inference-header-content-length"), view.nbytes)
        signature, version = facts.model.signature, facts.model.version
        if not size:
            return json_codec.read_raw_request(view, signature, version, self._limit)
        if size > self._limit:
            raise InvalidArgument(too_large(size, self._limit))
        if self._codec.wants(size):
            return await self._read_elsewhere(view, size, signature, version)
        if size == view.nbytes:
            return json_codec.read_request(json_text.load(body), _NO_TAIL, signature, version, self._limit)
        text, tail = bytes(view[:size]), view[size:]
        plan = facts.plans.get(text)
        decoded = plan.read(tail) if plan is not None else None
        if decoded is None:
            decoded = json_codec.read_request(json_text.load(text), tail, signature, version, self._limit)
            facts.remember(text, decoded, tail.nbytes)
        return decoded

    async def _read_elsewhere(
        self, view: memoryview, size: int, signature: ModelSignature, version: int
    ) -> DecodedRequest:
        """Have the codec process turn large JSON into the equivalent binary request."""
        text, decoded = await self._codec.decode(view[:size], signature, view.nbytes - size, self._limit)
        document = json_text.load(text)
        return json_codec.read_request(document, view[size:], signature, version, self._limit, decoded)

    # Executing

    async def _infer(
        self, model: ServedModel, decoded: DecodedRequest, connection: Connection | None
    ) -> InferenceResponse:
        if connection is not None and connection.disconnected:
            error = Cancelled("the client went away before its request was read")
            self.engine.refuse(error)
            raise error
        loop = self._loop
        if loop is None:
            loop = self._loop = asyncio.get_running_loop()
        answer: asyncio.Future[InferenceResponse] = loop.create_future()

        def on_response(response: InferenceResponse) -> None:
            if not response.final or answer.done():
                response.release()
            else:
                answer.set_result(response)

        ticket = self.engine.infer(decoded.request, on_response, model)
        if answer.done():
            return answer.result()
        if connection is not None:
            connection.on_disconnect = ticket.cancel
        try:
            return await answer
        except asyncio.CancelledError:
            ticket.cancel()
            raise


def _json_size(header: bytes | None, body_size: int) -> int:
    """How many bytes of the body are JSON; 0 for a raw binary request. Raises InvalidArgument."""
    if not header:
        return body_size
    if header.isdigit() and len(header) < _INT32_DIGITS:
        size = int(header)
        if size <= body_size:
            return size
    if _INTEGER.fullmatch(header) is None:
        msg = f"Unable to parse Inference-Header-Content-Length, got: {header.decode('latin-1')}"
        raise InvalidArgument(msg)
    size = int(header[:_INT64_DIGITS])
    if not -MAX_INT32 - 1 <= size <= MAX_INT32:
        msg = (
            "Unable to parse Inference-Header-Content-Length, value is out of range "
            f"[ {-MAX_INT32 - 1}, {MAX_INT32} ], got: {header.decode('latin-1')}"
        )
        raise InvalidArgument(msg)
    if not 0 <= size <= body_size:
        msg = f"inference header size should be in range (0, {body_size}), got: {size}"
        raise InvalidArgument(msg)
    return size


async def _send_reply(send: Send, reply: Reply, accept: bytes | None) -> None:
    headers = reply.headers()
    parts: list[Any] = [*reply.json, *reply.tail]
    if reply.tail_size <= _JOINED and len(reply.json) == 1:
        parts = [b"".join(parts)]
    if accept:
        coding = compression.choose(accept, has_tensors=bool(reply.tail_size))
        if coding:
            parts = [await compression.compress(parts, coding)]
            headers[-1] = (b"Content-Length", b"%d" % len(parts[0]))
            headers.append((b"Content-Encoding", coding.encode()))
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    last = parts.pop()
    for part in parts:
        await send({"type": "http.response.body", "body": part, "more_body": True})
    await send({"type": "http.response.body", "body": last})


async def send_error(send: Send, error: InferError) -> None:
    """Send a failure: its status and the error body."""
    headers = [(b"Accept-Encoding", b"gzip, deflate")] if isinstance(error, compression.UnknownCoding) else []
    await send_json(send, status_of(error), error_body(str(error)), headers)


async def send_json(send: Send, status: int, body: bytes, headers: list[tuple[bytes, bytes]]) -> None:
    """Send a whole JSON body."""
    headers = [(b"Content-Type", b"application/json"), (b"Content-Length", b"%d" % len(body)), *headers]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
