"""The models of a server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.widgets import Static

from .base import DashboardScreen

if TYPE_CHECKING:
    from collections.abc import Iterable

    from textual.widget import Widget

    from ..rates import History
    from ..snapshot import Overview


class ModelsScreen(DashboardScreen):
    """A row a model version."""

    MODE = "models"

    def compose_body(self) -> Iterable[Widget]:
        """The table."""
        yield Static("", id="models", markup=False)

    def show(self, overview: Overview, history: History) -> None:  # noqa: ARG002  the base's argument
        """Show a picture."""
        self.query_one("#models", Static).update("\n".join(row.name for row in overview.models))
