"""Which calls between models wait for themselves: decided over a picture of who waits for whom.

The picture has two kinds of nodes. A *place* is an execution that is under way (or an instance that a call holds up as
a whole): it ends when all the calls that it waits for end. A *queue* is what a call waits in: it goes on when any of
the places behind it ends. Whatever cannot go on by these two rules waits for itself, or for something that does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence


class Wait(NamedTuple):
    """One call, and the node that has to go on before it ends."""

    call: Hashable
    node: Hashable


@dataclass(frozen=True, slots=True)
class Place:
    """An execution: on which instance of which model, and the calls it waits for. Without any it ends by itself."""

    instance: str
    model: str
    waits: tuple[Wait, ...]


@dataclass(frozen=True, slots=True)
class Queue:
    """The requests that wait for an instance of a model: ``places`` are the nodes of its executions.

    ``free``: an instance can take a request, or will be able to for a reason of its own.
    """

    places: tuple[Hashable, ...]
    free: bool = False


def stuck(picture: Mapping[Hashable, Place | Queue]) -> frozenset[Hashable]:
    """The nodes that cannot go on. One that the picture does not know can."""
    left = dict(picture)
    while True:
        going = [key for key, node in left.items() if _goes_on(node, left)]
        if not going:
            return frozenset(left)
        for key in going:
            del left[key]


def cycle(
    picture: Mapping[Hashable, Place | Queue], nodes: frozenset[Hashable], call: Hashable, start: Hashable
) -> tuple[Place, ...]:
    """The executions that a call waits for in a circle: the one that made it first, the one it waits for next.

    ``nodes`` are those that are stuck, ``start`` is the one that the call waits for. Empty where the call can go on, or
    waits for a circle that is not its own: without it that one would still stand.
    """
    if start not in nodes:
        return ()
    came_from: dict[Hashable, Hashable | None] = {start: None}
    unseen = [start]
    for key in unseen:
        node = picture[key]
        if isinstance(node, Place) and any(wait.call == call for wait in node.waits):
            path = _path(came_from, key)
            places = [found for found in (picture[each] for each in path) if isinstance(found, Place)]
            return (places[-1], *places[:-1])
        for following in _next(node):
            if following in nodes and following not in came_from:
                came_from[following] = key
                unseen.append(following)
    return ()


def sentence(places: Sequence[Place], callee: str) -> str:
    """What is told to a call to ``callee`` that waits for itself, the execution that made it first in ``places``."""
    caller = places[0]
    chain = " → ".join([place.instance for place in (*places, caller)])
    return (
        f"the call from model '{caller.model}' to model '{callee}' would wait for itself: {chain}; "
        f"give '{callee}' one more instance (instance_group), or do not call it while it waits for '{caller.model}'"
        if callee != caller.model
        else f"the call from model '{caller.model}' to itself would wait for itself: {chain}; "
        "give it one more instance (instance_group) for every call within a call"
    )


def _goes_on(node: Place | Queue, left: Mapping[Hashable, Place | Queue]) -> bool:
    if isinstance(node, Queue):
        return node.free or any(place not in left for place in node.places)
    return all(wait.node not in left for wait in node.waits)


def _next(node: Place | Queue) -> Sequence[Hashable]:
    return node.places if isinstance(node, Queue) else [wait.node for wait in node.waits]


def _path(came_from: Mapping[Hashable, Hashable | None], end: Hashable) -> list[Hashable]:
    path: list[Hashable] = []
    key: Hashable | None = end
    while key is not None:
        path.append(key)
        key = came_from[key]
    return path[::-1]
