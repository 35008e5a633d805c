"""A reply points at the model's outputs and writes the rest once."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from infer.backends.api.datatypes import Datatype
from infer.backends.api.errors import InvalidArgument
from infer.backends.api.model_config import ModelConfig, TensorSpec
from infer.backends.api.request import InferenceRequest
from infer.backends.api.response import InferenceResponse
from infer.backends.api.tensor import Tensor
from infer.server.http import reply
from infer.server.http.json_codec import AS_BYTES, AS_JSON, DecodedRequest, OutputWish
from infer.server.http.reply import ReplyWriter
from infer.server.lifecycle.signature import ModelSignature


def writer() -> ReplyWriter:
    config = ModelConfig('m"x', outputs=(TensorSpec("A", Datatype.FP32, (-1,)), TensorSpec("B", Datatype.FP16, (-1,))))
    served: Any = SimpleNamespace(name='m"x', version=2, config=config, signature=ModelSignature(config))
    return ReplyWriter(served)


def decoded(default: OutputWish = AS_JSON, **wishes: OutputWish) -> DecodedRequest:
    return DecodedRequest(InferenceRequest("m", {}), wishes, default)


def outputs() -> InferenceResponse:
    return InferenceResponse(
        {
            "B": Tensor.from_numpy(np.array([1], dtype=np.float16)),
            "A": Tensor.from_numpy(np.array([1, 2], dtype=np.float32)),
        }
    )


def test_tensors_are_sent_from_where_they_lie() -> None:
    response = outputs()
    made = writer().write(response, decoded(AS_BYTES))
    arrays = [response.outputs[name].as_numpy() for name in "BA"]
    assert all(np.shares_memory(view, array) for view, array in zip(made.tail, arrays, strict=True))
    assert made.tail_size == 10
    assert b"".join(made.json) == (
        b'{"model_name":"m\\"x","model_version":"2","outputs":['
        b'{"name":"B","datatype":"FP16","shape":[1],"parameters":{"binary_data_size":2}},'
        b'{"name":"A","datatype":"FP32","shape":[2],"parameters":{"binary_data_size":8}}]}'
    )


def test_only_what_was_asked_for_is_sent_in_the_order_of_the_model() -> None:
    made = writer().write(outputs(), decoded(A=AS_JSON))
    assert b'"outputs":[{"name":"A","datatype":"FP32","shape":[2],"data":[1.0,2.0]}]}' in b"".join(made.json)
    assert made.headers()[0] == (b"Content-Type", b"application/json")


def test_an_output_that_json_cannot_carry_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="sending FP16 data via JSON is not supported"):
        writer().write(outputs(), decoded())


def test_no_outputs_make_an_empty_list() -> None:
    assert writer().write(InferenceResponse(), decoded()).json[0].endswith(b',"outputs":[]}')


def test_parameters_that_the_fast_writer_refuses_are_written_all_the_same() -> None:
    response = InferenceResponse(parameters={"big": 2**70, "text": "\udcff", "flag": True, "ratio": 0.5})
    made = writer().write(response, decoded())
    assert b'"parameters":{"big":%d,"text":"\xff","flag":true,"ratio":0.5}' % 2**70 in made.json[0]


def test_descriptions_are_kept_within_bounds() -> None:
    made = writer()
    for size in range(reply.MAX_TEMPLATES + 10):
        tensor = Tensor(Datatype.UINT8, (size,), bytes(size))
        made.write(InferenceResponse({"A": tensor}), decoded(AS_BYTES))
        made.write(InferenceResponse({"A": tensor}), decoded(A=AS_BYTES))
    assert len(made._described) <= reply.MAX_TEMPLATES
    assert len(made._whole) <= reply.MAX_TEMPLATES


def test_bytes_that_become_json_are_counted_without_the_others() -> None:
    assert reply.json_bytes(outputs(), decoded()) == 10
    assert reply.json_bytes(outputs(), decoded(A=AS_JSON, B=AS_BYTES)) == 8
    assert reply.json_bytes(outputs(), decoded(A=OutputWish(classes=1))) == 0
    assert reply.json_bytes(outputs(), decoded(AS_BYTES)) == 0
