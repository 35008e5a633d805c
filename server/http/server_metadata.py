"""``/v2``: what this server is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..wire import describe
from .resources import Resource, send_json

if TYPE_CHECKING:
    from falcon.asgi import Request, Response

    from ..engine import Engine


class ServerMetadata(Resource):
    """Name, version and extensions."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def on_get(self, _req: Request, resp: Response) -> None:
        """200."""
        engine = self._engine
        send_json(resp, describe.server_metadata(engine.server_id, engine.version, engine.extensions))
