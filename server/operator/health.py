"""Liveness and readiness of the server and of a model version: 200 or 400, as Triton's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...backends.api.errors import InvalidArgument, Unavailable

if TYPE_CHECKING:
    import falcon

    from ..engine import Engine


class HealthResource:
    """GET /v2/health/live and /v2/health/ready: an empty body, and 400 for no."""

    def __init__(self, engine: Engine) -> None:
        """Both properties of the engine may be read by any thread."""
        self._engine = engine

    def on_get_live(self, _req: falcon.Request, resp: falcon.Response) -> None:
        """Answer whether the server runs."""
        self._answer(resp, good=self._engine.live)

    def on_get_ready(self, _req: falcon.Request, resp: falcon.Response) -> None:
        """Answer whether requests are taken."""
        self._answer(resp, good=self._engine.ready)

    def _answer(self, resp: falcon.Response, *, good: bool) -> None:
        if self._engine.draining:
            raise Unavailable("Server exiting")
        resp.status = 200 if good else 400
        resp.content_type = "text/plain"


class ModelReadyResource:
    """GET /v2/models/{name}[/versions/{version}]/ready."""

    def __init__(self, engine: Engine) -> None:
        """Readiness may be asked by any thread."""
        self._engine = engine

    def on_get(self, _req: falcon.Request, resp: falcon.Response, name: str, version: int | None = None) -> None:
        """Answer with an empty body, or the protocol's sentence when the version does not serve."""
        if not self._engine.is_model_ready(name, version):
            raise InvalidArgument("Model version not ready")
        resp.content_type = "text/plain"
