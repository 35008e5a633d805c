"""Responses in the order in which requests left the queue (``preserve_ordering``). Pure.

Every request takes a turn when it goes to an instance. What comes for the first one is passed on, what comes for a
later one is kept until all before it have had their final response; where that is much, its sender is paused.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...backends.api.response import InferenceResponse

    Deliver = Callable[[InferenceResponse], None]

MAX_KEPT = 16
"""Responses of one request that are kept before it is paused."""


class Sender(Protocol):
    """Where the responses of a turn come from."""

    def pause(self) -> None:
        """No more of them for the moment."""
        ...

    def resume(self) -> None:
        """Go on."""
        ...


class ResponseOrder:
    """The turns of one model version's requests."""

    __slots__ = ("_turns",)

    def __init__(self) -> None:
        self._turns: deque[_Turn] = deque()

    def __len__(self) -> int:
        return len(self._turns)

    def take_turn(self, deliver: Deliver, sender: Sender) -> Deliver:
        """What stands for ``deliver`` from here on."""
        turn = _Turn(self, deliver, sender)
        self._turns.append(turn)
        return turn.send

    def is_first(self, turn: _Turn) -> bool:
        """Whether a turn has come."""
        return self._turns[0] is turn

    def next_turn(self) -> None:
        """The first turn is over: pass on what was kept for the next ones."""
        self._turns.popleft()
        while self._turns and self._turns[0].pass_on():
            self._turns.popleft()


class _Turn:
    """One request's place."""

    __slots__ = ("_deliver", "_kept", "_order", "_sender")

    def __init__(self, order: ResponseOrder, deliver: Deliver, sender: Sender) -> None:
        self._order = order
        self._deliver = deliver
        self._sender = sender
        self._kept: deque[InferenceResponse] = deque()

    def send(self, response: InferenceResponse) -> None:
        """Take a response: deliver it, or keep it."""
        if self._kept or not self._order.is_first(self):
            self._kept.append(response)
            if len(self._kept) >= MAX_KEPT:
                self._sender.pause()
            return
        # A final response may start the next request, and with it another turn, before this one is over.
        self._deliver(response)
        if response.final:
            self._order.next_turn()

    def pass_on(self) -> bool:
        """Deliver what was kept; whether the final response was among it."""
        final = False
        # Before they are delivered, as who takes them may say that it has no room.
        self._sender.resume()
        while self._kept:
            final = self._kept[0].final
            self._deliver(self._kept[0])
            self._kept.popleft()
        return final
