"""The dashboard.

The app holds what all screens share: the source, the history of pictures, the link, what may be changed. A poller asks
the source; its messages arrive here and go to the screen in front. How a screen is added:

1. `tui/screens/NAME.py` has a class below ``screens.base.DashboardScreen`` with MODE, BINDINGS (each with a tooltip:
   the help is made of them), ``compose_body()`` and ``show(overview, history)``, which is called with every picture
   while the screen is in front. ``aim(model, version)`` turns it to one model; ``catch_up()`` shows the newest picture.
2. A row in `tui/places.py` gives it a number key, a tab and a mode; a row in `tui/verbs.py` its word for `:`
   and palette. A screen below another one is pushed (``app.push_screen``) and gives ``crumbs``; escape closes it.
3. Its looks go into `tui/tui.tcss`. Everything that blocks (each method of a ``Source``) runs in a Textual worker over
   ``asyncio.to_thread`` and comes back as a message or in the worker's own coroutine. Foreign text (names, reasons, log
   lines) is shown as ``Content`` or with ``markup=False``: a name may hold brackets.
4. Tests: `tests/support/pictures.py` has made-up sources; `tests/tui/` drives the app with a pilot.

``self.dashboard`` of a screen is this app, as the protocol in `tui/dashboard.py` words it.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, ClassVar, cast

from textual.app import App
from textual.binding import Binding, BindingType

from . import places
from .cadence import State
from .changing import Changing
from .glyphs import locale_is_ascii
from .poller import Poller
from .rates import History
from .screens.base import DashboardScreen
from .themes import DARK, LIGHT

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from textual.command import Provider
    from textual.filter import LineFilter
    from textual.screen import Screen

    from .cadence import Link
    from .messages import ChangeProgressed, ChangesDone, LinkChanged, Pictured
    from .source import Source


MOUSE_ON = "\x1b[?1000h\x1b[?1003h\x1b[?1015h\x1b[?1006h"
MOUSE_OFF = "\x1b[?1000l\x1b[?1003l\x1b[?1015l\x1b[?1006l"
"""Mouse reports of a terminal; Textual's driver switches them at start and end only."""


def _palette() -> type[Provider]:
    from .palette import Verbs

    return Verbs


