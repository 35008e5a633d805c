from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from infer.backends.api.datatypes import Datatype
from infer.backends.api.errors import InvalidArgument, Unsupported
from infer.backends.api.tensor import HOST, PINNED, Device, Tensor

_numeric = st.sampled_from(["bool", "uint8", "uint16", "uint64", "int8", "int32", "float16", "float32", "float64"])


@given(_numeric.flatmap(lambda name: hnp.arrays(np.dtype(name), hnp.array_shapes(min_dims=0, max_dims=4, min_side=0))))
def test_an_array_becomes_a_tensor_and_comes_back(array: Any) -> None:
    tensor = Tensor.from_numpy(array)
    back = tensor.as_numpy()
    assert back.dtype == array.dtype
    assert back.shape == array.shape
    assert tensor.byte_size == array.nbytes
    assert tensor.element_count == array.size
    assert back.tobytes() == array.tobytes()


def test_a_contiguous_array_is_not_copied_and_others_are() -> None:
    array = np.arange(6, dtype=np.int32).reshape(2, 3)
    assert np.shares_memory(Tensor.from_numpy(array).as_numpy(), array)
    columns = Tensor.from_numpy(array.T)
    assert columns.as_numpy().tolist() == [[0, 3], [1, 4], [2, 5]]
    assert not np.shares_memory(columns.as_numpy(), array)


def test_bf16_and_bytes_have_their_wire_form_in_the_buffer() -> None:
    bf16 = Tensor.from_numpy(np.array([1.0], ml_dtypes.bfloat16))
    assert (bf16.datatype, bytes(bf16.view)) == (Datatype.BF16, b"\x80\x3f")
    text = Tensor.from_numpy(np.array([[b"a", b""]], dtype=object))
    assert (text.datatype, bytes(text.view)) == (Datatype.BYTES, b"\x01\x00\x00\x00a\x00\x00\x00\x00")
    assert text.as_numpy().tolist() == [[b"a", b""]]


def test_an_array_over_a_read_only_buffer_is_read_only() -> None:
    assert not Tensor(Datatype.UINT8, (2,), b"ab").as_numpy().flags.writeable
    assert Tensor(Datatype.UINT8, (2,), bytearray(b"ab")).as_numpy().flags.writeable


@pytest.mark.parametrize(
    "tensor",
    [
        Tensor(Datatype.INT32, (2,), bytes(7)),
        Tensor(Datatype.INT32, (2,), bytes(12)),
        Tensor(Datatype.BYTES, (1,), b"\x09\x00\x00\x00a"),
        Tensor(Datatype.BYTES, (2,), b"\x01\x00\x00\x00a"),
    ],
)
def test_a_buffer_that_does_not_hold_the_shape_is_refused_with_both(tensor: Tensor) -> None:
    with pytest.raises(InvalidArgument, match=rf"buffer of {tensor.byte_size} bytes does not hold shape \["):
        tensor.as_numpy()


def test_a_dtype_without_a_wire_form_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="numpy dtype '<U1' has no tensor datatype"):
        Tensor.from_numpy(np.array(["a"]))


def test_release_is_called_once_however_often_it_is_asked_for() -> None:
    calls: list[str] = []
    tensor = Tensor(Datatype.UINT8, (1,), b"a", release=lambda: calls.append("released"))
    tensor.release()
    tensor.release()
    assert calls == ["released"]


def test_bytes_of_another_device_cannot_be_viewed_and_pinned_memory_can() -> None:
    with pytest.raises(Unsupported, match="tensor lives on device 2:1; copy it to the host first"):
        _ = Tensor(Datatype.UINT8, (1,), b"a", device=Device(2, 1)).view
    assert bytes(Tensor(Datatype.UINT8, (1,), b"a", device=PINNED).view) == b"a"
    assert HOST.is_host


def test_dlpack_goes_both_ways_without_a_copy_of_writable_memory() -> None:
    buffer = bytearray(np.arange(4, dtype=np.float32).tobytes())
    tensor = Tensor(Datatype.FP32, (2, 2), buffer)
    assert tensor.__dlpack_device__() == (1, 0)
    array = np.from_dlpack(tensor)
    assert array.tolist() == [[0.0, 1.0], [2.0, 3.0]]
    buffer[:4] = np.float32(9).tobytes()
    assert array[0, 0] == 9.0
    assert Tensor.from_dlpack(array).as_numpy().tolist() == array.tolist()


def test_dlpack_copies_read_only_memory() -> None:
    assert np.from_dlpack(Tensor(Datatype.UINT8, (2,), b"ab")).tolist() == [97, 98]


@pytest.mark.parametrize("datatype", [Datatype.BYTES, Datatype.BF16])
def test_dlpack_refuses_what_it_has_no_form_for(datatype: Datatype) -> None:
    with pytest.raises(Unsupported, match=f"does not have support for {datatype} tensors"):
        Tensor(datatype, (0,), b"").__dlpack__()


def test_an_object_that_speaks_no_dlpack_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="does not export a host tensor through DLPack"):
        Tensor.from_dlpack(object())


def test_a_big_endian_array_travels_little_endian() -> None:
    tensor = Tensor.from_numpy(np.array([1, 256], dtype=">i4"))
    assert bytes(tensor.view) == b"\1\0\0\0\0\1\0\0"
    assert tensor.as_numpy().tolist() == [1, 256]
