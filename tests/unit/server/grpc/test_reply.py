"""Replies are what protobuf would have written, whether they are made anew or from what was kept."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from infer.backends.api.datatypes import Datatype
from infer.backends.api.errors import InvalidArgument, NotFound
from infer.backends.api.response import InferenceResponse
from infer.backends.api.tensor import Tensor
from infer.server.grpc import reply
from infer.server.grpc.messages import message
from infer.server.grpc.reply import LAST, MAX_REPLIES, MORE, UNARY, Replies, ReplyWriter

FORM = object()


@pytest.fixture
def writer(engine: Any) -> ReplyWriter:
    return ReplyWriter(engine.find("simple"))


def kept() -> Replies:
    return ({}, {}, {})


def response(**fields: Any) -> InferenceResponse:
    outputs = {
        "OUTPUT0": Tensor.from_numpy(np.arange(16, dtype=np.int32).reshape(1, 16)),
        "OUTPUT1": Tensor.from_numpy(np.ones((1, 16), dtype=np.int32)),
    }
    return InferenceResponse(outputs, **fields)


def read(data: bytes, kind: int) -> Any:
    if kind == UNARY:
        return message("ModelInferResponse").FromString(data)
    streamed = message("ModelStreamInferResponse").FromString(data)
    assert streamed.error_message == ""
    return streamed.infer_response


def expected(answer: InferenceResponse, request_id: str, kind: int) -> Any:
    """The reply as protobuf makes it from the ground up."""
    made = message("ModelInferResponse")(model_name="simple", model_version="1", id=request_id)
    for key, value in answer.parameters.items():
        made.parameters[key].int64_param = int(value)
    if kind != UNARY:
        made.parameters["triton_final_response"].bool_param = kind == LAST
    for name, tensor in answer.outputs.items():
        made.outputs.add(name=name, datatype=tensor.datatype.value, shape=tensor.shape)
        made.raw_output_contents.append(bytes(tensor.view))
    return made


outputs = st.dictionaries(
    st.sampled_from(["OUTPUT0", "OUTPUT1", "é"]),
    st.lists(st.integers(-(2**31), 2**31 - 1), max_size=40),
    max_size=3,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(outputs, st.text(max_size=3), st.sampled_from([UNARY, MORE, LAST]), st.booleans(), st.booleans())
def test_a_reply_is_what_protobuf_writes(
    writer: ReplyWriter, arrays: dict[str, list[int]], request_id: str, kind: int, parameters: bool, again: bool
) -> None:
    tensors = {name: Tensor.from_numpy(np.array(values, dtype=np.int32)) for name, values in arrays.items()}
    answer = InferenceResponse(tensors, {"p": 5} if parameters else {}, form=FORM)
    replies = kept()
    data = writer.write(answer, request_id, {}, kind, replies)
    if again:
        data = writer.write(answer, request_id, {}, kind, replies)
    assert read(data, kind) == expected(answer, request_id, kind)
    if kind == UNARY and not parameters:
        # Byte for byte, but for parameters, whose order protobuf leaves open.
        assert data == expected(answer, request_id, kind).SerializeToString()


def test_responses_of_a_form_are_described_once(writer: ReplyWriter) -> None:
    replies = kept()
    writer.write(response(form=FORM), "", {}, UNARY, replies)
    known = replies[UNARY][FORM]
    other = response(form=FORM)
    other.outputs["OUTPUT1"] = Tensor.from_numpy(np.full((1, 16), 3, dtype=np.int32))
    data = writer.write(other, "9", {}, UNARY, replies)
    assert replies[UNARY] == {FORM: known}
    assert read(data, UNARY) == expected(other, "9", UNARY)
    assert replies[MORE] == replies[LAST] == {}


@pytest.mark.parametrize("kind", [UNARY, MORE, LAST])
def test_ids_of_any_length_are_written_and_few_lengths_are_kept(writer: ReplyWriter, kind: int) -> None:
    replies = kept()
    for size in [0, 1, 126, 127, 128, 20_000, *range(2 * reply._MAX_STARTS), 1]:
        answer = response(form=FORM)
        made = writer.write(answer, "é" * size, {}, kind, replies)
        assert read(made, kind) == expected(answer, "é" * size, kind)
    assert len(replies[kind][FORM]._starts) <= reply._MAX_STARTS


def test_responses_with_parameters_or_without_a_form_are_not_kept(writer: ReplyWriter) -> None:
    replies = kept()
    writer.write(response(form=FORM, parameters={"p": 1}), "", {}, UNARY, replies)
    writer.write(response(), "", {}, UNARY, replies)
    writer.write(response(form=FORM), "", {"OUTPUT0": 2}, UNARY, replies)
    assert replies == kept()


def test_no_more_forms_are_kept_than_may_be(writer: ReplyWriter) -> None:
    replies = kept()
    for _ in range(MAX_REPLIES + 5):
        writer.write(response(form=object()), "", {}, UNARY, replies)
    assert len(replies[UNARY]) <= MAX_REPLIES


def test_only_what_was_asked_for_is_sent_in_the_models_order(writer: ReplyWriter) -> None:
    data = writer.write(response(), "", {"OUTPUT1": 0, "OUTPUT0": 0}, UNARY)
    assert [output.name for output in read(data, UNARY).outputs] == ["OUTPUT0", "OUTPUT1"]
    replies = kept()
    for _ in range(2):
        data = writer.write(response(form=FORM), "", {"OUTPUT1": 0}, UNARY, replies)
        assert [output.name for output in read(data, UNARY).outputs] == ["OUTPUT1"]
        assert list(read(data, UNARY).raw_output_contents) == [np.ones(16, np.int32).tobytes()]


def test_the_highest_classes_come_with_their_labels(writer: ReplyWriter) -> None:
    made = read(writer.write(response(), "", {"OUTPUT0": 2}, UNARY), UNARY)
    assert (made.outputs[0].datatype, list(made.outputs[0].shape)) == ("BYTES", [1, 2])
    assert made.raw_output_contents[0] == b"\x0d\0\0\x0015:15:label15\x0d\0\0\x0014:14:label14"


def test_classes_of_what_has_no_order_are_refused(writer: ReplyWriter) -> None:
    answer = InferenceResponse({"OUTPUT0": Tensor(Datatype.BYTES, (1,), b"\0\0\0\0")})
    with pytest.raises(InvalidArgument, match="class result not available"):
        writer.write(answer, "", {"OUTPUT0": 1}, UNARY)


def test_an_empty_tensor_has_an_empty_content(writer: ReplyWriter) -> None:
    answer = InferenceResponse({"OUTPUT0": Tensor(Datatype.FP32, (0,), b"")})
    assert list(read(writer.write(answer, "", {}, UNARY), UNARY).raw_output_contents) == [b""]


def test_a_reply_that_grpc_cannot_carry_is_refused(writer: ReplyWriter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reply, "MAX_MESSAGE", 100)
    with pytest.raises(InvalidArgument, match="exceeds gRPC's byte size limit of 100"):
        writer.write(response(), "", {}, UNARY)


def test_what_a_stream_says_beside_replies() -> None:
    parsed = message("ModelStreamInferResponse")
    end = parsed.FromString(reply.empty_final("m", "", "7")).infer_response
    assert (end.model_name, end.model_version, end.id) == ("m", "", "7")
    assert end.parameters["triton_final_response"].bool_param
    refused = parsed.FromString(reply.refused(NotFound("no\udcff"), "7"))
    assert (refused.error_message, refused.infer_response.id, refused.infer_response.model_name) == ("no?", "7", "")
    failed = parsed.FromString(reply.failed(NotFound("no"), "m", "1", "7", final=False))
    assert (failed.error_message, failed.infer_response.model_version) == ("no", "1")
    assert not failed.infer_response.parameters["triton_final_response"].bool_param
