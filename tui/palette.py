"""The command palette: every verb, for the model selected or any other, with the shell's line that does the same."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, cast

from textual.command import DiscoveryHit, Hit, Provider

from .places import available
from .verbs import offered

if TYPE_CHECKING:
    from collections.abc import Iterator

    from textual.command import Hits

    from .app import DashboardApp
    from .verbs import Verb


class Verbs(Provider):
    """What can be done, as the palette finds it."""

    @property
    def _dashboard(self) -> DashboardApp:
        return cast("DashboardApp", self.app)

    def _entries(self, *, every_model: bool) -> Iterator[tuple[str, Verb, str]]:
        """Title, verb and model; with ``every_model`` also those of models that are not selected."""
        front = self._dashboard.front
        subject = front.subject if front is not None else ""
        latest = self._dashboard.history.latest
        names = dict.fromkeys(row.name for row in latest.models) if latest is not None and every_model else {}
        models = list(dict.fromkeys([subject, *names])) if subject else list(names)
        for verb in offered(place.name for place in available()):
            if verb.changes and self._dashboard.refusal:
                continue
            if verb.takes_model != "required":
                yield verb.title, verb, ""
            if verb.takes_model:
                yield from ((f"{verb.title.removesuffix(' a model')}: {name}", verb, name) for name in models)

    async def discover(self) -> Hits:
        """What is shown before anything is typed."""
        for title, verb, model in self._entries(every_model=False):
            yield DiscoveryHit(title, partial(self._dashboard.perform, verb.name, model), help=verb.shell_line(model))

    async def search(self, query: str) -> Hits:
        """What fits; a verb's own word counts as well as its title."""
        matcher = self.matcher(query)
        for title, verb, model in self._entries(every_model=True):
            score = max(matcher.match(title), matcher.match(f"{verb.name} {model}".strip()))
            if score > 0:
                command = partial(self._dashboard.perform, verb.name, model)
                yield Hit(score, matcher.highlight(title), command, text=title, help=verb.shell_line(model))
