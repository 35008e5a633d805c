"""Received requests: the plans of those that clients repeat, and the way of all others through protobuf.

Clients send the same message with other tensors behind it all the time. What stands before the tensors is compared
with what came before, byte for byte; where it is known, nothing of it is read again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from google.protobuf.message import DecodeError

from ..wire import refusals
from . import codec
from .facts import ModelFacts
from .messages import message
from .plan import MAX_PLAN_SIZE, MessageShape, RequestPlan
from .wire_format import cut_request

if TYPE_CHECKING:
    from ..engine import Engine
    from .codec import Decoded
    from .facts import Target
    from .wire_format import Cut

MAX_PLANS = 256
MAX_TARGETS = 1024


class RequestReader:
    """Reads ModelInferRequests. One a door."""

    __slots__ = ("_by_rest", "_by_size", "_engine", "_facts", "_request", "_shapes")

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._request = message("ModelInferRequest")
        self._by_size: dict[int, tuple[MessageShape, ...]] = {}
        self._shapes = 0
        """How many are in ``_by_size``, or were."""
        self._by_rest: dict[bytes, RequestPlan] = {}
        self._facts: dict[Target, ModelFacts] = {}

    def read(self, data: bytes | bytearray, *, streamed: bool = False) -> Decoded:
        """A request. Raises InferError: also for a decoupled model where it is not ``streamed``."""
        for shape in self._by_size.get(len(data), ()):
            if shape.fits(data) and self._serves(facts := shape.plan.facts):
                if facts.decoupled and not streamed:
                    raise refusals.decoupled("ModelInfer RPC")
                try:
                    return shape.read(data)
                except UnicodeDecodeError as exc:
                    raise codec.unreadable() from exc
        cut = cut_request(data)
        if cut is None:
            parsed = self._parse(data)
            return self._decode(parsed, [memoryview(raw) for raw in parsed.raw_input_contents], streamed=streamed)
        return self._read_cut(data, cut, streamed=streamed)

    def request_id(self, data: bytes | bytearray) -> str:
        """The id of a message that could not be read otherwise, or ""."""
        cut = cut_request(data)
        if cut is not None:
            return cut.request_id.decode(errors="replace")
        try:
            return self._request.FromString(bytes(data)).id
        except DecodeError:
            return ""

    def _read_cut(self, data: bytes | bytearray, cut: Cut, *, streamed: bool) -> Decoded:
        request_id = _text(cut.request_id)
        plan = self._by_rest.get(cut.rest)
        if plan is not None and len(cut.raw) == len(plan.sizes) and self._serves(plan.facts):
            if plan.facts.decoupled and not streamed:
                raise refusals.decoupled("ModelInfer RPC")
            alike = plan.is_alike(cut)
            if alike:
                self._remember_shape(data, cut, plan)
            return plan.read_parts(data, cut.raw, request_id, alike=alike)
        parsed = self._parse(cut.rest)
        parsed.id = request_id
        view = memoryview(data)
        decoded = self._decode(parsed, [view[start:stop] for start, stop in cut.raw], streamed=streamed)
        if len(cut.rest) <= MAX_PLAN_SIZE and RequestPlan.suits(decoded, cut):
            self._remember(data, cut, RequestPlan(decoded, cut))
        return decoded

    def _decode(self, parsed: Any, raw: list[memoryview], *, streamed: bool) -> Decoded:  # noqa: ANN401  protobuf
        facts = self._find((parsed.model_name, codec.read_version(parsed.model_version)))
        if facts.decoupled and not streamed:
            raise refusals.decoupled("ModelInfer RPC")
        return codec.read_request(parsed, raw, facts)

    def _parse(self, data: bytes | bytearray) -> Any:  # noqa: ANN401  protobuf
        try:
            return self._request.FromString(bytes(data))
        except DecodeError as exc:
            raise codec.unreadable() from exc

    def _find(self, target: Target) -> ModelFacts:
        model = self._engine.find(*target)
        facts = self._facts.get(target)
        if facts is None or facts.model is not model:
            if len(self._facts) >= MAX_TARGETS:
                self._facts.clear()
            facts = self._facts[target] = ModelFacts(model, target)
        return facts

    def _serves(self, facts: ModelFacts) -> bool:
        """Whether the model is the one that its name and version mean now. Raises InferError where they mean none."""
        return self._engine.find(*facts.target) is facts.model

    def _remember(self, data: bytes | bytearray, cut: Cut, plan: RequestPlan) -> None:
        if len(self._by_rest) >= MAX_PLANS:
            self._by_rest.clear()
            self._by_size.clear()
            self._shapes = 0
        self._by_rest[cut.rest] = plan
        self._remember_shape(data, cut, plan)

    def _remember_shape(self, data: bytes | bytearray, cut: Cut, plan: RequestPlan) -> None:
        """Know messages of this length again, whatever their ids."""
        if not MessageShape.suits(cut):
            return
        if self._shapes >= MAX_PLANS:
            self._by_size.clear()
            self._shapes = 0
        shape = MessageShape(plan, data, cut)
        others = [other for other in self._by_size.get(len(data), ()) if not other.is_same(shape)]
        self._by_size[len(data)] = (shape, *others)
        self._shapes += 1


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as exc:
        raise codec.unreadable() from exc
