"""Conversions between Python objects and tensors, and what happens to objects that are none."""

from __future__ import annotations

import array
from typing import Any

import numpy as np
import pytest
import smelt
from models import ONNX_TYPES, identity_onnx, onnx_model, relu_onnx

NUMPY_TYPES = [t for t in ONNX_TYPES if t in np.sctypeDict or t == "bool"]
NARROW = {
    "bfloat16": "bfloat16",
    "float8e4m3fn": "float8_e4m3fn",
    "float8e4m3fnuz": "float8_e4m3fnuz",
    "float8e5m2": "float8_e5m2",
    "float8e5m2fnuz": "float8_e5m2fnuz",
    "float4e2m1": "float4_e2m1fn",
    "int4": "int4",
    "uint4": "uint4",
}


@pytest.mark.parametrize("dtype", [t for t in NUMPY_TYPES if t != "string"])
def test_every_numpy_type(dtype: str) -> None:
    a = np.random.default_rng(0).integers(0, 2, (3, 5)).astype(dtype)
    model = smelt.load(identity_onnx(dtype, ("a", "b")))
    for given in (a, np.asfortranarray(a), np.repeat(a, 2, axis=1)[:, ::2], a[::-1][::-1], memoryview(a)):
        (y,) = model(given)
        assert y.dtype == a.dtype
        np.testing.assert_array_equal(y, a)


@pytest.mark.parametrize("dtype", NARROW)
def test_every_narrow_type(dtype: str) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    kind = getattr(ml_dtypes, NARROW[dtype])
    values = [0, 1, 2, 3, 4, 6] + ([-1, -4] if dtype != "uint4" else [7])
    a = np.array(values, np.float32).astype(kind)
    model = smelt.load(identity_onnx(dtype))
    for n in (8, 7, 1, 0):
        (y,) = model(a[:n])
        assert y.dtype == a.dtype
        assert y.astype(np.float32).tolist() == values[:n]
        (view,) = model.session().view(a[:n])
        assert view.astype(np.float32).tolist() == values[:n]


def test_strings() -> None:
    model = smelt.load(identity_onnx("string"))
    for given in (["a", "ä€"], np.array(["a", "ä€"]), np.array(["a", "ä€"], object), ("a", "ä€".encode())):
        (y,) = model(given)
        assert y.dtype == object
        assert y.tolist() == ["a", "ä€"]
    (y,) = model(np.array([b"\xff"]))
    assert y[0].encode("utf-8", "surrogateescape") == b"\xff"


class OnlyArray:
    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return np.array([1, -1], np.float32)


class OnlyDlpack:
    def __init__(self) -> None:
        self.array = np.array([1, -1], np.float32)

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()


def test_protocols() -> None:
    model = smelt.load(relu_onnx(("n",)))
    for given in (
        array.array("f", [1, -1]),
        OnlyArray(),
        OnlyDlpack(),
        [1, -1],
        (1.0, -1.0),
        memoryview(np.array([1, -1], np.float32)),
    ):
        np.testing.assert_array_equal(model(given)[0], [1, 0])
    torch = pytest.importorskip("torch")
    np.testing.assert_array_equal(model(torch.tensor([1.0, -1.0]))[0], [1, 0])


def test_unaligned_data() -> None:
    raw = np.zeros(4 * 5 + 1, np.uint8)
    a = raw[1:].view(np.float32)
    a[:] = [1, -1, 2, -2, 3]
    np.testing.assert_array_equal(smelt.load(relu_onnx(("n",)))(a)[0], [1, 0, 2, 0, 3])


def test_lists_take_the_models_type() -> None:
    model = smelt.load(identity_onnx("int8"))
    assert model([1, -2])[0].dtype == np.int8
    for wrong in ([1.5], [300], ["1"], [None], [[1], [2, 3]], [1j]):
        with pytest.raises(smelt.InvalidInputError, match="'x'"):
            model(wrong)


def test_large_arrays() -> None:
    a = np.random.default_rng(0).standard_normal((2048, 1024), np.float32)
    np.testing.assert_array_equal(smelt.load(relu_onnx(("a", "b")))(a)[0], np.maximum(a, 0))


def test_sequences() -> None:
    nodes = [("SequenceConstruct", ["a", "b"], ["s"]), ("SequenceLength", ["s"], ["c"])]
    inputs = [("a", "float32", ("n",)), ("b", "float32", ("m",))]
    model = smelt.load(onnx_model(nodes, inputs, [("c", "int64", ())]))
    assert model(np.ones(2, np.float32), np.ones(3, np.float32))[0][()] == 2


WRONG: list[tuple[Any, str]] = [
    (np.zeros((1, 64), np.float64), "float64, the model takes float32"),
    (np.zeros((1, 64), np.int32), "int32, the model takes float32"),
    (np.zeros((1, 64), ">f4"), "big-endian"),
    (np.zeros((1, 1, 64), np.float32), r"shape \[1,1,64\], the model takes"),
    (np.zeros((), np.float32), "shape"),
    (np.zeros((1, 64), object), "object"),
    (np.zeros((1, 64), "datetime64[s]"), "datetime64"),
    (np.zeros((1, 64), [("a", "f4")]), "elements of type"),
    (np.zeros((1, 64), np.longdouble), "longdouble|float128"),
    (np.array(["a"]), "string, the model takes float32"),
    (object(), "object, an array expected"),
    (None, "missing"),
    ({"a": 1}, "dict, an array expected"),
    ("text", "str, an array expected"),
    (b"bytes", "uint8, the model takes float32"),
    (1.5, "shape"),
    ({1, 2}, "set, an array expected"),
    (np.lib.stride_tricks.as_strided(np.zeros(1, np.float32), (1,) * 20, (0,) * 20), "dimensions"),
    (np.ma.zeros, "array expected"),
]


@pytest.mark.parametrize(("given", "message"), WRONG, ids=[m for _, m in WRONG])
def test_wrong_input_says_what_was_expected(given: Any, message: str) -> None:
    model = smelt.load(relu_onnx())
    with pytest.raises(smelt.InvalidInputError, match=message):
        model(given)
    with pytest.raises(smelt.InvalidInputError, match=message):
        model(x=given)


def test_wrong_number_and_names(x: np.ndarray) -> None:
    model = smelt.load(relu_onnx())
    with pytest.raises(smelt.InvalidInputError, match="input 0 'x' is missing"):
        model()
    with pytest.raises(smelt.InvalidInputError, match="2 inputs given, the model takes 1: 'x'"):
        model(x, x)
    with pytest.raises(smelt.InvalidInputError, match=r"no input 'z'; the model has: 'x'"):
        model(x, z=x)
    with pytest.raises(smelt.InvalidInputError, match="by position and by name"):
        model(x, x=x)


def test_huge() -> None:
    huge = np.lib.stride_tricks.as_strided(np.zeros(1, np.float32), (1 << 40, 1 << 20), (0, 0))
    with pytest.raises(smelt.Error):
        smelt.load(relu_onnx(("a", "b")))(huge)
    wide = np.broadcast_to(np.float32(1), (1 << 31,))
    with smelt.load(relu_onnx(("a",))).session(memory_limit=1 << 20) as session, pytest.raises(smelt.Error):
        session.view(np.lib.stride_tricks.as_strided(np.zeros(1, np.float32), (1 << 50,), (0,)))
    del wide
