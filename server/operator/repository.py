"""The repository: its index for everyone, loading and unloading for who may change things."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, cast

from ...backends.api.errors import InvalidArgument
from ..wire import control, describe
from .reply import read_object, send

if TYPE_CHECKING:
    import falcon

    from ...backends.api.errors import InferError
    from ..engine import Engine
    from .control import Control, Gate

_logger = logging.getLogger(__name__)


class IndexResource:
    """GET or POST /v2/repository/index."""

    def __init__(self, engine: Engine) -> None:
        """The index is a published picture."""
        self._engine = engine

    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """List the repository; ``?ready=true`` only what serves."""
        send(resp, describe.index(self._engine.index(ready_only=req.get_param_as_bool("ready") or False)))

    def on_post(self, req: falcon.Request, resp: falcon.Response) -> None:
        """List the repository; ``{"ready": true}`` only what serves."""
        ready = read_object(req).get("ready", False)
        if not isinstance(ready, bool):
            raise InvalidArgument("Invalid value for 'ready': expected a boolean")
        send(resp, describe.index(self._engine.index(ready_only=ready)))


class ModelControlResource:
    """POST /v2/repository/models/{name}/load and …/unload, in every control mode: this is the operator's own door."""

    def __init__(self, engine: Engine, control: Control, gate: Gate) -> None:
        """Changes happen on the serving loop; ``control`` waits for them, ``gate`` says who may ask."""
        self._engine = engine
        self._control = control
        self._gate = gate

    def on_post_load(self, req: falcon.Request, resp: falcon.Response, name: str) -> None:
        """Load a model, what changed of it, or what the parameters give in place of its files; 200 once it serves."""
        self._gate.check(req)
        overrides = control.json_load_overrides(_parameters(req), _WORDS)
        _logger.info("load of '%s' asked for at the operator's door", name, extra={"model": name})
        self._control.run(f"load of '{name}'", self._engine.load(name, overrides))
        resp.content_type = "application/json"

    def on_post_unload(self, req: falcon.Request, resp: falcon.Response, name: str) -> None:
        """Stop serving a model; 200 once it is closed, also for an unknown name."""
        self._gate.check(req)
        dependents = control.unload_dependents(_parameters(req), _WORDS)
        _logger.info("unload of '%s' asked for at the operator's door", name, extra={"model": name})
        self._control.run(f"unload of '{name}'", self._engine.unload(name, unload_dependents=dependents))
        resp.content_type = "application/json"


def _unknown(key: str) -> InferError:
    return InvalidArgument(f"unknown load parameter '{key}'; a load takes 'config' and 'file:<version>/<path>'")


def _mistyped(key: str, expected: str) -> InferError:
    return InvalidArgument(f"Unable to parse '{key}': expected a {expected}")


_WORDS = control.ControlWords(_unknown, _mistyped)


def _parameters(req: falcon.Request) -> dict[str, Any]:
    parameters: object = read_object(req).get("parameters") or {}
    if not isinstance(parameters, dict):
        raise InvalidArgument("expected a JSON object as 'parameters'")
    return cast("dict[str, Any]", parameters)
