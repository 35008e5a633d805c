"""Answers recorded from a real Triton 2.51 over gRPC, replayed against this server.

``payloads/golden/grpc.jsonl`` holds a call and its answer a line, in the order they were made: loads, unloads and
statistics build on one another. ``payloads/golden/grpc.toml`` lists the rows that are knowingly answered differently,
each with its reason, and those whose feature is not served yet. Every other row must be equal, and a listed row must
really differ, so the lists cannot go stale.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from google.protobuf import json_format

from infer.server.grpc.messages import SERVICE, message
from infer.tests.conformance.golden import Row, check, recorded_repository

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from infer.app.wiring import RunningServer

TIMEOUT_S = 20


def normal(value: object) -> object:
    """An answer without what no two runs share: times, versions, line numbers of tracebacks."""
    if isinstance(value, dict):
        return {
            key: "" if key == "version" and "." in str(item) else normal(item)
            for key, item in value.items()
            if key not in ("ns", "last_inference")
        }
    if isinstance(value, list):
        # The sequence model of the recording is not loaded here; every index would differ by it.
        return [normal(item) for item in value if not (isinstance(item, dict) and item.get("name") == "seq")]
    if isinstance(value, str):
        return re.sub(r"\n\nAt:\n.*", "", value, flags=re.DOTALL)
    return value


def as_document(answer: Any) -> Any:
    return json_format.MessageToDict(answer, preserving_proto_field_name=True)


class Caller:
    """Makes the calls of the rows on one channel."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.channel = grpc.insecure_channel("{}:{}".format(*address))

    def answer(self, row: Row) -> dict[str, Any]:
        """Code, details and response or responses, as a row has them."""
        made: dict[str, Any] = {"code": "OK", "details": ""}
        try:
            if "requests" in row:
                made["responses"] = self._stream(row["requests"])
            else:
                made["response"] = self._unary(row)
        except grpc.RpcError as error:
            made["code"], made["details"] = error.code().name, error.details()
        return made

    def _unary(self, row: Row) -> Any:
        if row["name"] == "unknown_method":
            return self._bytes("Nope", b"")
        if row["name"] == "garbage_proto":
            return self._bytes("ModelInfer", b"\xff\xff\xff")
        if row["name"] == "deadline":
            return self._bytes(
                "ModelInfer", message("ModelInferRequest")(model_name="repeat_int32").SerializeToString()
            )
        if row["name"] == "reflection":
            call = self.channel.stream_stream("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo")
            return list(call(iter([b""]), timeout=TIMEOUT_S))
        method = row["method"]
        request = json_format.ParseDict(row["request"], message(f"{method}Request")())
        return as_document(message(f"{method}Response").FromString(self._bytes(method, request.SerializeToString())))

    def _bytes(self, method: str, request: bytes) -> bytes:
        return self.channel.unary_unary(f"/{SERVICE}/{method}")(request, timeout=TIMEOUT_S)

    def _stream(self, documents: list[Any]) -> list[Any]:
        requests = [json_format.ParseDict(document, message("ModelInferRequest")()) for document in documents]
        call = self.channel.stream_stream(f"/{SERVICE}/ModelStreamInfer")
        answers = call(iter([request.SerializeToString() for request in requests]), timeout=TIMEOUT_S)
        return [as_document(message("ModelStreamInferResponse").FromString(answer)) for answer in answers]


def differences(row: Row, made: dict[str, Any]) -> list[str]:
    found: list[str] = []
    for key in ("code", "details", "response", "responses"):
        ours, theirs = normal(made.get(key)), normal(row.get(key))
        if key == "responses" and ours and theirs:
            # Requests to a decoupled model may interleave: each one's own order counts.
            ours, theirs = _by_id(ours), _by_id(theirs)
        if ours != theirs:
            found.append(f"{key} {ours!r:.300}, recorded {theirs!r:.300}")
    return found


def _by_id(responses: Any) -> Any:
    return sorted(responses, key=lambda item: item.get("infer_response", {}).get("id", ""))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    doors = {"allow_http": False, "allow_metrics": False, "grpc_address": "127.0.0.1", "grpc_port": 0}
    with recorded_repository(tmp_path_factory.mktemp("golden"), **doors) as running:
        yield running


def test_every_recorded_answer_is_equal_or_listed_with_its_reason(
    server: RunningServer, record_property: Callable[[str, object], None]
) -> None:
    assert server.grpc_address is not None
    caller = Caller(server.grpc_address)
    with caller.channel:
        check("grpc", lambda row: differences(row, caller.answer(row)), record_property)
