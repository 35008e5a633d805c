"""What the verbs do: one function a verb, on the app."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .themes import DARK, LIGHT
from .verbs import BY_NAME

if TYPE_CHECKING:
    from collections.abc import Callable

    from .app import DashboardApp


def perform(app: DashboardApp, word: str, model: str = "") -> None:
    """Do what a verb says; where it needs a model and none is named, to the one selected."""
    verb = BY_NAME[word]
    front = app.front
    subject = model or (front.subject if front is not None else "")
    if verb.takes_model == "required" and not subject:
        app.notify(f"'{verb.name}' needs a model: :{verb.name} NAME", severity="warning", markup=False)
        return
    if verb.changes:
        app.change(verb.name, (subject,))
        return
    done = _ACTIONS.get(verb.name)
    if done is not None:
        done(app)
    elif verb.name in ("model", "config"):
        _open_model(app, subject, "config" if verb.name == "config" else "")
    else:
        app.go(verb.name, model or (subject if verb.takes_model else ""))


def _open_model(app: DashboardApp, name: str, tab: str) -> None:
    from .screens.model import ModelScreen

    latest = app.history.latest
    row = latest.model(name) if latest is not None else None
    app.push_screen(ModelScreen(name, row.version if row is not None else "", tab))


def _theme(app: DashboardApp) -> None:
    app.theme = LIGHT.name if app.theme == DARK.name else DARK.name


def _mouse(app: DashboardApp) -> None:
    on = app.toggle_mouse()
    app.notify("mouse on" if on else "mouse off: the terminal selects text now", timeout=3)


def _help(app: DashboardApp) -> None:
    from .screens.help import HelpScreen

    app.push_screen(HelpScreen(app.screen))


def _quit(app: DashboardApp) -> None:
    leave(app)


def leave(app: DashboardApp) -> None:
    """Ask what becomes of the server, where that is a question, and leave."""
    from .screens.quit import QuitScreen

    if isinstance(app.screen, QuitScreen):
        return
    if not app.owned and not app.changing.busy:
        app.exit("detach")
        return
    latest = app.history.latest
    name = latest.server.name or latest.server.id if latest is not None else "server"
    in_flight = sum(row.in_flight or 0 for row in latest.models) if latest is not None else 0
    dialog = QuitScreen(name, in_flight, owned=app.owned, changing=app.changing.busy)
    app.push_screen(dialog, lambda answer: app.exit(answer) if answer else None)


_ACTIONS: dict[str, Callable[[DashboardApp], None]] = {
    "refresh": lambda app: app.poller.now(),
    "pause": lambda app: app.poller.toggle_pause(),
    "slower": lambda app: app.poller.step_interval(1),
    "faster": lambda app: app.poller.step_interval(-1),
    "theme": _theme,
    "mouse": _mouse,
    "help": _help,
    "quit": _quit,
}
