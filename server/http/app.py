"""The route table of the HTTP door: inference first, falcon for everything else."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import falcon
import falcon.asgi

from ...backends.api.errors import InferError
from .errors import METHOD_NOT_ALLOWED, NOT_FOUND, error_body
from .health import Live, Ready
from .inference import send_json
from .models import ModelConfiguration, ModelMetadata, ModelReady
from .repository import ModelLoad, ModelUnload, RepositoryIndex
from .resources import NameConverter, VersionConverter, send_error, send_message
from .server_metadata import ServerMetadata
from .statistics import Statistics

if TYPE_CHECKING:
    from falcon.asgi import Request, Response

    from ..engine import Engine
    from .inference import Inference, Receive, Send

log = logging.getLogger("infer.http")


class Door:
    """The ASGI application."""

    def __init__(self, inference: Inference, others: falcon.asgi.App[Any, Any]) -> None:
        self._inference = inference
        self._others = others

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        """Answer one request."""
        path: str = scope["path"]
        if path.endswith("/infer"):
            target = self._inference.route(path)
            if target is not None:
                if scope["method"] == "POST":
                    await self._inference(target, scope, receive, send)
                else:
                    await send_json(send, 405, error_body(METHOD_NOT_ALLOWED), [(b"Allow", b"POST")])
                return
        await self._others(scope, receive, send)  # type: ignore[arg-type]


def make_app(engine: Engine, max_input_size: int) -> falcon.asgi.App[Any, Any]:
    """The falcon app: one route a line."""
    app = falcon.asgi.App()
    app.router_options.converters["name"] = NameConverter
    app.router_options.converters["version"] = VersionConverter
    app.add_error_handler(InferError, _on_infer_error)
    app.add_error_handler(falcon.HTTPError, _on_http_error)
    app.add_error_handler(Exception, _on_exception)

    load, unload = ModelLoad(engine, max_input_size), ModelUnload(engine, max_input_size)
    index = RepositoryIndex(engine, max_input_size)
    statistics = Statistics(engine)
    app.add_route("/v2", ServerMetadata(engine))
    app.add_route("/v2/health/live", Live(engine))
    app.add_route("/v2/health/ready", Ready(engine))
    app.add_route("/v2/models/stats", statistics)
    for model in ("/v2/models/{model:name}", "/v2/models/{model:name}/versions/{version:version}"):
        app.add_route(model, ModelMetadata(engine))
        app.add_route(f"{model}/ready", ModelReady(engine))
        app.add_route(f"{model}/config", ModelConfiguration(engine))
        app.add_route(f"{model}/stats", statistics)
    for repository in ("/v2/repository", "/v2/repository/{repository:name}"):
        app.add_route(f"{repository}/index", index)
        app.add_route(f"{repository}/models/{{model:name}}/load", load)
        app.add_route(f"{repository}/models/{{model:name}}/unload", unload)
    return app


async def _on_infer_error(_req: Request, resp: Response, error: InferError, _params: dict[str, Any]) -> None:
    send_error(resp, error)


async def _on_http_error(_req: Request, resp: Response, error: falcon.HTTPError, _params: dict[str, Any]) -> None:
    """Errors of falcon: no route, or a method that the route does not have (an unknown one is a bad request)."""
    if isinstance(error, falcon.HTTPNotFound):
        send_message(resp, 404, NOT_FOUND)
    elif isinstance(error, (falcon.HTTPMethodNotAllowed, falcon.HTTPBadRequest)):
        send_message(resp, 405, METHOD_NOT_ALLOWED)
    else:
        send_message(resp, error.status_code, error.title or "error")


async def _on_exception(req: Request, resp: Response, error: Exception, _params: dict[str, Any]) -> None:
    log.error("%s %s failed", req.method, req.path, exc_info=error)
    send_message(resp, 500, "internal server error; the server's log has the details")
