"""Carries out what the user asked to be changed: the question before, the threads, the result after."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from . import changes
from .messages import ChangeProgressed, ChangesDone
from .source import Interruptible

if TYPE_CHECKING:
    from .app import DashboardApp


class Changing:
    """Loads and unloads for one app, one at a time, in the order in which they were asked for."""

    def __init__(self, app: DashboardApp, *, read_only: bool) -> None:
        self._app = app
        self._read_only = read_only
        self._under_way: list[changes.Progress] = []

    @property
    def refusal(self) -> str:
        """Why nothing may be changed from here; empty where it may."""
        if self._read_only:
            return "this dashboard is read-only"
        latest = self._app.history.latest
        return latest.server.changes if latest is not None else "the server has not answered yet"

    @property
    def busy(self) -> str:
        """What is under way, in words."""
        return ", ".join(progress.words for progress in self._under_way)

    def ask(self, verb: str, names: tuple[str, ...]) -> None:
        """Show what the change does to others; go ahead where the user says so."""
        from .screens.confirm import ConfirmScreen

        latest = self._app.history.latest
        if self.refusal or latest is None:
            self._app.notify(self.refusal, title=f"{verb.capitalize()} refused", severity="warning", markup=False)
            return
        dialog = ConfirmScreen(verb, names, changes.consequences(latest, verb, names))
        self._app.push_screen(dialog, lambda answer: self._begin(verb, names) if answer == verb else None)

    def _begin(self, verb: str, names: tuple[str, ...]) -> None:
        self._app.run_worker(self._carry_out(verb, names), name=f"{verb} {', '.join(names)}", group="changes")

    async def _carry_out(self, verb: str, names: tuple[str, ...]) -> None:
        outcomes: list[changes.Outcome] = []
        for number, name in enumerate(names, 1):
            progress = changes.Progress(verb, name, number, len(names))
            self._under_way.append(progress)
            self._app.post_message(ChangeProgressed(progress))
            try:
                outcomes.append(await asyncio.to_thread(changes.carry_out, self._app.source, verb, name))
            finally:
                self._under_way.remove(progress)
        self._app.post_message(ChangesDone(tuple(outcomes)))

    def show_progress(self, progress: changes.Progress) -> None:
        """Say what has begun; it stays until it is over."""
        self._app.notify(progress.words, timeout=3, markup=False)

    def show_outcomes(self, outcomes: tuple[changes.Outcome, ...]) -> None:
        """One success is a line that goes away; several, or a failure, stay until they are read."""
        failed = any(outcome.error is not None for outcome in outcomes)
        if len(outcomes) == 1 and not failed:
            self._app.notify(changes.summary(outcomes), markup=False)
            return
        from .screens.results import ResultsScreen

        self._app.push_screen(ResultsScreen(outcomes))

    def abandon(self) -> None:
        """Let go of calls that are under way, so that the process can end; the server carries on with its part."""
        if isinstance(self._app.source, Interruptible):
            self._app.source.interrupt()
