"""The two lines on top: which server, how it is, how the link to it is; and where on the dashboard the user is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.content import Content
from textual.widget import Widget

from ..cadence import State
from ..glyphs import BULLET, DOT
from ..places import available

if TYPE_CHECKING:
    from ..cadence import Link
    from ..snapshot import Overview

_LINK_COLOURS = {
    State.CONNECTING: "$warning",
    State.LIVE: "$success",
    State.PAUSED: "$accent",
    State.SLOW: "$warning",
    State.LOST: "$error",
}


class Banner(Widget):
    """Redrawn only where its words change."""

    def __init__(self) -> None:
        super().__init__()
        self._shown: tuple[object, ...] = ()
        self._left = Content("infer")
        self._right = Content("")
        self._below = Content("")

    def show(self, overview: Overview | None, link: Link, mode: str, crumbs: tuple[str, ...]) -> None:
        """Show this, if it is not what is shown already."""
        left, right, below = server_line(overview, link), link_words(link), place_line(mode, crumbs)
        words = (left.markup, right.markup, below.markup)
        if words != self._shown:
            self._shown = words
            self._left, self._right, self._below = left, right, below
            self.refresh()

    def render(self) -> Content:
        """Both lines, the state of the link on the right of the first."""
        width = self.size.width
        room = max(0, width - self._right.cell_length - 1)
        left = self._left.truncate(room, ellipsis=True).pad_right(max(0, room - self._left.cell_length))
        first = Content.assemble(left, " ", self._right)
        return Content("\n").join([first, self._below.truncate(width, ellipsis=True)])


def server_line(overview: Overview | None, link: Link) -> Content:
    """The server in words; before the first picture, what is being waited for."""
    if overview is None:
        why = f"  {link.error.what}: {link.error.why}" if link.error else "  waiting for the first picture"
        return Content.assemble((" infer", "bold"), why)
    server = overview.server
    state, colour = ("draining", "$warning") if server.draining else ("ready", "$success")
    if not server.ready and not server.draining:
        state, colour = "not ready", "$error"
    address = server.http or server.operator or ""
    ready = sum(row.state == "READY" for row in overview.models)
    parts = [
        Content.styled(f" {server.name or server.id or 'server'}", "bold"),
        Content(f"  {address}"),
        Content.assemble(f"  {BULLET} ", state).stylize(colour),
        Content(f"  {ready}/{len(overview.models)} ready"),
    ]
    return Content("").join(parts)


def link_words(link: Link) -> Content:
    """How the link is doing: the word, and the number that goes with it."""
    words = {
        State.CONNECTING: "connecting",
        State.LIVE: f"live {DOT} {link.interval_s:g} s",
        State.PAUSED: "PAUSED",
        State.SLOW: f"no answer for {link.waited_s:.0f} s",
        State.LOST: f"NO ANSWER {DOT} again in {link.retry_in_s:.0f} s",
    }[link.state]
    return Content.styled(f"{BULLET} {words} ", _LINK_COLOURS[link.state])


def place_line(mode: str, crumbs: tuple[str, ...]) -> Content:
    """The screens by their keys, the one in front marked, and what is open below it."""
    parts: list[Content] = []
    for place in available():
        style = "bold reverse" if place.name == mode else "dim"
        parts.append(Content.styled(f" {place.key} {place.title} ", style))
    trail = "".join(f" ▸ {crumb}" for crumb in crumbs)
    return Content.assemble(" ", *parts, (trail, "bold"))
