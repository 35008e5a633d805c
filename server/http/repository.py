"""``/v2/repository[/repo]/index`` and ``/v2/repository[/repo]/models/m/load|unload``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...backends.api.errors import Internal, InvalidArgument, Unsupported
from ..wire import describe
from ..wire.control import check_control
from .errors import mistyped
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
    """Load a model, or load it anew."""

    def __init__(self, engine: Engine, limit: int) -> None:
        self._engine = engine
        self._limit = limit

    async def on_post(self, req: Request, resp: Response, model: str, repository: str = "") -> None:
        """200 when the model serves, or why it does not."""
        check_control(self._engine, model, repository)
        for key, value in (await _read_parameters(req, self._limit)).items():
            _refuse_override(key, value)
        await self._engine.load(model)
        send_empty(resp)


class ModelUnload(Resource):
    """Stop serving a model."""

    def __init__(self, engine: Engine, limit: int) -> None:
        self._engine = engine
        self._limit = limit

    async def on_post(self, req: Request, resp: Response, model: str, repository: str = "") -> None:
        """200, also for a model nobody knows."""
        check_control(self._engine, model, repository)
        dependents = (await _read_parameters(req, self._limit)).get("unload_dependents", False)
        if not isinstance(dependents, bool):
            raise mistyped("unload_dependents", "boolean")
        await self._engine.unload(model, unload_dependents=dependents)
        send_empty(resp)


async def _read_parameters(req: Request, limit: int) -> dict[str, Any]:
    document = await read_document(req, limit)
    values = document.get("parameters", {})
    if not isinstance(values, dict):
        msg = "failed to get request params.: attempt to get members for non-object"
        raise Internal(msg)
    return values  # pyright: ignore[reportUnknownVariableType]


def _refuse_override(key: str, value: object) -> None:
    """A load is from the repository as it is; Triton's overrides are told from keys that mean nothing."""
    if not isinstance(value, str):
        msg = "attempt to access JSON non-string as string"
        raise Internal(msg)
    if key == "config" or key.startswith("file:"):
        msg = (
            f"load parameter '{key}' is not supported yet; change the model's folder in the repository and load it "
            "without parameters"
        )
        raise Unsupported(msg)
    msg = "unexpected error on creating Triton parameter"
    raise Internal(msg)
