"""Large typed requests are read away from the loop, and mean what they meant."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import grpc
import numpy as np
import pytest

from infer.server.grpc.expansion import HEAVY, as_raw, is_heavy
from infer.server.grpc.messages import SERVICE, message

if TYPE_CHECKING:
    from collections.abc import Callable

COUNT = 100_000
VALUES = np.arange(COUNT, dtype=np.float32)


def typed(make: Any, datatype: str = "FP32", **contents: Any) -> Any:
    return make("ident_FP32", inputs=[make.tensor("INPUT0", datatype, COUNT, **contents)])


def test_a_typed_request_becomes_the_raw_one_that_says_the_same(make: Any) -> None:
    request = typed(make, fp32_contents=VALUES)
    assert message("ModelInferRequest").FromString(as_raw(request.SerializeToString())) == make.one(
        "ident_FP32", VALUES
    )


def test_only_what_is_large_without_its_raw_contents_is_heavy(make: Any) -> None:
    assert is_heavy(typed(make, fp32_contents=VALUES).SerializeToString())
    assert not is_heavy(make.one("ident_FP32", VALUES).SerializeToString())
    assert not is_heavy(make.one("ident_FP32", [1]).SerializeToString())
    assert not is_heavy(b"\xff" * 2 * HEAVY), "what cannot be cut is left to the reader"


def without_contents(request: Any) -> Any:
    request.inputs.add(name="INPUT1", datatype="FP32", shape=[1])
    return request


def with_raw(request: Any) -> Any:
    request.raw_input_contents.append(b"x")
    return request


@pytest.mark.parametrize(
    "broken",
    [
        lambda make: typed(make, "FP64", fp32_contents=VALUES),
        lambda make: typed(make, "NONE", fp32_contents=VALUES),
        lambda make: with_raw(typed(make, fp32_contents=VALUES)),
        lambda make: without_contents(typed(make, fp32_contents=VALUES)),
    ],
    ids=["another field", "no datatype", "raw contents too", "an input without contents"],
)
def test_what_is_wrong_is_left_for_the_reader(make: Any, broken: Callable[[Any], Any]) -> None:
    data = broken(make).SerializeToString()
    assert as_raw(data) is data


def test_what_is_no_message_is_left_for_the_reader() -> None:
    assert as_raw(b"\xff\xff") == b"\xff\xff"


def test_a_large_typed_call_is_answered(door: Any, make: Any) -> None:
    request = typed(make, fp32_contents=VALUES).SerializeToString()
    with door.channel() as channel:
        data = channel.unary_unary(f"/{SERVICE}/ModelInfer")(request, timeout=20)
    assert message("ModelInferResponse").FromString(data).raw_output_contents[0] == VALUES.tobytes()


def test_a_large_typed_call_that_is_wrong_says_so(door: Any, make: Any) -> None:
    request = typed(make, "FP64", fp32_contents=VALUES).SerializeToString()
    with door.channel() as channel, pytest.raises(grpc.RpcError) as caught:
        channel.unary_unary(f"/{SERVICE}/ModelInfer")(request, timeout=20)
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "unexpected explicit tensor data for input tensor 'INPUT0'" in caught.value.details()


def test_large_typed_requests_of_a_stream_keep_their_order(open_stream: Any, make: Any) -> None:
    stream = open_stream()
    large = typed(make, fp32_contents=VALUES)
    large.id = "large"
    stream.send(large, make.one("ident_FP32", [1], id="small"))
    assert [made.infer_response.id for made in stream.rest()] == ["large", "small"]
