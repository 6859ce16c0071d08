"""Conversions between Python objects and tensors that the engine does not do by itself.

The engine views C-contiguous buffers of numpy's own types directly. Everything else comes here: other layouts, DLPack,
`__array__`, lists and numbers, strings, and the element types of ml_dtypes.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import numpy.typing as npt

from .errors import InvalidInputError, LimitError, UnsupportedError

Array = npt.NDArray[Any]

# Element types by name that are numpy's own.
_NUMPY = {
    name: np.dtype(name)
    for name in (
        *("float16", "float32", "float64", "complex64", "complex128", "bool"),
        *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    )
}
# Element types by name: the type of ml_dtypes and the bits of an element as the engine stores it.
_NARROW = {
    "bfloat16": ("bfloat16", 16),
    "float8e4m3fn": ("float8_e4m3fn", 8),
    "float8e4m3fnuz": ("float8_e4m3fnuz", 8),
    "float8e5m2": ("float8_e5m2", 8),
    "float8e5m2fnuz": ("float8_e5m2fnuz", 8),
    "float8e8m0": ("float8_e8m0fnu", 8),
    "float4e2m1": ("float4_e2m1fn", 4),
    "int2": ("int2", 2),
    "uint2": ("uint2", 2),
    "int4": ("int4", 4),
    "uint4": ("uint4", 4),
}
_OF_NUMPY = {dtype: name for name, dtype in _NUMPY.items()}
_OF_ML_DTYPES = {ml: name for name, (ml, _) in _NARROW.items()}


def numpy_dtype(name: str) -> np.dtype[Any]:
    """The numpy dtype of an element type.

    Raises UnsupportedError for a type of ml_dtypes when that is not installed, and for an unknown name. "string" is
    numpy's object.
    """
    if name in _NUMPY:
        return _NUMPY[name]
    if name == "string":
        return np.dtype(object)
    if name not in _NARROW:
        raise UnsupportedError(f"numpy has no type for elements of type '{name}'")
    try:
        import ml_dtypes
    except ImportError:
        raise UnsupportedError(f"arrays of {name} need the package ml_dtypes: pip install ml_dtypes") from None
    try:
        dtype: np.dtype[Any] = np.dtype(getattr(ml_dtypes, _NARROW[name][0]))
    except AttributeError:
        raise UnsupportedError(f"arrays of {name} need a newer ml_dtypes than {ml_dtypes.__version__}") from None
    return dtype


def dtype_name(dtype: np.dtype[Any]) -> str:
    """The name of a numpy dtype's element type in the engine; "" if it has none. Strings of any kind are "string"."""
    name = _OF_NUMPY.get(dtype.newbyteorder("="))
    if name is None and dtype.kind in "SUT":
        return "string"
    return name or _OF_ML_DTYPES.get(dtype.name, "")


def _as_array(value: object, expected: str, name: str) -> Array:
    """`value` as an array; only lists and numbers take the type that is expected."""
    if isinstance(value, (np.ndarray, np.generic)):
        return np.asarray(value)
    try:
        if hasattr(value, "__dlpack__"):
            return np.from_dlpack(value)
        if hasattr(value, "__array__") or hasattr(value, "__array_interface__"):
            return np.asarray(value)
        if expected == "string" and isinstance(value, (str, bytes, list, tuple)):
            return np.asarray(value, dtype=object)
        if isinstance(value, (bool, int, float, complex, list, tuple)):
            given = np.asarray(value)
            if given.dtype.kind not in "biufc" or not expected:
                return given
            wanted = numpy_dtype(expected)
            if given.size and given.dtype.kind in "fc" and wanted.kind in "iub":
                raise InvalidInputError(f"input '{name}' holds {given.dtype.name} numbers, the model takes {expected}")
            if wanted.kind in "iu" and given.dtype.kind in "iu" and given.size:
                limits = np.iinfo(wanted)
                if int(given.min()) < limits.min or int(given.max()) > limits.max:
                    raise InvalidInputError(f"input '{name}' holds numbers that {expected} can't represent")
            return given.astype(wanted)
        return np.asarray(memoryview(value))  # type: ignore[arg-type]
    except InvalidInputError:
        raise
    except Exception as e:
        raise InvalidInputError(
            f"input '{name}' is a {type(value).__name__}, an array expected"
            f"{' of ' + expected if expected else ''} (DLPack, buffer, __array__, or a list of numbers): {e}"
        ) from None


