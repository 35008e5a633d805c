"""The screens of the first level: which key shows which. A screen is imported when it is shown for the first time."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib import import_module, util
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .screens.base import DashboardScreen


@dataclass(frozen=True, slots=True)
class Place:
    """One screen: its key, its name (Textual's mode, and a verb), its title, and the class in `screens` of it."""

    key: str
    name: str
    title: str
    module: str
    kind: str

    def make(self) -> DashboardScreen:
        """A new screen."""
        module = import_module(f".screens.{self.module}", __package__)
        screen: DashboardScreen = getattr(module, self.kind)()
        return screen


PLACES = (
    Place("1", "models", "Models", "models", "ModelsScreen"),
    Place("2", "host", "Host & GPUs", "host", "HostScreen"),
    Place("3", "logs", "Logs", "logs", "LogsScreen"),
    Place("4", "try", "Try", "try_", "TryScreen"),
)
"""In the order of their keys."""


@cache
def available() -> tuple[Place, ...]:
    """The screens that are part of this build."""
    return tuple(place for place in PLACES if util.find_spec(f".screens.{place.module}", __package__) is not None)
