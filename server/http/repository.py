"""``/v2/repository[/repo]/index`` and ``/v2/repository[/repo]/models/m/load|unload``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...backends.api.errors import Internal, InvalidArgument
from ..wire import control, describe
from .json_text import DepthExceeded
from .resources import Resource, read_document, send_empty, send_json

if TYPE_CHECKING:
    from falcon.asgi import Request, Response

    from ..engine import Engine


class RepositoryIndex(Resource):
    """Every model of the repository and the state of its versions. The repository's name is ignored."""

    def __init__(self, engine: Engine, limit: int) -> None:
        self._engine = engine
        self._limit = limit

    async def on_post(self, req: Request, resp: Response, repository: str = "") -> None:  # noqa: ARG002  falcon's signature
        """200; the body may ask for ready versions only."""
        ready = await self._read_ready(req)
        send_json(resp, describe.index(self._engine.index(ready_only=ready)))

    async def _read_ready(self, req: Request) -> bool:
        msg = "Invalid value for 'ready': expected a boolean"
        try:
            document = await read_document(req, self._limit)
        except DepthExceeded as exc:
            raise InvalidArgument(msg) from exc
        ready = document.get("ready", False)
        if not isinstance(ready, bool):
            raise InvalidArgument(msg)
        return ready


class ModelLoad(Resource):
    """Load a model, what changed of it, or what the parameters give in place of its files."""

    def __init__(self, engine: Engine, limit: int) -> None:
        self._engine = engine
        self._limit = limit

    async def on_post(self, req: Request, resp: Response, model: str, repository: str = "") -> None:
        """200 when the model serves, or why it does not."""
        control.check_control(self._engine, model, repository)
        parameters = await _read_parameters(req, self._limit)
        await self._engine.load(model, control.json_load_overrides(parameters, control.HTTP_WORDS))
        send_empty(resp)


class ModelUnload(Resource):
    """Stop serving a model."""

    def __init__(self, engine: Engine, limit: int) -> None:
        self._engine = engine
        self._limit = limit

    async def on_post(self, req: Request, resp: Response, model: str, repository: str = "") -> None:
        """200 without waiting for requests in flight, also for a model nobody knows."""
        control.check_control(self._engine, model, repository)
        parameters = await _read_parameters(req, self._limit)
        dependents = control.unload_dependents(parameters, control.HTTP_WORDS)
        await self._engine.unload(model, wait=False, unload_dependents=dependents)
        send_empty(resp)


async def _read_parameters(req: Request, limit: int) -> dict[str, Any]:
    document = await read_document(req, limit)
    values = document.get("parameters", {})
    if not isinstance(values, dict):
        msg = "failed to get request params.: attempt to get members for non-object"
        raise Internal(msg)
    return values  # pyright: ignore[reportUnknownVariableType]
