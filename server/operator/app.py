"""The route table of the operator's door.

Everything that only reads takes snapshots, so it answers while the serving loop is saturated. What Triton has on its
metrics port is kept: ``/metrics``, and an empty 200 for paths it does not know. Our own API begins with ``/v2``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import falcon

from ...backends.api.errors import InferError
from . import errors
from .health import HealthResource, ModelReadyResource
from .log import LogResource
from .metadata import ModelConfigResource, ModelMetadataResource, ServerMetadataResource
from .metrics import MetricsResource
from .overview import OverviewResource
from .repository import IndexResource, ModelControlResource
from .statistics import StatisticsResource

if TYPE_CHECKING:
    from ..engine import Engine
    from ..observe.log_ring import LogRing
    from ..observe.metrics import ServerMetrics
    from .control import Control, Gate
    from .overview import Sources

_VERSION = "/versions/{version:int}"


@dataclass(frozen=True, slots=True)
class Parts:
    """What the resources stand on, besides the engine."""

    metrics: ServerMetrics
    control: Control
    gate: Gate
    sources: Sources
    ring: LogRing


def create_app(engine: Engine, parts: Parts) -> falcon.App[falcon.Request, falcon.Response]:
    """The WSGI application."""
    app = falcon.App()
    app.add_error_handler(Exception, errors.on_other)
    app.add_error_handler(falcon.HTTPError, errors.on_http_error)
    app.add_error_handler(InferError, errors.on_infer_error)
    app.req_options.strip_url_path_trailing_slash = False

    app.add_route("/metrics", MetricsResource(parts.metrics))
    app.add_route("/metrics/", MetricsResource(parts.metrics))
    app.add_route("/v2", ServerMetadataResource(engine))
    health = HealthResource(engine)
    app.add_route("/v2/health/live", health, suffix="live")
    app.add_route("/v2/health/ready", health, suffix="ready")
    app.add_route("/v2/models/stats", StatisticsResource(engine))
    for model in ("/v2/models/{name}", "/v2/models/{name}" + _VERSION):
        app.add_route(model, ModelMetadataResource(engine))
        app.add_route(model + "/ready", ModelReadyResource(engine))
        app.add_route(model + "/config", ModelConfigResource(engine))
        app.add_route(model + "/stats", StatisticsResource(engine))
    app.add_route("/v2/repository/index", IndexResource(engine))
    models = ModelControlResource(engine, parts.control, parts.gate)
    app.add_route("/v2/repository/models/{name}/load", models, suffix="load")
    app.add_route("/v2/repository/models/{name}/unload", models, suffix="unload")
    app.add_route("/v2/operator/overview", OverviewResource(engine, parts.sources, parts.gate))
    app.add_route("/v2/operator/log", LogResource(parts.ring, parts.gate))
    app.add_sink(_empty, r"/(?!v2(/|$))")
    return app


def _empty(req: falcon.Request, resp: falcon.Response, **_groups: str) -> None:  # noqa: ARG001  falcon's signature
    resp.content_type = "text/plain"
