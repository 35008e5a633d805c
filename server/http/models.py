"""``/v2/models/m[/versions/v]`` and, below it, ``ready`` and ``config``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...backends.api.errors import InvalidArgument
from ..wire import describe
from .resources import Resource, read_version, send_empty, send_json

if TYPE_CHECKING:
    from falcon.asgi import Request, Response

    from ..engine import Engine


class ModelMetadata(Resource):
    """What a model takes and gives."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def on_get(self, _req: Request, resp: Response, model: str, version: str | None = None) -> None:
        """200, or why the model cannot be had."""
        number = read_version(version)
        found = self._engine.find(model, number)
        versions = self._engine.ready_versions(model) if number is None else (number,)
        send_json(resp, describe.model_metadata(found, versions))


class ModelConfiguration(Resource):
    """A model's whole configuration."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def on_get(self, _req: Request, resp: Response, model: str, version: str | None = None) -> None:
        """200, or why the model cannot be had."""
        send_json(resp, describe.model_config(self._engine.find(model, read_version(version))))


class ModelReady(Resource):
    """Whether a model takes requests."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def on_get(self, _req: Request, resp: Response, model: str, version: str | None = None) -> None:
        """200 with an empty body, or 400: also for a model nobody knows."""
        if not await self._engine.probe_ready(model, read_version(version)):
            msg = "Model version not ready"
            raise InvalidArgument(msg)
        send_empty(resp, "text/plain")
