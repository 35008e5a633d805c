"""``/v2/models/stats`` and ``/v2/models/m[/versions/v]/stats``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..wire import describe
from .resources import Resource, read_version, send_json

if TYPE_CHECKING:
    from falcon.asgi import Request, Response

    from ..engine import Engine


class Statistics(Resource):
    """The counters of one version, one model or all."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def on_get(self, _req: Request, resp: Response, model: str = "", version: str | None = None) -> None:
        """200, or 400 for what does not serve."""
        number = read_version(version)
        snapshots = self._engine.statistics(model, "" if number is None else str(number))
        send_json(resp, describe.statistics(snapshots))
