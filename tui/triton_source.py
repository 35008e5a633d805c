"""A real Triton as a source: it is looked at and called, never changed."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from .client import Client, model_path
from .failure import ClientError, Kind
from .triton_overview import Metrics, Told, overview_of, parse_metrics

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from .inference import Answer
    from .snapshot import LogPage, Overview
    from .triton_overview import Key

Document = dict[str, Any]


class TritonSource:
    """A Triton at its HTTP port, and its metrics port where that is known."""

    def __init__(self, client: Client, metrics: Client | None, clock: Callable[[], float] = time.time) -> None:
        """``metrics`` of None, or one that does not answer, leaves out what only the metrics tell."""
        self._client = client
        self._metrics = metrics
        self._clock = clock
        self._identity: Document = {}
        self._configs: dict[Key, Document] = {}

    @property
    def address(self) -> str:
        """The address of the HTTP port."""
        return self._client.url

    def overview(self) -> Overview:
        """The server now."""
        self._identity = self._identity or self._client.get("/v2")
        try:
            told = Told(
                identity=self._identity,
                ready=self._client.request("GET", "/v2/health/ready").ok,
                index=(index := self._client.post("/v2/repository/index")),
                statistics=self._client.get("/v2/models/stats").get("model_stats", []),
                configs=self._configurations(index),
                metrics=self._read_metrics(),
            )
            http = self.address.removeprefix("http://")
            return overview_of(told, now=self._clock(), http=http, changes=self._refusal("change", "NAME").why)
        except (AttributeError, KeyError, TypeError) as error:
            raise ClientError(
                f"what {self.address} answered is no picture of a Triton",
                f"{type(error).__name__}: {error}",
                "name the HTTP port of a Triton with --url",
            ) from error

    def _configurations(self, index: list[Document]) -> dict[Key, Document]:
        """Those of the versions that are ready; each is asked for once while it is."""
        ready = [(row["name"], str(row["version"])) for row in index if row.get("state") == "READY"]
        self._configs = {key: self._configs[key] if key in self._configs else self._configuration(key) for key in ready}
        return self._configs

    def _configuration(self, key: Key) -> Document:
        reply = self._client.request("GET", model_path(*key, "/config"))
        if not reply.ok:
            return {}  # it was unloaded meanwhile
        import json

        try:
            return json.loads(reply.body)
        except ValueError:
            return {}

    def _read_metrics(self) -> Metrics | None:
        if self._metrics is None:
            return None
        try:
            reply = self._metrics.request("GET", "/metrics")
            return parse_metrics(reply.body.decode("utf-8", "replace")) if reply.ok else None
        except (ClientError, ValueError):
            return None

    def interrupt(self) -> None:
        """Let go of every answer that is waited for."""
        for client in (self._client, self._metrics):
            if client is not None:
                client.interrupt()

    def log(self, *, after: int | None = None, limit: int = 200, level: str = "", model: str = "") -> LogPage:  # noqa: ARG002  the port's
        """Refused: a Triton keeps its log to itself."""
        raise ClientError(
            "there is no log to show",
            "this is a real Triton, which gives its log to nobody over HTTP",
            "look at its standard error, or the file of its --log-file",
            kind=Kind.REFUSED,
        )

    def metadata(self, name: str, version: str = "") -> Document:
        """Inputs and outputs of a model."""
        return self._client.get(model_path(name, version))

    def config(self, name: str, version: str = "") -> Document:
        """The configuration of a model as it is in force."""
        return self._client.get(model_path(name, version, "/config"))

    def load(self, name: str) -> None:
        """Refused."""
        raise self._refusal("load", name)

    def unload(self, name: str) -> None:
        """Refused."""
        raise self._refusal("unload", name)

    def _refusal(self, verb: str, name: str) -> ClientError:
        return ClientError(
            f"'{name}' is not changed",
            "this is a real Triton, which is only looked at from here",
            f"where its control mode is explicit: infer model {verb} {name} --url {self.address}",
            kind=Kind.REFUSED,
        )

    def infer(self, name: str, version: str, values: Mapping[str, Any]) -> tuple[Answer, str]:
        """Call a model."""
        from . import inference

        request = inference.prepare(self._client, name, version, dict(values), "")
        return request.send(), request.curl()
