"""Messages made and read without protobuf are those that protobuf makes and reads."""

from __future__ import annotations

import struct

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from grpc_messages import framed, infer_answer, infer_request, stream_answer
from hypothesis import given
from hypothesis import strategies as st

NAMES = st.text(max_size=300)


@pytest.fixture(scope="module")
def messages() -> dict[str, type]:
    """Classes of the protocol's messages, from a description of the fields that the benchmarks use."""
    file = descriptor_pb2.FileDescriptorProto(name="bench.proto", package="bench", syntax="proto3")
    kinds = descriptor_pb2.FieldDescriptorProto

    def message(name: str, *fields: tuple[str, int, int, bool, str]) -> None:
        entry = file.message_type.add(name=name)
        for field, number, kind, repeated, of in fields:
            label = kinds.LABEL_REPEATED if repeated else kinds.LABEL_OPTIONAL
            entry.field.add(name=field, number=number, type=kind, label=label, type_name=of or None)

    text, raw, many, inner = kinds.TYPE_STRING, kinds.TYPE_BYTES, kinds.TYPE_INT64, kinds.TYPE_MESSAGE
    message("Parameter", ("bool_param", 1, kinds.TYPE_BOOL, False, ""))
    message("Entry", ("key", 1, text, False, ""), ("value", 2, inner, False, ".bench.Parameter"))
    message("Tensor", ("name", 1, text, False, ""), ("datatype", 2, text, False, ""), ("shape", 3, many, True, ""))
    message(
        "Request",
        ("model_name", 1, text, False, ""),
        ("id", 3, text, False, ""),
        ("parameters", 4, inner, True, ".bench.Entry"),
        ("inputs", 5, inner, True, ".bench.Tensor"),
        ("raw_input_contents", 7, raw, True, ""),
    )
    message(
        "Response",
        ("model_name", 1, text, False, ""),
        ("id", 3, text, False, ""),
        ("parameters", 4, inner, True, ".bench.Entry"),
        ("outputs", 5, inner, True, ".bench.Tensor"),
        ("raw_output_contents", 6, raw, True, ""),
    )
    message("Streamed", ("error_message", 1, text, False, ""), ("infer_response", 2, inner, False, ".bench.Response"))
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    found = {entry.name: pool.FindMessageTypeByName(f"bench.{entry.name}") for entry in file.message_type}
    return {name: message_factory.GetMessageClass(descriptor) for name, descriptor in found.items()}


@given(
    model=NAMES,
    request_id=NAMES,
    tensors=st.lists(
        st.tuples(NAMES, NAMES, st.lists(st.integers(0, 2**40), min_size=1, max_size=4), st.binary(max_size=300)),
        max_size=3,
    ),
)
def test_a_request_reads_as_what_it_was_made_of(
    messages: dict[str, type], model: str, request_id: str, tensors: list[tuple[str, str, list[int], bytes]]
) -> None:
    request = messages["Request"].FromString(infer_request(model, tensors, request_id))
    assert (request.model_name, request.id) == (model, request_id)
    assert [(t.name, t.datatype, list(t.shape)) for t in request.inputs] == [tensor[:3] for tensor in tensors]
    assert list(request.raw_input_contents) == [tensor[3] for tensor in tensors]
    assert not request.parameters


def test_a_request_may_ask_for_an_empty_final_response(messages: dict[str, type]) -> None:
    request = messages["Request"].FromString(infer_request("m", [], empty_final=True))
    assert [(p.key, p.value.bool_param) for p in request.parameters] == [("triton_enable_empty_final_response", True)]


@pytest.mark.parametrize("final", [True, False])
def test_a_streamed_answer_is_read(messages: dict[str, type], *, final: bool) -> None:
    parameter = messages["Parameter"](bool_param=final)
    entries = [messages["Entry"](key=key, value=parameter) for key in ("other", "triton_final_response")]
    response = messages["Response"](
        model_name="m",
        id="7",
        parameters=entries,
        outputs=[messages["Tensor"](name="OUT", shape=[1, 300])],
        raw_output_contents=[b"one", b""],
    )
    answer = stream_answer(messages["Streamed"](infer_response=response).SerializeToString())
    assert (answer.request_id, answer.final, answer.outputs, answer.error) == ("7", final, [b"one", b""], "")


def test_an_answer_without_the_flag_does_not_say_whether_it_is_final(messages: dict[str, type]) -> None:
    response = messages["Response"](raw_output_contents=[b"x"])
    assert infer_answer(response.SerializeToString()).final is None


def test_a_streamed_error_is_read_with_its_request(messages: dict[str, type]) -> None:
    response = messages["Response"](id="9")
    error = messages["Streamed"](error_message="no such model", infer_response=response)
    answer = stream_answer(error.SerializeToString())
    assert (answer.error, answer.request_id) == ("no such model", "9")


def test_numbers_of_fixed_size_are_passed_over() -> None:
    message = bytes([9 << 3 | 1]) + bytes(8) + bytes([10 << 3 | 5]) + bytes(4) + bytes([6 << 3 | 2, 1]) + b"x"
    assert infer_answer(message).outputs == [b"x"]


@pytest.mark.parametrize("message", [b"\x1a\x05abc", b"\x08\x80", b"\x32"])
def test_a_message_that_is_cut_off_is_refused(message: bytes) -> None:
    with pytest.raises(ValueError, match="beyond the message's end"):
        infer_answer(message)


def test_a_message_travels_behind_its_length() -> None:
    assert framed(b"abc") == b"\0" + struct.pack(">I", 3) + b"abc"
