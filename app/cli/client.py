"""A small client of a running server's HTTP interface, on the standard library.

Every failure is a :class:`CommandError` with the exit code that the command documents. The HTTP library is imported
with the first request: it brings TLS, which `infer --help` has no use for.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..failures import CommandError, ExitCode

if TYPE_CHECKING:
    import http.client
    from collections.abc import Mapping

OPERATOR_URL = "http://127.0.0.1:8002"
"""Where the operator's door listens unless told otherwise."""

INFERENCE_URL = "http://127.0.0.1:8000"
"""Where the HTTP door listens unless told otherwise."""

_CODES = {
    401: ExitCode.REFUSED,
    403: ExitCode.REFUSED,
    404: ExitCode.NOT_FOUND,
    503: ExitCode.NOT_READY,
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


@dataclass(frozen=True, slots=True)
class Client:
    """Talks to one address; a connection a request, since a command makes one or two."""

    url: str
    timeout: float = 30.0

    def get(self, path: str) -> Any:  # noqa: ANN401  a JSON document
        """The JSON document at a path."""
        return self._document(self.request("GET", path), path)

    def post(self, path: str, document: Any = None) -> Any:  # noqa: ANN401  JSON documents
        """What the server answers to a JSON document."""
        body = b"" if document is None else json.dumps(document).encode()
        return self._document(self.request("POST", path, body, {"Content-Type": "application/json"}), path)

    def request(self, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None) -> Reply:
        """One request; raises CommandError where there is no answer, and none for an error status."""
        import http.client

        connection = self._connect()
        key = os.environ.get("INFER_CONTROL_KEY")
        sent = {**(headers or {}), **({"Authorization": f"Bearer {key}"} if key else {})}
        try:
            connection.request(method, path, body or None, sent)
            response = connection.getresponse()
            names = {name.lower(): value for name, value in response.getheaders()}
            return Reply(response.status, names, response.read())
        except TimeoutError as error:
            raise CommandError(
                f"no answer from {self.url}{path}",
                f"the server took longer than {self.timeout:g} seconds",
                "give it longer: --timeout SECONDS",
                code=ExitCode.NOT_READY,
            ) from error
        except (OSError, http.client.HTTPException) as error:
            raise CommandError(
                f"cannot reach a server at {self.url}",
                str(error) or type(error).__name__,
                "start one with: infer up   or name its address with --url http://HOST:PORT",
                code=ExitCode.NO_CONNECTION,
            ) from error
        finally:
            connection.close()

    def _connect(self) -> http.client.HTTPConnection:
        import http.client
        from urllib.parse import urlsplit

        text = self.url if "//" in self.url else f"//{self.url}"
        parts = urlsplit(text, scheme="http")
        try:
            host, port = parts.hostname, parts.port
        except ValueError:
            host, port = None, None
        if parts.scheme not in ("http", "https") or not host:
            raise CommandError(
                f"'{self.url}' is not an address",
                "it must be http://HOST:PORT",
                "for example: --url http://127.0.0.1:8002",
                code=ExitCode.USAGE,
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
            raise CommandError(
                f"{self.url}{path} did not answer with JSON",
                f"it sent {reply.headers.get('content-type', 'no content type')}: {reply.body[:80]!r}",
                "name the address of a server's operator port with --url",
            ) from error

    def refusal(self, reply: Reply, path: str) -> CommandError:
        """The failure that an error status stands for."""
        why = error_text(reply)
        code = _CODES.get(reply.status, ExitCode.FAILED)
        if code is ExitCode.FAILED and any(phrase in why.lower() for phrase in _UNKNOWN):
            code = ExitCode.NOT_FOUND
        fix = {
            ExitCode.NOT_FOUND: "see what is there: infer model list",
            ExitCode.NOT_READY: "see states and reasons: infer model list",
        }.get(code, "")
        return CommandError(f"the server refused {path} with status {reply.status}", why, fix, code=code)


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
