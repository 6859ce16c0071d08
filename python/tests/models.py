"""Small models that the tests make byte by byte, so that they need no exporter."""

from __future__ import annotations

import base64
from collections.abc import Sequence

# Element types of ONNX by name.
ONNX_TYPES = {
    "float32": 1, "uint8": 2, "int8": 3, "uint16": 4, "int16": 5, "int32": 6, "int64": 7, "string": 8, "bool": 9,
    "float16": 10, "float64": 11, "uint32": 12, "uint64": 13, "complex64": 14, "complex128": 15, "bfloat16": 16,
    "float8e4m3fn": 17, "float8e4m3fnuz": 18, "float8e5m2": 19, "float8e5m2fnuz": 20, "uint4": 21, "int4": 22,
    "float4e2m1": 23,
}  # fmt: skip


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _field(number: int, value: bytes | str | int) -> bytes:
    """A field of a protocol buffer: a number as varint, anything else by its length."""
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    data = value.encode() if isinstance(value, str) else value
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def _value_info(name: str, dtype: str, shape: Sequence[int | str] | None) -> bytes:
    tensor = _field(1, ONNX_TYPES[dtype])
    if shape is not None:
        dims = b"".join(_field(1, _field(1, d) if isinstance(d, int) else _field(2, d)) for d in shape)
        tensor += _field(2, dims)
    return _field(1, name) + _field(2, _field(1, tensor))


Value = tuple[str, str, Sequence[int | str] | None]


def onnx_model(
    nodes: Sequence[tuple[str, Sequence[str], Sequence[str]]],
    inputs: Sequence[Value],
    outputs: Sequence[Value],
    opset: int = 21,
) -> bytes:
    """An ONNX model of nodes (operator, inputs, outputs) without attributes; values are (name, type, shape)."""
    graph = b"".join(
        _field(1, b"".join(_field(1, n) for n in ins) + b"".join(_field(2, n) for n in outs) + _field(4, op))
        for op, ins, outs in nodes
    )
    graph += _field(2, "g")
    graph += b"".join(_field(11, _value_info(*v)) for v in inputs)
    graph += b"".join(_field(12, _value_info(*v)) for v in outputs)
    metadata = _field(14, _field(1, "author") + _field(2, "tests"))
    return _field(1, 10) + _field(2, "smelt-tests") + _field(8, _field(2, opset)) + _field(7, graph) + metadata


def relu_onnx(shape: Sequence[int | str] = (1, 64)) -> bytes:
    """y = max(x, 0) of float32."""
    return onnx_model([("Relu", ["x"], ["y"])], [("x", "float32", shape)], [("y", "float32", shape)])


def identity_onnx(dtype: str, shape: Sequence[int | str] | None = ("n",)) -> bytes:
    """y = x in an element type."""
    return onnx_model([("Identity", ["x"], ["y"])], [("x", dtype, shape)], [("y", dtype, shape)])


# y = RELU(x) of float32[1,64], written by flatc from schemas/tflite.fbs.
_RELU_TFLITE = (
    "CAAAAFRGTDPC////AwAAAAABAAAoAAAAGAAAAAQAAAABAAAACAAAAAQABAAEAAAABAAAAHJlbHUAAAAAAQAAABQAAAAAAA4AGAAE"
    "AAgADAAQABQADgAAAGAAAABUAAAASAAAABQAAAAEAAAABAAAAG1haW4AAAAAAQAAABAAAAAAAAoADAAAAAQACAAKAAAAEAAAAAQA"
    "AAABAAAAAQAAAAEAAAAAAAAAAQAAAAEAAAABAAAAAAAAAAIAAAA0AAAABAAAAOD///8QAAAABAAAAAEAAAB5AAAAAgAAAAEAAABA"
    "AAAADAAMAAQAAAAAAAgADAAAABAAAAAEAAAAAQAAAHgAAAACAAAAAQAAAEAAAAABAAAAEAAAAAwADAAHAAAAAAAIAAwAAAAAAAAT"
    "EwAAAA=="
)


def relu_tflite() -> bytes:
    """y = max(x, 0) of float32[1, 64]."""
    return base64.b64decode(_RELU_TFLITE)
