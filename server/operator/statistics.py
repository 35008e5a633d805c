"""GET /v2/models/stats and /v2/models/{name}[/versions/{version}]/stats."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..wire import describe
from .reply import send

if TYPE_CHECKING:
    import falcon

    from ..engine import Engine


class StatisticsResource:
    """The counters of the versions that serve."""

    def __init__(self, engine: Engine) -> None:
        """Snapshots may be taken by any thread."""
        self._engine = engine

    def on_get(self, _req: falcon.Request, resp: falcon.Response, name: str = "", version: int | None = None) -> None:
        """All of them, a model's, or one version's."""
        snapshots = self._engine.statistics(name, "" if version is None else str(version))
        send(resp, describe.statistics(snapshots))