class DashboardApp(App[str]):
    """Runs until it is left; its return value is ``stop``, ``leave`` or ``detach``."""

    TITLE = "infer"
    CSS_PATH = "tui.tcss"
    COMMANDS: ClassVar[set[type[Provider] | Callable[[], type[Provider]]]] = {_palette}
    MODES: ClassVar[dict[str, str | Callable[[], Screen[None]]]] = {  # type: ignore[assignment]  a screen's result
        place.name: place.make for place in places.available()
    }
    DEFAULT_MODE = "models"

    BINDINGS: ClassVar[list[BindingType]] = [
        *(
            Binding(place.key, f"go('{place.name}')", place.title, show=False, tooltip=f"Show {place.title.lower()}")
            for place in places.available()
        ),
        Binding("question_mark,f1", "perform('help')", "Help", key_display="?", tooltip="All keys of this screen"),
        Binding("colon", "command", "Command", key_display=":", tooltip="Type a command, with completion"),
        Binding("ctrl+p", "command_palette", "Palette", tooltip="Find any command by parts of its name"),
        Binding("p", "perform('pause')", "Pause", show=False, tooltip="Stop the pictures, or go on"),
        Binding("plus", "perform('slower')", "Slower", show=False, key_display="+", tooltip="Longer intervals"),
        Binding("minus", "perform('faster')", "Faster", show=False, key_display="-", tooltip="Shorter intervals"),
        Binding("ctrl+r", "perform('refresh')", "Refresh", show=False, tooltip="Ask the server now"),
        Binding("t", "perform('theme')", "Theme", show=False, tooltip="Light or dark"),
        Binding("m", "perform('mouse')", "Mouse", show=False, tooltip="Mouse on or off; off lets the terminal select"),
        Binding("q", "quit", "Quit", tooltip="Leave the dashboard; asks what becomes of the server"),
        Binding("ctrl+q,ctrl+c", "quit", "Quit", show=False, priority=True, tooltip="The same as q"),
    ]

    def __init__(
        self,
        source: Source,
        *,
        owned: bool = False,
        read_only: bool = False,
        interval_s: float = 1.0,
        mouse: bool = True,
    ) -> None:
        """``owned``: leaving asks what becomes of the server. ``read_only``: nothing is loaded or unloaded."""
        super().__init__()
        self.source = source
        self.owned = owned
        self.history = History()
        self.poller = Poller(source, self.post_message, interval_s)
        self.changing = Changing(self, read_only=read_only)
        self.ascii = locale_is_ascii()
        self.mouse = mouse
        for theme in (DARK, LIGHT):
            self.register_theme(theme)
        self.theme = DARK.name

    @property
    def link(self) -> Link:
        """How the link to the server is doing."""
        return self.poller.link

    @property
    def refusal(self) -> str:
        """Why nothing may be loaded or unloaded from here."""
        return self.changing.refusal

    @property
    def front(self) -> DashboardScreen | None:
        """The screen in front, dialogs aside."""
        screens = (screen for screen in reversed(self.screen_stack) if isinstance(screen, DashboardScreen))
        return next(screens, None)

    def on_mount(self) -> None:
        """Begin to ask the server."""
        self.run_worker(self.poller.run(), name="poller", group="poller")

    def get_line_filters(self) -> Sequence[LineFilter]:
        """In a locale without Unicode everything that is drawn becomes ASCII."""
        if not self.ascii:
            return super().get_line_filters()
        from .widgets.plain import PlainText

        return [*super().get_line_filters(), PlainText()]

    def on_unmount(self) -> None:
        """Let go of what is under way, so that the process can end; the server carries on with its part."""
        self.changing.abandon()

    def on_pictured(self, message: Pictured) -> None:
        """Show the new picture."""
        self.history.add(message.overview)
        if self.front is not None:
            self.front.catch_up()

    def on_link_changed(self, message: LinkChanged) -> None:
        """Show how the link is doing."""
        if self.front is not None and message.link.state is not State.LIVE:
            self.front.show_link(message.link)

    def on_change_progressed(self, message: ChangeProgressed) -> None:
        """Show what is being changed."""
        self.changing.show_progress(message.progress)

    def on_changes_done(self, message: ChangesDone) -> None:
        """Show what came of it, and how the server looks now."""
        self.changing.show_outcomes(message.outcomes)
        self.poller.now()

    def go(self, mode: str, model: str = "", version: str = "") -> None:
        """Show another screen of the first level, turned to a model where one is named."""
        self.switch_mode(mode)
        if model:
            cast("DashboardScreen", self.screen).aim(model, version)

    def back(self) -> None:
        """One level up; on the first level, to the models."""
        if len(self.screen_stack) > 1:
            self.pop_screen()
        elif self.current_mode != self.DEFAULT_MODE:
            self.switch_mode(self.DEFAULT_MODE)

    def perform(self, verb: str, model: str = "") -> None:
        """Do what a verb says."""
        from .performing import perform

        perform(self, verb, model)

    def change(self, verb: str, names: tuple[str, ...]) -> None:
        """Ask whether these models should be changed, and do it."""
        self.changing.ask(verb, names)

    def toggle_mouse(self) -> bool:
        """Turn the terminal's mouse reports off, or on again; whether they are on now."""
        self.mouse = not self.mouse
        if self._driver is not None:
            self._driver.write(MOUSE_ON if self.mouse else MOUSE_OFF)
            self._driver.flush()
        return self.mouse

    def action_go(self, mode: str) -> None:
        """A number key."""
        self.go(mode)

    def action_perform(self, verb: str) -> None:
        """A key that stands for a verb."""
        self.perform(verb)

    def action_command(self) -> None:
        """Open the command line."""
        from .screens.command import CommandScreen

        self.push_screen(CommandScreen())

    async def action_quit(self) -> None:
        """Leave, once it is said what becomes of the server."""
        from .performing import leave

        leave(self)


def run_dashboard(source: Source, *, owned: bool, read_only: bool = False, interval_s: float = 1.0) -> str:
    """Show the dashboard until it is left: ``stop``, ``leave`` (owned) or ``detach``. Then a summary stays behind."""
    from .summary import text

    mouse = not os.environ.get("INFER_NO_MOUSE")
    app = DashboardApp(source, owned=owned, read_only=read_only, interval_s=interval_s, mouse=mouse)
    outcome = app.run(mouse=mouse)
    if app.mouse != mouse:
        sys.stdout.write(MOUSE_OFF)
    sys.stdout.write(text(app.history, source.address))
    sys.stdout.flush()
    return outcome or ("leave" if owned else "detach")
