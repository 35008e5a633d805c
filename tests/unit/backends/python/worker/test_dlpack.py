"""DLPack in both directions: lifetimes, types that numpy does not have, and what is refused."""

from __future__ import annotations

import gc
import sys
import weakref
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from infer.backends.python.worker.errors import TritonModelException
from infer.backends.python.worker.tensor import Tensor

torch = pytest.importorskip("torch")

if TYPE_CHECKING:
    from collections.abc import Callable

DTYPES = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64", "bfloat16")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(2, 3), (), (0,), (2, 0, 3)])
@pytest.mark.parametrize("take", [lambda tensor: tensor, torch.utils.dlpack.to_dlpack], ids=["object", "capsule"])
def test_a_tensor_of_torch_is_taken_over_and_given_back_without_a_copy(
    dtype: str, shape: tuple[int, ...], take: Callable[[Any], Any]
) -> None:
    theirs = torch.ones(shape, dtype=getattr(torch, dtype))
    ours = Tensor.from_dlpack("x", take(theirs))
    assert (ours.name(), ours.shape()) == ("x", list(shape))
    for again in (torch.from_dlpack(ours), torch.utils.dlpack.from_dlpack(ours.to_dlpack())):
        assert again.dtype == theirs.dtype
        assert torch.equal(again, theirs)
        if theirs.numel():
            assert again.data_ptr() == theirs.data_ptr()


def test_bfloat16_is_its_own_datatype_and_has_no_numpy_array() -> None:
    tensor = Tensor.from_dlpack("x", torch.tensor([1.0, 2.0], dtype=torch.bfloat16))
    assert (tensor.datatype(), tensor.triton_dtype()) == ("BF16", 14)
    assert tensor.wire()[0] == ("x", "BF16", (2,), 4)
    assert bytes(tensor.wire()[1]).hex() == "803f0040"
    with pytest.raises(TritonModelException, match="dtype is BF16 and cannot be converted to NumPy; use to_dlpack"):
        tensor.as_numpy()


def test_a_capsule_holds_one_reference_to_its_tensor_until_it_is_deleted() -> None:
    for tensor in (
        Tensor("x", np.ones(3, np.float32)),
        Tensor.from_dlpack("x", torch.ones(3, dtype=torch.bfloat16)),
    ):
        before = sys.getrefcount(tensor)
        capsule = tensor.to_dlpack()
        assert sys.getrefcount(tensor) == before + 1
        del capsule
        assert sys.getrefcount(tensor) == before
        taken = torch.from_dlpack(tensor)
        assert sys.getrefcount(tensor) == before + 1
        del taken
        assert sys.getrefcount(tensor) == before


def test_memory_lives_as_long_as_who_took_it_over() -> None:
    array = np.arange(1000, dtype=np.float64)
    gone = weakref.ref(array)
    tensor = Tensor("x", array)
    taken = torch.from_dlpack(tensor)
    del array, tensor
    gc.collect()
    assert gone() is not None
    assert taken.sum().item() == 499_500
    del taken
    assert gone() is None
    theirs = torch.full((1000,), 7.0)
    view = Tensor.from_dlpack("x", theirs).as_numpy()
    del theirs
    gc.collect()
    assert (view == 7).all()


def test_what_was_taken_over_may_be_written_to_by_both() -> None:
    theirs = torch.zeros(3)
    ours = Tensor.from_dlpack("x", theirs).as_numpy()
    ours[0] = 1
    theirs[1] = 2
    assert ours.tolist() == theirs.tolist() == [1, 2, 0]
    fixed = Tensor("x", np.frombuffer(b"abc", np.uint8))
    assert torch.from_dlpack(fixed).tolist() == [97, 98, 99]


def test_dimensions_of_one_do_not_make_a_tensor_scattered() -> None:
    assert Tensor.from_dlpack("x", torch.zeros(3, 1, 4).transpose(0, 1)).shape() == [1, 3, 4]
    assert Tensor.from_dlpack("x", torch.zeros(3, 0, 4).transpose(0, 2)).shape() == [4, 0, 3]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Tensor.from_dlpack("", None), "needs a name and a DLPack capsule"),
        (lambda: Tensor.from_dlpack("x", None), "needs a name and a DLPack capsule"),
        (lambda: Tensor.from_dlpack("", torch.zeros(1)), "needs a name"),
        (lambda: Tensor.from_dlpack("x", [1]), "needs a name and a DLPack capsule"),
        (
            lambda: Tensor.from_dlpack("x", torch.rand(20, 30).T),
            (
                "^DLPack tensor is not contiguous. Only contiguous DLPack tensors that are stored in C-Order are "
                "supported.$"
            ),
        ),
        (lambda: Tensor.from_dlpack("x", torch.zeros(2, 2, dtype=torch.bfloat16).T), "is not contiguous"),
        (lambda: Tensor.from_dlpack("x", torch.zeros(2, dtype=torch.complex64)), "Unsupported NumPy dtype 'complex64'"),
        (lambda: Tensor.from_dlpack("x", torch.zeros(2, requires_grad=True)), "'x' cannot be taken over"),
        (lambda: Tensor("x", np.array([b"a"], np.object_)).to_dlpack(), "^DLPack does not have support for string t"),
        (lambda: Tensor("x", np.array([b"a"])).__dlpack__(), "does not have support for string tensors"),
    ],
)
def test_what_cannot_be_exchanged_is_refused(make: Callable[[], Any], words: str) -> None:
    with pytest.raises(TritonModelException, match=words):
        make()


def test_a_capsule_is_taken_once() -> None:
    capsule = Tensor("x", np.ones(1)).to_dlpack()
    assert Tensor.from_dlpack("y", capsule).as_numpy() == [1]
    with pytest.raises(TritonModelException, match="it was taken before"):
        Tensor.from_dlpack("y", capsule)


def test_a_tensor_is_taken_from_a_tensor_and_from_numpy() -> None:
    array = np.array([True, False])
    again = Tensor.from_dlpack("y", Tensor("x", array))
    assert np.shares_memory(again.as_numpy(), array)
    assert np.shares_memory(Tensor.from_dlpack("y", array).as_numpy(), array)
    assert again.__dlpack_device__() == (1, 0)


def test_a_versioned_capsule_is_read_as_well() -> None:
    capsule = np.ones(2, np.float32).__dlpack__(max_version=(1, 0))
    assert Tensor.from_dlpack("x", capsule).as_numpy().tolist() == [1, 1]
