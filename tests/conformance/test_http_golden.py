"""Answers recorded from a real Triton 2.51, replayed against this server.

``payloads/golden/http.jsonl`` holds a request and its answer a line, in the order they were sent: loads, unloads and
statistics build on one another. ``payloads/golden/http.toml`` lists the rows that are knowingly answered differently,
each with its reason, and those whose feature is not served yet. Every other row must be equal, and a listed row must
really differ, so the lists cannot go stale.
"""

from __future__ import annotations

import base64
import http.client
import json
import re
import zlib
from typing import TYPE_CHECKING

import pytest

from infer.tests.conformance.golden import Row, check, recorded_repository

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from infer.app.wiring import RunningServer

COMPARED_HEADERS = ("content-type", "inference-header-content-length", "content-encoding")


def differences(row: Row, status: int, headers: dict[str, str], body: bytes) -> list[str]:
    """What the answer has otherwise than the recording, times and addresses aside."""
    found: list[str] = []
    expected_status = int(row["status"].split()[1]) if row["status"].startswith("HTTP/") else 0
    if status != expected_status:
        found.append(f"status {status}, recorded {expected_status}")
    recorded = row["resp_body"].encode() if row.get("resp_body") is not None else b64(row.get("resp_body_b64"))
    recorded_headers = {name.lower(): value for name, value in row["resp_headers"]}
    ours = comparable(body, headers.get("content-encoding"))
    theirs = comparable(recorded, recorded_headers.get("content-encoding"))
    if ours != theirs:
        found.append(f"body {ours!r:.300}, recorded {theirs!r:.300}")
    for name in COMPARED_HEADERS:
        if name == "content-type" and recorded_headers.get(name) == "text/plain":
            # Early errors go out as text/plain there; application/json is what clients look for.
            continue
        if name == "inference-header-content-length" and headers.get(name) and recorded_headers.get(name):
            continue
        if headers.get(name) != recorded_headers.get(name):
            found.append(f"header {name} {headers.get(name)!r}, recorded {recorded_headers.get(name)!r}")
    return found


def b64(text: str | None) -> bytes:
    return base64.b64decode(text) if text else b""


def comparable(body: bytes, encoding: str | None) -> object:
    """A body without what no two runs share: compression, nanoseconds, line numbers of tracebacks."""
    if encoding:
        body = zlib.decompress(body, wbits=zlib.MAX_WBITS | 32)
    tail = b""
    try:
        document = json.loads(body)
    except ValueError:
        end = body.rfind(b"}") + 1
        try:
            document, tail = json.loads(body[:end]), body[end:]
        except ValueError:
            return body
    return (normal(document), tail)


def normal(value: object) -> object:
    if isinstance(value, dict):
        return {
            key: 0 if key in ("ns", "last_inference") else "" if key == "version" and "." in str(item) else normal(item)
            for key, item in value.items()
        }
    if isinstance(value, list):
        # The sequence model of the recording is not loaded here; every index would differ by it.
        return [normal(item) for item in value if not (isinstance(item, dict) and item.get("name") == "seq")]
    if isinstance(value, str):
        return re.sub(r"\n\nAt:\n.*", "", value, flags=re.DOTALL)
    return value


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    doors = {"http_address": "127.0.0.1", "http_port": 0, "metrics_port": 0, "allow_grpc": False}
    with recorded_repository(tmp_path_factory.mktemp("golden"), **doors) as running:
        yield running


def send(server: RunningServer, row: Row) -> tuple[int, dict[str, str], bytes]:
    # The rows of the metrics port are named so; GET /metrics on the inference port is `up_metrics_on_http`.
    address = server.operator_address if row["name"].startswith("metrics") else server.http_address
    assert address is not None
    connection = http.client.HTTPConnection(*address, timeout=20)
    headers = {name: value for name, value in (row["headers"] or {}).items() if value is not None}
    try:
        connection.putrequest(row["method"], row["path"], skip_accept_encoding=True)
        body = b64(row["body_b64"])
        given = {name.lower() for name in headers}
        for name, value in headers.items():
            connection.putheader(name, value)
        has_body = row["body_b64"] is not None or row["method"] in ("POST", "PUT", "PATCH")
        if headers.get("Transfer-Encoding") == "chunked":
            body = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
        elif has_body and not given & {"content-length", "transfer-encoding"}:
            connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body or None)
        answer = connection.getresponse()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
    finally:
        connection.close()


def test_every_recorded_answer_is_equal_or_listed_with_its_reason(
    server: RunningServer, record_property: Callable[[str, object], None]
) -> None:
    check("http", lambda row: differences(row, *send(server, row)), record_property)