def _pack(values: npt.NDArray[np.uint8], bits: int) -> npt.NDArray[np.uint8]:
    """Elements of 4 or 2 bits, one a byte -> packed, the first element in the low bits."""
    per_byte = 8 // bits
    padded = np.zeros(-(-values.size // per_byte) * per_byte, np.uint8)
    padded[: values.size] = values & ((1 << bits) - 1)
    out = np.zeros(padded.size // per_byte, np.uint8)
    for i in range(per_byte):
        out |= padded[i::per_byte] << (i * bits)
    return out


def _unpack(packed: npt.NDArray[np.uint8], bits: int, count: int, signed: bool) -> npt.NDArray[np.uint8]:
    per_byte = 8 // bits
    out = np.empty(packed.size * per_byte, np.uint8)
    for i in range(per_byte):
        out[i::per_byte] = (packed >> (i * bits)) & ((1 << bits) - 1)
    if signed:  # the sign's copies fill the byte
        out = np.where(out >> (bits - 1), out | (0xFF << bits & 0xFF), out).astype(np.uint8)
    return out[:count]


def _strings(array: Array, name: str) -> list[bytes]:
    out = []
    for item in array.reshape(-1).tolist():
        if isinstance(item, str):
            item = item.encode("utf-8", "surrogateescape")
        if not isinstance(item, bytes):
            raise InvalidInputError(f"input '{name}' holds a {type(item).__name__}, str or bytes expected")
        out.append(item)
    return out


def flatten(value: object, expected: str, name: str) -> tuple[object, str, tuple[int, ...]]:
    """What the engine reads of an input.

    Returns (data, element type, shape): data is a C-contiguous buffer of the elements as the engine stores them, or a
    list of bytes for strings. `expected` is the model's element type, "" if it is not known. Raises InvalidInputError
    with the input's name for objects that are no array.
    """
    array = _as_array(value, expected, name)
    if array.dtype.kind in "OSUT" and (expected in ("", "string") or array.dtype.kind != "O"):
        return _strings(array, name), "string", array.shape
    if not array.dtype.isnative:
        other = "big" if sys.byteorder == "little" else "little"
        raise InvalidInputError(
            f"input '{name}' is {other}-endian ({array.dtype.str}), native byte order expected: "
            f"x.astype(x.dtype.newbyteorder('='))"
        )
    kind = dtype_name(array.dtype)
    if not kind:
        raise InvalidInputError(
            f"input '{name}' has elements of type {array.dtype}, {expected or 'numbers or strings'} expected"
        )
    try:
        dense = np.ascontiguousarray(array)
    except MemoryError as e:
        raise LimitError(f"input '{name}' is not contiguous, and a copy of it does not fit in memory: {e}") from None
    if kind in _NARROW:
        bits = _NARROW[kind][1]
        if bits < 8:
            return _pack(dense.view(np.uint8).reshape(-1), bits), kind, array.shape
        dense = dense.view(np.uint16 if bits == 16 else np.uint8)
    if dense.ctypes.data % min(dense.itemsize, 8):
        dense = dense.copy()
    return dense, kind, array.shape


def unflatten(data: Any, kind: str, shape: tuple[int, ...]) -> Array:
    """The array of elements that the engine gave: the inverse of `flatten`; it takes `data` over where it can."""
    if kind == "string":
        array = np.empty(len(data), dtype=object)
        array[:] = data
        return array.reshape(shape)
    dtype = numpy_dtype(kind)
    bits = _NARROW[kind][1] if kind in _NARROW else 8
    if bits < 8:
        data = _unpack(data, bits, int(np.prod(shape, dtype=np.int64)), kind.startswith("int"))
    return np.asarray(data).view(dtype).reshape(shape)


class _Memory:
    """Memory of the engine that numpy views; `owner` keeps it alive."""

    def __init__(self, address: int, size: int, owner: object) -> None:
        self.__array_interface__ = {"version": 3, "shape": (size,), "typestr": "|u1", "data": (address, True)}
        self.owner = owner


def view(address: int, kind: str, shape: tuple[int, ...], owner: object) -> Array:
    """A read-only array over the elements at an address that `owner` keeps alive."""
    dtype = numpy_dtype(kind)
    size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    return np.asarray(_Memory(address, size, owner)).view(dtype).reshape(shape)
