"""``/v2/health/live`` and ``/v2/health/ready``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..wire.refusals import check_not_exiting
from .resources import Resource, send_json

if TYPE_CHECKING:
    from falcon.asgi import Request, Response

    from ..engine import Engine


class Live(Resource):
    """Whether the server runs.

    The body is KServe's, where Triton's is empty: KServe's client reads it, Triton's clients only read the status.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def on_get(self, _req: Request, resp: Response) -> None:
        """200 or 400; 503 on the way out."""
        check_not_exiting(self._engine)
        live = self._engine.live
        send_json(resp, {"live": live}, 200 if live else 400)


class Ready(Resource):
    """Whether the server takes requests."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def on_get(self, _req: Request, resp: Response) -> None:
        """200 or 400; 503 on the way out."""
        check_not_exiting(self._engine)
        ready = await self._engine.probe_server_ready()
        send_json(resp, {"ready": ready}, 200 if ready else 400)
