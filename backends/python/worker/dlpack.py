"""DLPack both ways, for what numpy does alone and for bfloat16, which it does not have.

numpy makes and reads the capsules. For bfloat16 it is shown 16-bit integers over the same memory, and the type in the
capsule's own structure is changed before anybody else reads it. Layouts: ``dlpack.h`` of DLPack 0.8 and 1.0.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

CONSUMER_ERRORS = (BufferError, RuntimeError, TypeError, ValueError, AttributeError)
"""What other libraries raise for a tensor that they do not export."""

_BFLOAT, _INT = 4, 0
_NAMES = (b"dltensor", b"dltensor_versioned")
_TYPE_OFFSETS = (20, 52)
"""Where the type is: after data (8), device (8) and ndim (4), in a versioned one with 32 bytes before them."""


class Memory:
    """Memory as numpy takes it over: the array that is made of it keeps ``owner`` alive and may be written to."""

    __slots__ = ("__array_interface__", "owner")

    def __init__(self, owner: object, array: NDArray[Any], shape: tuple[int, ...], typestr: str) -> None:
        self.owner = owner
        address = array.__array_interface__["data"][0]
        self.__array_interface__ = {"data": (address, False), "shape": shape, "typestr": typestr, "version": 3}


def exported(owner: object, array: NDArray[Any], **options: Any) -> Any:  # noqa: ANN401  a PyCapsule
    """A capsule over the array's memory that holds one reference to ``owner`` until it is deleted."""
    return np.asarray(Memory(owner, array, array.shape, array.dtype.str)).__dlpack__(**options)


def exported_bfloat16(owner: object, data: NDArray[np.uint8], shape: tuple[int, ...], **options: Any) -> Any:  # noqa: ANN401  a PyCapsule
    """The same over the bytes of bfloat16 elements."""
    capsule = np.asarray(Memory(owner, data, shape, "<i2")).__dlpack__(**options)
    _type_of(capsule).code = _BFLOAT
    return capsule


def imported(source: Any) -> tuple[NDArray[Any], bool]:  # noqa: ANN401  anything that speaks DLPack
    """An array over another library's memory, and whether its elements are bfloat16 (shown as int16).

    Raises one of CONSUMER_ERRORS.
    """
    capsule = source if type(source).__name__ == "PyCapsule" else source.__dlpack__()
    kind = _type_of(capsule)
    if kind.lanes != 1:
        msg = f"elements of {kind.lanes} lanes are not supported"
        raise BufferError(msg)
    is_bfloat16 = (kind.code, kind.bits) == (_BFLOAT, 16)
    if is_bfloat16:
        kind.code = _INT
    array = np.from_dlpack(_Bare(capsule))
    if not array.flags.writeable:
        array = np.asarray(Memory(array, array, array.shape, array.dtype.str)) if array.flags.c_contiguous else array
    return array, is_bfloat16


class _Bare:
    """A capsule, dressed as an object that exports it."""

    def __init__(self, capsule: Any) -> None:  # noqa: ANN401  a PyCapsule
        self._capsule = capsule

    def __dlpack__(self, **_: Any) -> Any:  # noqa: ANN401  a PyCapsule
        return self._capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


class _DataType(ctypes.Structure):
    _fields_ = (("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16))


_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_IsValid", ctypes.pythonapi))
_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


def _type_of(capsule: Any) -> Any:  # noqa: ANN401  ctypes
    """The type of the elements in a capsule that nobody has taken yet. Raises ValueError for another one."""
    for name, offset in zip(_NAMES, _TYPE_OFFSETS):
        if _is_valid(capsule, name):
            return _DataType.from_address(_pointer(capsule, name) + offset)
    msg = "the capsule holds no tensor, or it was taken before"
    raise ValueError(msg)
