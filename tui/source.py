"""Where the dashboard gets its pictures and sends its commands: the port, and the source that is a server of ours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from .client import Client, control_path, model_path
from .failure import ClientError, Kind
from .snapshot import LogPage, Overview, parse_log, parse_overview

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .inference import Answer

Document = dict[str, Any]


class Source(Protocol):
    """A server, real or made up. Every method blocks for as long as its time-out, and raises ClientError."""

    @property
    def address(self) -> str:
        """Where the server is."""
        ...

    def overview(self) -> Overview:
        """The server now."""
        ...

    def log(self, *, after: int | None = None, limit: int = 200, level: str = "", model: str = "") -> LogPage:
        """Log records after a number, or the last ones."""
        ...

    def metadata(self, name: str, version: str = "") -> Document:
        """Inputs and outputs of a model."""
        ...

    def config(self, name: str, version: str = "") -> Document:
        """The configuration of a model as it is in force."""
        ...

    def load(self, name: str) -> None:
        """Load a model, or what changed of it; returns once it serves."""
        ...

    def unload(self, name: str) -> None:
        """Stop serving a model; returns once its last request is answered."""
        ...

    def infer(self, name: str, version: str, values: Mapping[str, Any]) -> tuple[Answer, str]:
        """Call a model with values by input name; the answer, and the curl command that does the same."""
        ...


@runtime_checkable
class Interruptible(Protocol):
    """A source whose calls can be let go of, so that a process that wants to end need not wait for them."""

    def interrupt(self) -> None:
        """Fail the calls that are under way in other threads."""
        ...


class ServerSource:
    """A server of ours, over its operator's door or its control socket."""

    def __init__(self, client: Client, *, change_timeout_s: float = 600.0) -> None:
        """``client`` reads; loads and unloads are waited for ``change_timeout_s`` seconds."""
        self._client = client
        self._changes = Client(client.url, change_timeout_s, client.key)
        self._inference: Client | None = None

    @property
    def address(self) -> str:
        """The address of the operator's door."""
        return self._client.url

    def overview(self) -> Overview:
        """The server now."""
        document = self._client.get("/v2/operator/overview")
        try:
            overview = parse_overview(document)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ClientError(
                f"what {self.address} answered is no picture of a server",
                str(error) or type(error).__name__,
                "name the operator's address of a server of this kind with --url",
            ) from error
        http = overview.server.http
        self._inference = Client(f"http://{http}", self._client.timeout) if http else None
        return overview

    def interrupt(self) -> None:
        """Let go of every answer that is waited for."""
        for client in (self._client, self._changes, self._inference):
            if client is not None:
                client.interrupt()

    def log(self, *, after: int | None = None, limit: int = 200, level: str = "", model: str = "") -> LogPage:
        """Log records after a number, or the last ones."""
        from urllib.parse import urlencode

        given = {"limit": limit, "after": after, "level": level, "model": model}
        query = urlencode({name: value for name, value in given.items() if value not in (None, "")})
        return parse_log(self._client.get(f"/v2/operator/log?{query}"))

    def metadata(self, name: str, version: str = "") -> Document:
        """Inputs and outputs of a model."""
        return self._client.get(model_path(name, version))

    def config(self, name: str, version: str = "") -> Document:
        """The configuration of a model as it is in force."""
        return self._client.get(model_path(name, version, "/config"))

    def load(self, name: str) -> None:
        """Load a model, or what changed of it."""
        self._changes.post(control_path(name, "load"), {})

    def unload(self, name: str) -> None:
        """Stop serving a model."""
        self._changes.post(control_path(name, "unload"), {})

    def infer(self, name: str, version: str, values: Mapping[str, Any]) -> tuple[Answer, str]:
        """Call a model at the server's HTTP door."""
        from . import inference

        if self._inference is None:
            raise ClientError(
                f"'{name}' cannot be called from here",
                "the server has no HTTP door",
                "start it with --allow-http=true",
                kind=Kind.REFUSED,
            )
        request = inference.prepare(self._inference, name, version, dict(values), "")
        return request.send(), request.curl()
