"""Every kind of request and response goes through frames and comes back equal."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from infer.backends.api.datatypes import Datatype
from infer.backends.api.errors import BackendFailure, Cancelled, Code, InferError, Unsupported
from infer.backends.api.request import InferenceRequest
from infer.backends.api.response import InferenceResponse
from infer.backends.api.tensor import Device, Tensor
from infer.backends.python import codec
from infer.backends.python.worker import datatypes, frames, parcels
from infer.backends.python.worker.frames import FrameError, Kind
from infer.backends.python.worker.parcels import Layout, Signatures


def sample(datatype: Datatype, shape: tuple[int, ...]) -> Tensor:
    count = int(np.prod(shape))
    if datatype is Datatype.BYTES:
        elements = np.array([b"x" * n for n in range(count)], dtype=np.object_).reshape(shape)
        return Tensor.from_numpy(elements)
    if datatype is Datatype.BOOL:
        return Tensor(datatype, shape, bytes(n % 2 for n in range(count)))
    return Tensor(datatype, shape, bytes(n % 256 for n in range(count * datatype.itemsize)))


def through(entry: parcels.Entry) -> tuple[parcels.Item, bytearray]:
    payload = bytearray(parcels.pack(Kind.EXECUTE, 1, [entry])[frames.HEADER.size :])
    return parcels.unpack(payload, Signatures()).items[0], payload


def request_again(request: InferenceRequest) -> InferenceRequest:
    return codec.read_request(*through(codec.request_entry(1, request, Signatures())))


def response_again(response: InferenceResponse) -> InferenceResponse:
    return codec.read_response(*through(codec.response_entry(1, response, Signatures())))


def content(tensors: dict[str, Tensor]) -> dict[str, Any]:
    return {name: (tensor.datatype, tensor.shape, bytes(tensor.view)) for name, tensor in tensors.items()}


SHAPES = [(), (0,), (1,), (3, 0, 2), (2, 3)]
TENSORS = [sample(datatype, shape) for datatype, shape in itertools.product(Datatype, SHAPES)]


@pytest.mark.parametrize("tensor", TENSORS, ids=repr)
def test_every_datatype_in_every_shape_comes_back_equal(tensor: Tensor) -> None:
    request = InferenceRequest("m", {"x": tensor, "y": sample(Datatype.INT8, (5,))})
    again = request_again(request)
    assert content(again.inputs) == content(request.inputs)
    answer = response_again(InferenceResponse({"x": tensor}))
    assert content(answer.outputs) == {"x": content(request.inputs)["x"]}


REQUESTS = [
    InferenceRequest("m", {}),
    InferenceRequest("m", {}, model_version=4, request_id="id ✓", requested_outputs=("a", "b"), batch_size=3),
    InferenceRequest("m", {}, parameters={"s": "", "i": -(2**63), "u": 2**64 - 1, "b": False, "f": 1e300}),
    InferenceRequest("m", {}, correlation_id=2**64 - 1, flags=3, priority=2**40, timeout_us=5),
    InferenceRequest("m", {}, correlation_id="séquence", request_id="x" * 100_000),
    InferenceRequest('quo"ted\\', {'n"ame': sample(Datatype.FP32, (2,))}, request_id="\x00\n"),
]


@pytest.mark.parametrize("request_", REQUESTS, ids=range(len(REQUESTS)))
def test_every_field_of_a_request_comes_back_equal(request_: InferenceRequest) -> None:
    again = request_again(request_)
    assert content(again.inputs) == content(request_.inputs)
    again.inputs = request_.inputs
    assert again == request_
    assert [type(value) for value in again.parameters.values()] == [type(v) for v in request_.parameters.values()]


@pytest.mark.parametrize("final", [True, False])
@pytest.mark.parametrize("parameters", [{}, {"a": 1, "b": True, "c": "x", "d": 0.1}])
def test_every_field_of_a_response_comes_back_equal(final: bool, parameters: dict[str, Any]) -> None:
    response = InferenceResponse({"x": sample(Datatype.FP16, (3,))}, parameters, final=final)
    again = response_again(response)
    assert (again.final, again.parameters, again.error) == (final, parameters, None)
    assert content(again.outputs) == content(response.outputs)


def test_an_empty_final_response_stays_empty() -> None:
    assert response_again(InferenceResponse()).is_empty


@pytest.mark.parametrize("code", Code)
def test_an_error_keeps_code_and_text(code: Code) -> None:
    again = response_again(InferenceResponse(error=InferError("größer", code=code))).error
    assert isinstance(again, Cancelled if code is Code.CANCELLED else BackendFailure)
    assert (again.code, again.message) == (code, "größer")


def test_an_unknown_code_is_unknown() -> None:
    assert codec.error_of(200, "x").code is Code.UNKNOWN


def test_many_requests_share_one_frame() -> None:
    signatures = Signatures()
    requests = [InferenceRequest("m", {"x": tensor}, request_id=str(n)) for n, tensor in enumerate(TENSORS)]
    entries = [codec.request_entry(n, request, signatures) for n, request in enumerate(requests)]
    payload = bytearray(parcels.pack(Kind.EXECUTE, 1, entries)[frames.HEADER.size :])
    again = [codec.read_request(item, payload) for item in parcels.unpack(payload, Signatures()).items]
    assert [(each.request_id, content(each.inputs)) for each in again] == [
        (each.request_id, content(each.inputs)) for each in requests
    ]


def test_requests_of_one_form_have_ids_and_contents_of_their_own() -> None:
    signatures, form = Signatures(), object()
    tensors = [Tensor(Datatype.INT8, (2,), content) for content in (b"ab", b"cd", b"ef")]
    for tensor, text in zip(tensors, ("1", "größe", ""), strict=True):
        request = InferenceRequest("m", {"x": tensor}, request_id=text, form=form)
        again = codec.read_request(*through(codec.request_entry(1, request, signatures)))
        assert (again.request_id, content(again.inputs)) == (text, content(request.inputs))


def test_a_tensor_on_another_device_is_refused_by_name() -> None:
    request = InferenceRequest("m", {"x": Tensor(Datatype.INT8, (1,), b"\0", device=Device(2, 1))})
    with pytest.raises(Unsupported, match="tensor 'x' is on device 2:1"):
        codec.request_entry(1, request, Signatures())


@pytest.mark.parametrize("row", [("x", "INT64", (2,), 15), ("x", "COMPLEX", (1,), 8)])
def test_a_tensor_whose_size_or_type_makes_no_sense_is_refused(row: tuple[Any, ...]) -> None:
    entry = parcels.Entry(1, Layout((), (row,)), [bytes(row[3])])
    with pytest.raises(FrameError, match="tensor 'x'"):
        codec.read_response(*through(entry))


def test_a_request_that_names_no_model_is_refused() -> None:
    with pytest.raises(FrameError, match="does not name its model"):
        codec.read_request(*through(parcels.Entry(1, Layout((), ()), [])))


def test_the_workers_table_of_datatypes_is_the_servers() -> None:
    for name, config_name, number, kind in datatypes.TABLE:
        datatype = Datatype.from_config(config_name)
        assert (datatype.value, datatype.number, datatype.numpy) == (name, number, np.dtype(kind))
    assert {each.value: each.itemsize for each in Datatype if each.itemsize} == datatypes.ITEM_SIZES
    assert {each.value: each.number for each in Datatype} == datatypes.NUMBERS


def test_requests_of_one_layout_are_of_one_form_unless_they_carry_more_than_tensors() -> None:
    sender, receiver = Signatures(), Signatures()

    def form(**more: Any) -> object | None:
        request = InferenceRequest("m", {"x": sample(Datatype.FP32, (2,))}, **more)
        entry = codec.request_entry(1, request, sender)
        payload = bytearray(parcels.pack(Kind.CALL, 1, [entry])[frames.HEADER.size :])
        return codec.read_request(parcels.unpack(payload, receiver).items[0], payload).form

    plain = form()
    assert plain is not None
    assert form() is plain
    assert form(request_id="another") is plain
    assert form(requested_outputs=("y",)) is not plain
    assert form(parameters={"a": 1}) is None
    assert form(flags=1, correlation_id=5) is None


def test_a_response_of_a_known_form_is_sent_with_its_own_contents_and_parameters() -> None:
    signatures, form = Signatures(), object()
    for number in (1, 2):
        tensor = Tensor(Datatype.UINT8, (2,), bytes([number, number]))
        entry = codec.response_entry(1, InferenceResponse({"x": tensor}, form=form, final=number == 2), signatures)
        again = codec.read_response(*through(entry))
        assert (content(again.outputs)["x"], again.final) == ((Datatype.UINT8, (2,), bytes([number] * 2)), number == 2)
    words = InferenceResponse({"x": tensor}, {"a": 1}, form=form)
    assert codec.read_response(*through(codec.response_entry(1, words, signatures))).parameters == {"a": 1}
