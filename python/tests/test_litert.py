"""smelt.litert and the real package by the same calls, side by side."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import smelt
import smelt.litert
from models import relu_tflite
from test_onnxruntime import compare, outcome

Make = Callable[..., Any]
DIGITS = Path(__file__).parents[2] / "examples" / "digits"
INT8 = str(DIGITS / "digits_int8.tflite")
X = np.random.default_rng(0).integers(-128, 128, (1, 8, 8, 1)).astype(np.int8)


@pytest.fixture(scope="module")
def makers() -> list[Make]:
    peer = pytest.importorskip("ai_edge_litert.interpreter", reason="ai-edge-litert is not installed")
    # LiteRT's own kernels: those of its XNNPACK delegate round integers in another way.
    own = peer.OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    return [smelt.litert.Interpreter, functools.partial(peer.Interpreter, experimental_op_resolver_type=own)]


def allocated(make: Make, *arguments: Any, **options: Any) -> Any:
    interpreter = make(*arguments or (INT8,), **options)
    interpreter.allocate_tensors()
    return interpreter


def ends(interpreter: Any) -> tuple[int, int]:
    return interpreter.get_input_details()[0]["index"], interpreter.get_output_details()[0]["index"]


def plain(details: Any) -> Any:
    """Details with lists in place of arrays and dicts, so that they compare."""
    if isinstance(details, dict):
        return [[k, plain(v)] for k, v in sorted(details.items())]
    if isinstance(details, (list, tuple)):
        return [plain(d) for d in details]
    return details.tolist() if isinstance(details, np.ndarray) else details


def run(interpreter: Any, value: Any) -> Any:
    i, o = ends(interpreter)
    interpreter.set_tensor(i, value)
    interpreter.invoke()
    return interpreter.get_tensor(o)


def run_signature(make: Make, **inputs: Any) -> Any:
    outputs = make(INT8).get_signature_runner()(**inputs)
    return [list(outputs), *outputs.values()]


def resized(make: Make, size: list[int], strict: bool = False) -> Any:
    interpreter = allocated(make)
    interpreter.resize_tensor_input(ends(interpreter)[0], size, strict=strict)
    interpreter.allocate_tensors()
    return [
        run(interpreter, np.repeat(X, size[0], axis=0)),
        plain(interpreter.get_input_details()[0]["shape"]),
        plain(interpreter.get_output_details()[0]["shape"]),
    ]


def through_tensor(make: Make) -> Any:
    interpreter = allocated(make)
    i, o = ends(interpreter)
    interpreter.tensor(i)()[...] = X
    interpreter.invoke()
    return interpreter.tensor(o)().copy()


CALLS: dict[str, Callable[[Make], Any]] = {
    "input details": lambda make: plain(make(INT8).get_input_details()),
    "output details": lambda make: plain(make(INT8).get_output_details()),
    "details of float32": lambda make: plain(make(str(DIGITS / "digits.tflite")).get_input_details()),
    "run": lambda make: run(allocated(make), X),
    "run from bytes": lambda make: run(allocated(make, model_content=relu_tflite()), np.ones((1, 64), np.float32)),
    "threads": lambda make: run(allocated(make, INT8, num_threads=2), X),
    "input's copy": lambda make: [run(a := allocated(make), X), a.get_tensor(ends(a)[0])],
    "tensor()": through_tensor,
    "signature list": lambda make: plain(make(INT8).get_signature_list()),
    "signature": lambda make: run_signature(make, keras_tensor_14=X),
    "signature details": lambda make: [
        plain(make(INT8).get_signature_runner().get_input_details()),
        plain(make(INT8).get_signature_runner("serving_default").get_output_details()),
    ],
    "signature without inputs": run_signature,
    "signature with a wrong name": lambda make: run_signature(make, image=X),
    "signature with a wrong type": lambda make: run_signature(make, keras_tensor_14=X.astype(np.float32)),
    "unknown signature": lambda make: make(INT8).get_signature_runner("other"),
    "resize": lambda make: resized(make, [3, 8, 8, 1]),
    "reset": lambda make: allocated(make).reset_all_variables(),
    "subgraphs": lambda make: make(INT8).num_subgraphs(),
    "invoke before allocate": lambda make: make(INT8).invoke(),
    "set before allocate": lambda make: make(INT8).set_tensor(0, X),
    "get before allocate": lambda make: make(INT8).get_tensor(0),
    "wrong type": lambda make: run(allocated(make), X.astype(np.float32)),
    "wrong rank": lambda make: run(allocated(make), X[0]),
    "wrong dimension": lambda make: run(allocated(make), X[:, :4]),
    "list of numbers": lambda make: run(allocated(make), X.tolist()),
    "wrong index": lambda make: allocated(make).set_tensor(99, X),
    "index of no tensor": lambda make: allocated(make).get_tensor(99),
    "resize of no tensor": lambda make: make(INT8).resize_tensor_input(-3, [1]),
    "no file": lambda make: make("nothing.tflite"),
    "no model": lambda make: make(),
    "both": lambda make: make(INT8, model_content=b"x"),
    "no flatbuffer": lambda make: make(model_content=b"123"),
    "no threads": lambda make: make(INT8, num_threads=0),
    "threads as text": lambda make: make(INT8, num_threads="2"),
    "a number": lambda make: make(3),
}


@pytest.mark.parametrize("name", CALLS)
def test_call(makers: list[Make], name: str) -> None:
    ours, theirs = (outcome(CALLS[name], make) for make in makers)
    compare(ours, theirs)


def test_resize_strict() -> None:
    with pytest.raises(ValueError, match="unknown dimensions"):
        resized(smelt.litert.Interpreter, [3, 8, 8, 1], strict=True)


def test_resize_that_does_not_fit() -> None:
    with pytest.raises(RuntimeError, match=r"operator 0 CONV_2D: .* the input has 5"):
        resized(smelt.litert.Interpreter, [1, 8, 8, 5])


def test_other_formats() -> None:
    interpreter = allocated(smelt.litert.Interpreter, str(DIGITS / "digits.onnx"))
    assert run(interpreter, np.ones((1, 1, 8, 8), np.float32)).shape == (1, 10)


def test_errors_of_smelt_stay_visible() -> None:
    assert issubclass(smelt.InvalidModelError, ValueError)
    with pytest.raises(ValueError, match="known format"):
        smelt.litert.Interpreter(model_content=b"123")
