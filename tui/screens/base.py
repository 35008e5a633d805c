"""What every screen of the dashboard has: the banner, a body, the footer, and a way to show a picture."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import Screen
from textual.widgets import Footer, Static

from ..dashboard import dashboard_of
from ..widgets.banner import Banner

if TYPE_CHECKING:
    from collections.abc import Iterable

    from textual.app import ComposeResult
    from textual.widget import Widget

    from ..cadence import Link
    from ..dashboard import Dashboard
    from ..rates import History
    from ..snapshot import Overview

WIDE = 110
"""From this many columns on a screen has the class ``-wide``."""

SMALLEST = (80, 24)
"""Columns and rows that the screens are made for."""


class DashboardScreen(Screen[None]):
    """The base of screens. A subclass gives :meth:`compose_body`, :meth:`show`, MODE, and bindings with tooltips.

    ``show`` is called with every new picture while the screen is in front, and when it comes to the front. It touches
    only what is different from before.
    """

    MODE: ClassVar[str] = ""
    """The name of the screen's mode, as the table in :mod:`infer.tui.screens` has it."""

    HORIZONTAL_BREAKPOINTS = [  # noqa: RUF012  the base class has a plain list
        (0, "-narrow"),
        (SMALLEST[0], "-standard"),
        (WIDE, "-wide"),
    ]
    VERTICAL_BREAKPOINTS = [(0, "-short"), (SMALLEST[1], "-tall")]  # noqa: RUF012  likewise

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "back", "Back", show=False, tooltip="One level up; closes a filter first"),
    ]

    @property
    def dashboard(self) -> Dashboard:
        """The app."""
        return dashboard_of(self)

    @property
    def crumbs(self) -> tuple[str, ...]:
        """Where this screen is below its mode, for the breadcrumb."""
        return ()

    @property
    def subject(self) -> str:
        """The name of the model that commands mean when they name none; empty where there is none."""
        return ""

    def compose(self) -> ComposeResult:
        """Banner, body, footer."""
        yield Banner()
        yield Static("The dashboard needs {} columns and {} rows.".format(*SMALLEST), id="too-small")
        with Vertical(id="body"):
            yield from self.compose_body()
        yield Footer(show_command_palette=False)

    def compose_body(self) -> Iterable[Widget]:
        """The widgets between banner and footer."""
        raise NotImplementedError

    def show(self, overview: Overview, history: History) -> None:
        """Show a picture: the newest of ``history``."""
        raise NotImplementedError

    def show_link(self, link: Link) -> None:
        """Show how the link is doing; the body is greyed where its picture is stale."""
        latest = self.dashboard.history.latest
        self.query_one(Banner).show(latest, link, self.MODE, self.crumbs)
        self.query_one("#body").set_class(link.stale, "-stale")

    def aim(self, model: str, version: str = "") -> None:
        """Turn to one model, because another screen sent the user here for it."""

    def on_screen_resume(self) -> None:
        """Catch up with what happened while another screen was in front."""
        self.catch_up()

    def catch_up(self) -> None:
        """Show the newest picture, if there is one."""
        self.show_link(self.dashboard.link)
        latest = self.dashboard.history.latest
        if latest is not None:
            self.show(latest, self.dashboard.history)

    def action_back(self) -> None:
        """One level up; on the first level, to the models."""
        self.dashboard.back()
