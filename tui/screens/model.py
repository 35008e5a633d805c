"""One model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.widgets import Static

from .base import DashboardScreen

if TYPE_CHECKING:
    from collections.abc import Iterable

    from textual.widget import Widget

    from ..rates import History
    from ..snapshot import Overview


class ModelScreen(DashboardScreen):
    """What there is to know of one version of a model."""

    MODE = "models"

    def __init__(self, name: str, version: str, tab: str = "") -> None:
        super().__init__()
        self._name, self._version, self._tab = name, version, tab

    @property
    def crumbs(self) -> tuple[str, ...]:
        """The model."""
        return (self._name,)

    def compose_body(self) -> Iterable[Widget]:
        """The text."""
        yield Static("", id="model", markup=False)

    def show(self, overview: Overview, history: History) -> None:
        """Show a picture."""
        row = overview.model(self._name, self._version)
        self.query_one("#model", Static).update(f"{row} {history.rates(self._name, self._version)}")
