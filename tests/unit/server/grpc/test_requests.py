"""Requests that come again are recognised, and read the same as when they came first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from infer.backends.api.errors import Code, Internal, NotFound, Unsupported
from infer.server.grpc import requests as requests_module
from infer.server.grpc.messages import message
from infer.server.grpc.plan import RequestPlan
from infer.server.grpc.requests import MAX_PLANS, RequestReader
from infer.server.grpc.wire_format import field_head
from infer.tests.unit.server.http.conftest import echo, model, spec

if TYPE_CHECKING:
    from infer.server.grpc.codec import Decoded


def seen(decoded: Decoded) -> Any:
    """A request as values, its form aside."""
    request = decoded.request
    inputs = [(name, tensor.datatype, tensor.shape, bytes(tensor.buffer)) for name, tensor in request.inputs.items()]
    rest = (request.model_name, request.model_version, request.request_id, request.requested_outputs)
    more = (request.parameters, request.correlation_id, request.flags, request.priority, request.timeout_us)
    return inputs, rest, more, decoded.version, decoded.classes, decoded.empty_final


def test_the_second_of_two_equal_requests_is_recognised(reader: RequestReader, make: Any) -> None:
    first = reader.read(make.simple().SerializeToString())
    again = make.simple(np.full(16, 7, np.int32)).SerializeToString()
    second, third = reader.read(again), reader.read(again)
    assert first.request.form is None
    assert isinstance(second.request.form, RequestPlan)
    assert second.request.form is third.request.form
    assert second.request.inputs["INPUT0"].as_numpy().tolist() == [[7] * 16]
    assert seen(second) == seen(third)


def test_its_inputs_are_views_of_what_was_received(reader: RequestReader, make: Any) -> None:
    data = make.simple().SerializeToString()
    reader.read(data)
    view = reader.read(data).request.inputs["INPUT1"].buffer
    assert view.obj is data
    assert view == np.ones(16, np.int32).tobytes()


def test_requests_that_differ_in_their_ids_are_of_one_form(reader: RequestReader, make: Any) -> None:
    reader.read(make.simple(id="1").SerializeToString())
    second, third = (reader.read(make.simple(id=text).SerializeToString()) for text in ("22", "1"))
    assert (second.request.request_id, third.request.request_id) == ("22", "1")
    assert second.replies is not None
    without = reader.read(make.simple().SerializeToString())
    assert without.request.request_id == ""
    assert isinstance(without.request.form, RequestPlan)
    assert second.request.form is third.request.form is without.request.form


def test_a_length_that_ids_have_had_is_recognised_without_a_look_at_the_fields(
    reader: RequestReader, make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for text in ("1", "22", "ré", ""):
        reader.read(make.simple(id=text).SerializeToString())

    def cut(_: bytes) -> None:
        pytest.fail("the message is cut once more")

    monkeypatch.setattr(requests_module, "cut_request", cut)
    for text in ("7", "42", "xyz", ""):
        message = make.simple(np.full(16, 5, np.int32), id=text).SerializeToString()
        for data in (message, bytearray(message)):
            decoded = reader.read(data)
            assert decoded.request.request_id == text
            assert isinstance(decoded.request.form, RequestPlan)
            assert decoded.request.inputs["INPUT0"].as_numpy().tolist() == [[5] * 16]


def test_a_request_that_only_begins_and_ends_like_another_is_told_apart(reader: RequestReader, make: Any) -> None:
    one = make.simple(id="1").SerializeToString()
    reader.read(one)
    reader.read(one)
    other = one.replace(b"INPUT1", b"INPUT9")
    assert list(reader.read(other).request.inputs) == ["INPUT0", "INPUT9"]
    assert list(reader.read(one).request.inputs) == ["INPUT0", "INPUT1"]


@pytest.mark.parametrize("times", [0, 1, 2])
def test_an_id_that_is_no_text_is_refused_whether_its_form_is_known_or_not(
    reader: RequestReader, make: Any, times: int
) -> None:
    text = make.simple(id="abc").SerializeToString()
    for _ in range(times):
        reader.read(text)
    with pytest.raises(Internal, match="Unable to parse request"):
        reader.read(text.replace(b"abc", b"a\xff\xfe"))


def test_no_more_lengths_of_ids_are_kept_than_may_be(reader: RequestReader, make: Any) -> None:
    for size in range(MAX_PLANS + 10):
        assert reader.read(make.simple(id="x" * size).SerializeToString()).request.request_id == "x" * size
    assert sum(map(len, reader._by_size.values())) <= MAX_PLANS
    assert len(reader._by_rest) == 1


def test_requests_of_the_same_length_are_told_apart(reader: RequestReader, make: Any, parametrise: Any) -> None:
    texts = [parametrise(make.simple(), {"p": ("string_param", letter)}).SerializeToString() for letter in "abc"]
    for text in texts * 2:
        assert reader.read(text).request.parameters == {"p": chr(text[text.index(b"\x1a\x01") + 2])}


def test_a_recognised_request_has_parameters_of_its_own(reader: RequestReader, make: Any, parametrise: Any) -> None:
    text = parametrise(make.simple(), {"p": ("int64_param", 1)}).SerializeToString()
    reader.read(text)
    reader.read(text).request.parameters["p"] = 2
    assert reader.read(text).request.parameters == {"p": 1}


def test_texts_of_other_lengths_are_another_form(reader: RequestReader, make: Any) -> None:
    def text(content: bytes) -> bytes:
        element = len(content).to_bytes(4, "little") + content
        tensor = make.tensor("INPUT0", "BYTES", 1)
        return make("text", raw=(element,), inputs=[tensor]).SerializeToString()

    reader.read(text(b"a"))
    longer = reader.read(text(b"abc"))
    assert longer.request.form is None
    assert longer.request.inputs["INPUT0"].as_numpy().tolist() == [b"abc"]
    assert isinstance(reader.read(text(b"z")).request.form, RequestPlan)


def test_contents_that_only_differ_in_where_they_are_cut_are_told_apart(reader: RequestReader, make: Any) -> None:
    """Two raw contents of 4 and 8 bytes are as long together as two of 8 and 4."""
    tensors = [make.tensor(name, "INT32", size) for name, size in (("INPUT0", 1), ("INPUT1", 2))]
    one = make(inputs=tensors, raw=(b"a" * 4, b"b" * 8)).SerializeToString()
    other = make(inputs=tensors, raw=(b"a" * 8, b"b" * 4)).SerializeToString()
    assert len(one) == len(other)
    reader.read(one)
    assert [tensor.byte_size for tensor in reader.read(other).request.inputs.values()] == [8, 4]
    assert [tensor.byte_size for tensor in reader.read(one).request.inputs.values()] == [4, 8]


@pytest.mark.parametrize(
    "fields", [{"parameters": {"sequence_id": ("int64_param", 3)}}, {"typed": True}, {"surplus": True}], ids=str
)
def test_what_may_not_be_repeated_is_read_anew(
    reader: RequestReader, make: Any, parametrise: Any, fields: dict[str, Any]
) -> None:
    request = parametrise(make.simple(), fields.get("parameters", {}))
    if "typed" in fields:
        del request.raw_input_contents[:]
        for tensor in request.inputs:
            tensor.contents.int_contents.extend(range(16))
    if "surplus" in fields:
        request.raw_input_contents.append(b"x")
    text = request.SerializeToString()
    reader.read(text)
    assert reader.read(text).request.form is None


def test_a_large_message_is_not_kept(reader: RequestReader, make: Any, parametrise: Any) -> None:
    text = parametrise(make.simple(), {"p": ("string_param", "x" * 3000)}).SerializeToString()
    reader.read(text)
    assert reader.read(text).request.form is None


def test_no_more_plans_are_kept_than_may_be(reader: RequestReader, make: Any, parametrise: Any) -> None:
    for number in range(MAX_PLANS + 10):
        reader.read(parametrise(make.simple(), {"p": ("int64_param", number)}).SerializeToString())
    assert len(reader._by_rest) <= MAX_PLANS
    assert sum(map(len, reader._by_size.values())) <= MAX_PLANS


def test_another_model_of_the_name_makes_a_plan_void(reader: RequestReader, engine: Any, make: Any) -> None:
    text = make.simple().SerializeToString()
    reader.read(text)
    old = engine.models["simple"]
    new = model("simple", list(old.config.inputs), list(old.config.outputs), 8)
    engine.add(new, echo)
    assert reader.read(text).facts.model is new
    assert reader.read(text).facts.model is new
    assert isinstance(reader.read(text).request.form, RequestPlan)


def test_a_model_that_is_gone_is_not_found(reader: RequestReader, engine: Any, make: Any) -> None:
    for request in (make.simple(), make.simple(id="1")):
        reader.read(request.SerializeToString())
    del engine.models["simple"]
    for request in (make.simple(), make.simple(id="1")):
        with pytest.raises(NotFound, match="Request for unknown model: 'simple' is not found"):
            reader.read(request.SerializeToString())


@pytest.mark.parametrize("request_id", ["", "7"])
def test_a_decoupled_model_is_refused_outside_a_stream(reader: RequestReader, make: Any, request_id: str) -> None:
    data = make.one("decoupled", [1], id=request_id).SerializeToString()
    for _ in range(2):
        with pytest.raises(Unsupported, match="ModelInfer RPC doesn't support models with decoupled"):
            reader.read(data)
        assert reader.read(data, streamed=True).facts.decoupled


@pytest.mark.parametrize(
    "data", [b"\xff\xff\xff", b"\x0a\x01\xff", b"\x1a\x01\xff", b"\x0a\x05ab", b"\x08\x01\xff"], ids=str
)
def test_rubbish_is_refused(reader: RequestReader, data: bytes) -> None:
    with pytest.raises(Internal, match="Unable to parse request") as caught:
        reader.read(data)
    assert caught.value.code is Code.INTERNAL


def test_an_unusual_writing_is_read_by_protobuf(reader: RequestReader, make: Any) -> None:
    data = make.simple().SerializeToString()
    twice = field_head(3, 1) + b"a" + data + field_head(3, 1) + b"b"
    assert seen(reader.read(twice))[1] == ("simple", None, "b", ())
    unknown = data + b"\x98\x06\x01"
    assert seen(reader.read(unknown)) == seen(reader.read(data))


def test_contents_before_everything_else_are_found(reader: RequestReader, make: Any) -> None:
    whole = make.simple()
    rest = make.simple()
    del rest.raw_input_contents[:]
    first = message("ModelInferRequest")(raw_input_contents=whole.raw_input_contents)
    data = first.SerializeToString() + rest.SerializeToString()
    for _ in range(2):
        assert seen(reader.read(data)) == seen(RequestReader(reader._engine).read(whole.SerializeToString()))


def test_the_id_of_what_could_not_be_read_is_known(reader: RequestReader, make: Any) -> None:
    assert reader.request_id(make("nope", id="9").SerializeToString()) == "9"
    assert reader.request_id(field_head(3, 1) + b"a" + field_head(3, 1) + b"b") == "b"
    assert reader.request_id(b"\xff\xff") == ""


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(
    st.text(max_size=3),
    st.dictionaries(st.sampled_from("abc"), st.integers(-5, 5), max_size=2),
    st.lists(st.sampled_from(["OUTPUT0", "OUTPUT1"]), unique=True),
    st.binary(min_size=64, max_size=64),
)
def test_a_plan_reads_what_protobuf_reads(
    engine: Any, make: Any, request_id: str, given_parameters: dict[str, int], outputs: list[str], content: bytes
) -> None:
    """Read twice by one reader, the second time by plan, and once by a reader that knows nothing."""
    request = make.simple(id=request_id, outputs=[{"name": name} for name in outputs])
    for key, value in given_parameters.items():
        request.parameters[key].int64_param = value
    reader = RequestReader(engine)
    reader.read(request.SerializeToString())
    request.raw_input_contents[1] = content
    data = request.SerializeToString()
    assert seen(reader.read(data)) == seen(RequestReader(engine).read(data))


def test_names_and_shapes_come_from_the_plan(reader: RequestReader, engine: Any, make: Any) -> None:
    engine.add(model("three", [spec(f"INPUT{n}", "INT8", -1) for n in range(3)], [spec("OUTPUT0", "INT8", -1)]), echo)
    tensors = [make.tensor(f"INPUT{n}", "INT8", n) for n in range(3)]
    data = make("three", inputs=tensors, raw=(b"", b"a", b"bc")).SerializeToString()
    assert seen(reader.read(data)) == seen(reader.read(data))
    assert [tensor.shape for tensor in reader.read(data).request.inputs.values()] == [(0,), (1,), (2,)]
