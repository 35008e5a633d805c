"""What the server and its models are: metadata and configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..wire import describe
from .reply import send

if TYPE_CHECKING:
    import falcon

    from ..engine import Engine


class ServerMetadataResource:
    """GET /v2."""

    def __init__(self, engine: Engine) -> None:
        """Name, version and extensions do not change."""
        self._engine = engine

    def on_get(self, _req: falcon.Request, resp: falcon.Response) -> None:
        """Name, version and extensions of the server."""
        engine = self._engine
        send(resp, describe.server_metadata(engine.server_id, engine.version, engine.extensions))


class ModelMetadataResource:
    """GET /v2/models/{name}[/versions/{version}]."""

    def __init__(self, engine: Engine) -> None:
        """Looking a model up is a read of a published table."""
        self._engine = engine

    def on_get(self, _req: falcon.Request, resp: falcon.Response, name: str, version: int | None = None) -> None:
        """Inputs and outputs of a version, and the versions that serve (or the one asked for)."""
        model = self._engine.find(name, version)
        versions = self._engine.ready_versions(name) if version is None else (version,)
        send(resp, describe.model_metadata(model, versions))


class ModelConfigResource:
    """GET /v2/models/{name}[/versions/{version}]/config."""

    def __init__(self, engine: Engine) -> None:
        """A configuration is frozen."""
        self._engine = engine

    def on_get(self, _req: falcon.Request, resp: falcon.Response, name: str, version: int | None = None) -> None:
        """The completed configuration."""
        send(resp, describe.model_config(self._engine.find(name, version)))
