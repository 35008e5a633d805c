"""One request, one response, on a call of its own."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import grpc
import numpy as np
import pytest

from infer.backends.api.errors import Cancelled
from infer.backends.api.response import InferenceResponse
from infer.backends.api.tensor import Tensor
from infer.server.grpc.messages import SERVICE, message

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

METHOD = f"/{SERVICE}/ModelInfer"


@pytest.fixture
def infer(door: Any) -> Iterator[Callable[[Any], Any]]:
    """Makes a call without waiting for its answer."""
    with door.channel() as channel:
        yield lambda request, **options: channel.unary_unary(METHOD).future(request.SerializeToString(), **options)


def read(call: Any) -> Any:
    return message("ModelInferResponse").FromString(call.result(timeout=20))


def failure(call: Any) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(grpc.RpcError):
        call.result(timeout=20)
    return call.code(), call.details()


@pytest.mark.parametrize("request_id", ["", "7"])
def test_a_request_is_answered_however_often_it_comes(infer: Any, make: Any, request_id: str) -> None:
    for offset in range(3):
        left = np.arange(16, dtype=np.int32) + offset
        made = read(infer(make.simple(left, id=request_id)))
        assert (made.model_name, made.model_version, made.id) == ("simple", "1", request_id)
        assert dict(made.parameters) == {}
        assert [output.name for output in made.outputs] == ["OUTPUT0", "OUTPUT1"]
        assert not any(output.HasField("contents") for output in made.outputs)
        assert list(made.raw_output_contents) == [(left + 1).tobytes(), (left - 1).tobytes()]


def test_custom_parameters_reach_the_model_and_come_back(infer: Any, make: Any, parametrise: Any) -> None:
    values = {
        "b": ("bool_param", True),
        "i": ("int64_param", -3),
        "s": ("string_param", "é"),
        "d": ("double_param", 2.5),
    }
    made = read(infer(parametrise(make.one("ident_FP32", [1]), values)))
    got = {key: (value.WhichOneof("parameter_choice"), value) for key, value in made.parameters.items()}
    assert {key: (kind, getattr(value, kind)) for key, (kind, value) in got.items()} == values


@pytest.mark.parametrize(
    ("request_of", "code", "phrase"),
    [
        (lambda make: make("nope"), "NOT_FOUND", "Request for unknown model: 'nope' is not found"),
        (lambda make: make.simple(model_version="99"), "NOT_FOUND", "version 99 is not found"),
        (lambda make: make.simple(model_version="x"), "INVALID_ARGUMENT", "failed to get model version"),
        (lambda make: make.one("raises", [1]), "INTERNAL", "ValueError: boom from execute"),
        (lambda make: make("simple"), "INVALID_ARGUMENT", "expected 2 inputs but got 0 inputs"),
        (lambda make: make.one("decoupled", [1]), "UNIMPLEMENTED", "doesn't support models with decoupled"),
    ],
)
def test_a_failure_is_the_status_of_the_call(infer: Any, make: Any, request_of: Any, code: str, phrase: str) -> None:
    for _ in range(2):
        status, details = failure(infer(request_of(make)))
        assert status is grpc.StatusCode[code]
        assert phrase in details


def test_a_refusal_at_the_door_is_counted(door: Any, infer: Any, make: Any) -> None:
    failure(infer(make("nope")))
    assert [error.code.name for error in door.engine.refused] == ["NOT_FOUND"]


def test_a_sentence_that_is_no_text_goes_out_all_the_same(door: Any, infer: Any, make: Any) -> None:
    door.engine.behaviours["raises"] = lambda _request: InferenceResponse(error=Cancelled("no\udcff\nline"))
    assert failure(infer(make.one("raises", [1]))) == (grpc.StatusCode.CANCELLED, "no?\nline")


def test_a_fault_of_ours_is_internal_and_in_the_log(
    door: Any, infer: Any, make: Any, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_arguments: Any) -> Any:
        msg = "a fault"
        raise RuntimeError(msg)

    door.engine.infer = broken
    status, details = failure(infer(make.simple()))
    assert (status, details) == (
        grpc.StatusCode.INTERNAL,
        "internal server error; the server's log has the details",
    )
    assert "ModelInfer failed" in caplog.text
    assert "a fault" in caplog.text


@pytest.mark.parametrize("how", ["cancel", "deadline"])
def test_a_client_that_goes_away_cancels_its_request(door: Any, infer: Any, make: Any, how: str) -> None:
    call = infer(make.one("held", [1]), timeout=0.1 if how == "deadline" else None)
    door.wait_until(lambda: len(door.engine.held) == 1)
    if how == "cancel":
        call.cancel()
    door.wait_until(lambda: door.engine.held[0].cancelled)
    with pytest.raises((grpc.FutureCancelledError, grpc.RpcError)):
        call.result(timeout=20)
    assert read(infer(make.simple())).model_name == "simple"


def test_buffers_go_back_to_their_owner(door: Any, infer: Any, make: Any) -> None:
    released = threading.Event()

    def answer(_request: Any) -> InferenceResponse:
        tensor = Tensor.from_numpy(np.ones(1, dtype=np.float32))
        tensor._release = released.set
        return InferenceResponse({"OUTPUT0": tensor})

    door.engine.behaviours["ident_FP32"] = answer
    read(infer(make.one("ident_FP32", [1])))
    assert released.wait(10)


def test_many_calls_at_once(infer: Any, make: Any) -> None:
    calls = [infer(make.one("ident_FP32", [number], id=str(number))) for number in range(100)]
    for number, call in enumerate(calls):
        made = read(call)
        assert (made.id, made.raw_output_contents[0]) == (str(number), np.float32(number).tobytes())


@pytest.mark.parametrize("algorithm", [grpc.Compression.Gzip, grpc.Compression.Deflate], ids=str)
def test_a_compressed_request_is_taken(infer: Any, make: Any, algorithm: grpc.Compression) -> None:
    assert read(infer(make.simple(), compression=algorithm)).model_name == "simple"
