"""The machine: the server's own process, CPU and memory, and every GPU, each with how it was lately."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from .. import figures
from ..machine import bar, sections
from .base import WIDE, DashboardScreen

if TYPE_CHECKING:
    from collections.abc import Iterable

    from textual.widget import Widget

    from ..machine import Gauge, Section
    from ..rates import History
    from ..snapshot import Overview

_LABEL = 12
_TEXT = 28
_BAR = {False: 20, True: 36}
_LONGEST_SPARK = 60


class HostScreen(DashboardScreen):
    """One page of gauges, which scrolls where there are many GPUs."""

    MODE = "host"

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j,down", "scroll(1)", "Down", show=False, tooltip="One line down"),
        Binding("k,up", "scroll(-1)", "Up", show=False, tooltip="One line up"),
        Binding("pagedown", "scroll(10)", "Page down", show=False, tooltip="Ten lines down"),
        Binding("pageup", "scroll(-10)", "Page up", show=False, tooltip="Ten lines up"),
        Binding("g,home", "scroll(-9999)", "Top", show=False, tooltip="To the server"),
        Binding("G,end", "scroll(9999)", "Bottom", show=False, tooltip="To the last GPU"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._shown: tuple[tuple[Section, ...], int] = ((), 0)

    def compose_body(self) -> Iterable[Widget]:
        """The page."""
        with VerticalScroll(id="host", can_focus=False):
            yield Static("", id="gauges", markup=False)

    def show(self, overview: Overview, history: History) -> None:  # noqa: ARG002  the base's argument
        """Show a picture."""
        found = sections(tuple(history.pictures)[-_LONGEST_SPARK - 1 :])
        width = self.size.width
        if (found, width) != self._shown:
            self._shown = (found, width)
            self.query_one("#gauges", Static).update(page(found, width))

    def on_resize(self) -> None:
        """Bars and spark lines take the width that there is."""
        if self.is_current:
            self.catch_up()

    def action_scroll(self, lines: int) -> None:
        """Move the page."""
        self.query_one("#host", VerticalScroll).scroll_relative(y=lines, animate=False)


def page(found: tuple[Section, ...], width: int) -> Content:
    """All sections below each other."""
    parts: list[Content] = []
    for section in found:
        parts.append(Content.styled(f" {section.title}", "bold $primary"))
        parts += [line(gauge, width) for gauge in section.gauges]
        if section.note:
            parts.append(Content(f"   {section.note}"))
        parts.append(Content(""))
    return Content("\n").join(parts)


def line(gauge: Gauge, width: int) -> Content:
    """Label, bar, number, spark line. What is high has a sign beside its colour."""
    bars = _BAR[width >= WIDE]
    filled, rest = bar(gauge.share, bars)
    colour = "$warning" if gauge.high else "$success"
    spark = max(0, min(_LONGEST_SPARK, width - _LABEL - bars - _TEXT - 6))
    history = figures.spark_line(list(gauge.past), spark, 1.0)
    return Content.assemble(
        (f"   {gauge.label:<{_LABEL}}", "$text-muted"),
        (filled, colour),
        (rest, "$text-disabled"),
        (f" {'!' if gauge.high else ' '}{gauge.text:<{_TEXT}}", f"bold {colour}" if gauge.high else ""),
        (history, "$secondary"),
    )
