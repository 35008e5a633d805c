"""A small client of a running server's HTTP interface, on the standard library, over TCP or a Unix socket.

Every failure is a :class:`ClientError`. The HTTP library is imported
with the first request: it brings TLS, which `infer --help` has no use for.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .failure import ClientError, Kind

if TYPE_CHECKING:
    import http.client
    from collections.abc import Mapping

OPERATOR_URL = "http://127.0.0.1:8002"
"""Where the operator's door listens unless told otherwise."""

INFERENCE_URL = "http://127.0.0.1:8000"
"""Where the HTTP door listens unless told otherwise."""

UNIX = "unix:"
"""How the address of a Unix socket begins."""

_KINDS = {
    401: Kind.REFUSED,
    403: Kind.REFUSED,
    404: Kind.NOT_FOUND,
    503: Kind.NOT_READY,
}
_FIRST_ERROR_STATUS = 400
_UNKNOWN = ("not found", "unknown model", "is not available", "no folder '")


@dataclass(frozen=True, slots=True)
class Reply:
    """A server's answer: status, headers (names in lower case) and body."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def ok(self) -> bool:
        """Whether the server did what it was asked."""
        return self.status < _FIRST_ERROR_STATUS


def _nothing() -> set[http.client.HTTPConnection]:
    return set()


@dataclass(frozen=True, slots=True)
class Client:
    """Talks to one address; a connection a request, since a command makes one or two.

    ``url`` is ``http://HOST:PORT``, ``HOST:PORT``, ``https://…``, or ``unix:/PATH`` of a server's control socket.
    ``key`` is what a server wants to see of who changes things over TCP. ``timeout`` is in seconds.
    """

    url: str
    timeout: float = 30.0
    key: str = field(default="", repr=False)
    _open: set[http.client.HTTPConnection] = field(default_factory=_nothing, init=False, repr=False, compare=False)

    def get(self, path: str) -> Any:  # noqa: ANN401  a JSON document
        """The JSON document at a path."""
        return self._document(self.request("GET", path), path)

    def post(self, path: str, document: Any = None) -> Any:  # noqa: ANN401  JSON documents
        """What the server answers to a JSON document."""
        body = b"" if document is None else json.dumps(document).encode()
        return self._document(self.request("POST", path, body, {"Content-Type": "application/json"}), path)

    def request(self, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None) -> Reply:
        """One request; raises ClientError where there is no answer, and none for an error status."""
        import http.client

        connection = self._connect()
        sent = dict(headers or {})
        if self.key:
            sent["Authorization"] = _bearer(self.key)
        self._open.add(connection)
        try:
            connection.request(method, path, body or None, sent)
            response = connection.getresponse()
            names = {name.lower(): value for name, value in response.getheaders()}
            return Reply(response.status, names, response.read())
        except TimeoutError as error:
            raise ClientError(
                f"no answer from {self.url}{path}",
                f"the server took longer than {self.timeout:g} seconds",
                "give it longer: --timeout SECONDS",
                kind=Kind.NOT_READY,
                late=True,
            ) from error
        except (OSError, http.client.HTTPException) as error:
            raise ClientError(
                f"cannot reach a server at {self.url}",
                _words(error),
                "start one with: infer up   or name its address with --url http://HOST:PORT",
                kind=Kind.NO_CONNECTION,
            ) from error
        finally:
            self._open.discard(connection)
            connection.close()

    def interrupt(self) -> None:
        """Let go of every answer that other threads wait for: they fail at once, whatever the server does."""
        import contextlib
        import socket

        for connection in tuple(self._open):
            with contextlib.suppress(OSError, AttributeError):
                connection.sock.shutdown(socket.SHUT_RDWR)

    def _connect(self) -> http.client.HTTPConnection:
        import http.client
        from urllib.parse import urlsplit

        if self.url.startswith(UNIX):
            return _over_unix(self.url.removeprefix(UNIX), self.timeout)
        text = self.url if "//" in self.url else f"//{self.url}"
        parts = urlsplit(text, scheme="http")
        try:
            host, port = parts.hostname, parts.port
        except ValueError:
            host, port = None, None
        if parts.scheme not in ("http", "https") or not host:
            raise ClientError(
                f"'{self.url}' is not an address",
                "it must be http://HOST:PORT or unix:/PATH",
                "for example: --url http://127.0.0.1:8002",
                kind=Kind.USAGE,
            )
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        return kind(host, port, timeout=self.timeout)

    def _document(self, reply: Reply, path: str) -> Any:  # noqa: ANN401  a JSON document
        if not reply.ok:
            raise self.refusal(reply, path)
        if not reply.body:
            return {}
        try:
            return json.loads(reply.body)
        except ValueError as error:
            raise ClientError(
                f"{self.url}{path} did not answer with JSON",
                f"it sent {reply.headers.get('content-type', 'no content type')}: {reply.body[:80]!r}",
                "name the address of a server's operator port with --url",
            ) from error

    def refusal(self, reply: Reply, path: str) -> ClientError:
        """The failure that an error status stands for."""
        why = error_text(reply)
        kind = _KINDS.get(reply.status, Kind.FAILED)
        if kind is Kind.FAILED and is_unknown(why):
            kind = Kind.NOT_FOUND
        fix = {
            Kind.NOT_FOUND: "see what is there: infer model list",
            Kind.NOT_READY: "see states and reasons: infer model list",
            Kind.REFUSED: "see which server and key are meant: infer config view --origin",
        }.get(kind, "see what the server says of it: infer logs -n 20")
        return ClientError(f"the server refused {path} with status {reply.status}", why, fix, kind=kind)


def _words(error: Exception) -> str:
    """Why there is no answer. What another protocol sends is not repeated: it is not text."""
    if isinstance(error, OSError):
        return str(error) or type(error).__name__
    return f"what listens there does not answer as HTTP does ({type(error).__name__})"


def _bearer(key: str) -> str:
    """The header that shows a key, which must be one line of visible ASCII."""
    if not (key.isascii() and key.isprintable()):
        raise ClientError(
            "the control key cannot be sent",
            "it holds a line break or a letter that no HTTP header carries",
            "give it as the server's start named it: one line of letters and digits",
            kind=Kind.USAGE,
        )
    return f"Bearer {key}"


def _over_unix(path: str, timeout: float) -> http.client.HTTPConnection:
    """A connection that goes over a Unix socket."""
    import http.client
    import socket

    class UnixConnection(http.client.HTTPConnection):
        def connect(self) -> None:
            connected = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                connected.settimeout(self.timeout)
                connected.connect(path)
            except BaseException:
                connected.close()
                raise
            self.sock = connected

    return UnixConnection("localhost", timeout=timeout)


def is_unknown(sentence: str) -> bool:
    """Whether a server's sentence says that there is no such model or version."""
    return any(phrase in sentence.lower() for phrase in _UNKNOWN)


def error_text(reply: Reply) -> str:
    """The server's sentence, from ``{"error": "…"}`` or as it is."""
    try:
        document: Any = json.loads(reply.body)
        return str(document["error"])
    except (ValueError, KeyError, TypeError):
        return reply.body.decode("utf-8", "replace").strip() or "it gave no reason"


def model_path(name: str, version: str = "", tail: str = "") -> str:
    """The path of a model's resource."""
    from urllib.parse import quote

    middle = f"/versions/{quote(version, safe='')}" if version else ""
    return f"/v2/models/{quote(name, safe='')}{middle}{tail}"


def control_path(name: str, verb: str) -> str:
    """The path that loads (``load``) or unloads (``unload``) a model."""
    from urllib.parse import quote

    return f"/v2/repository/models/{quote(name, safe='')}/{verb}"
