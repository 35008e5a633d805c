"""Requests that wait for an instance: first in, first out, with removal from the middle. Pure."""

from __future__ import annotations

from collections import OrderedDict
from typing import Generic, TypeVar

T = TypeVar("T")


class PendingQueue(Generic[T]):
    """A queue in which append, pop and the removal of a cancelled item all cost the same, however long it is."""

    __slots__ = ("_items",)

    def __init__(self) -> None:
        self._items: OrderedDict[T, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._items)

    def append(self, item: T) -> None:
        """Put an item at the end."""
        self._items[item] = None

    def pop(self) -> T:
        """Take the oldest item. Raises KeyError when empty."""
        return self._items.popitem(last=False)[0]

    def remove(self, item: T) -> bool:
        """Take an item out wherever it stands; False if it is not here."""
        return self._items.pop(item, self) is None

    def drain(self) -> list[T]:
        """Take everything, oldest first."""
        items = list(self._items)
        self._items.clear()
        return items
