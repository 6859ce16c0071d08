"""smelt.litert.CompiledModel: beside LiteRT's where it is installed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from smelt.litert import CompiledModel, HardwareAccelerator, TensorBuffer

KEY = "serving_default"


@pytest.fixture
def model(digits: Path) -> CompiledModel:
    return CompiledModel.from_file(digits / "digits_int8.tflite")


def image() -> Any:
    return np.random.default_rng(0).integers(-128, 127, (1, 8, 8, 1), np.int8)


def ends(model: Any) -> tuple[str, str]:
    signature = model.get_signature_by_index(0)
    return signature["inputs"][0], signature["outputs"][0]


def test_runs_by_name_and_index(model: CompiledModel, digits: Path) -> None:
    import smelt

    (expected,) = smelt.load(digits / "digits_int8.tflite")(image())
    inputs, outputs = model.create_input_buffers(0), model.create_output_buffers(0)
    inputs[0].write(image())
    model.run_by_index(0, inputs, outputs)
    np.testing.assert_array_equal(outputs[0].read(10, np.int8), expected[0])
    name, result = ends(model)
    given, memory = TensorBuffer.create_from_host_memory(image()), np.zeros((1, 10), np.int8)
    model.run_by_name(KEY, {name: given}, {result: TensorBuffer.create_from_host_memory(memory)})
    np.testing.assert_array_equal(memory, expected)


def test_from_buffer_and_a_gpu_or_else_the_cpu(digits: Path) -> None:
    data = (digits / "digits_int8.tflite").read_bytes()
    with CompiledModel.from_buffer(data, HardwareAccelerator.GPU | HardwareAccelerator.CPU) as model:
        outputs = model.create_output_buffers(0)
        model.run_by_index(0, model.create_input_buffers(0), outputs)
        assert outputs[0].read(10, np.int8).any()
    with pytest.raises(RuntimeError, match="closed"):
        model.get_num_signatures()


def test_resize(model: CompiledModel) -> None:
    with pytest.raises(RuntimeError, match=r"can't change from \[1, 8, 8, 1\] to \[2, 8, 8, 1\]"):
        model.resize_input_tensor(0, [2, 8, 8, 1])
    model.resize_input_tensor_by_name(KEY, ends(model)[0], [2, 8, 8, 1], strict=False)
    assert model.create_input_buffers(0)[0].get_tensor_details() == {"dtype": "int8", "shape": [2, 8, 8, 1]}


def test_wrong_calls(model: CompiledModel) -> None:
    name, result = ends(model)
    inputs, outputs = model.create_input_buffers(0), model.create_output_buffers(0)
    calls: list[tuple[Any, str]] = [
        (lambda: model.get_signature_by_index(5), "no signature 5"),
        (lambda: model.get_input_tensor_details("no"), "Signature not found: no"),
        (lambda: model.create_input_buffers(-1), "no signature -1"),
        (lambda: model.create_input_buffer_by_name(KEY, "zz"), "no input 'zz'"),
        (lambda: model.get_output_buffer_requirements(7), "no output 7"),
        (lambda: model.run_by_index(0, [], outputs), "0 input buffers, 1 expected"),
        (lambda: model.run_by_name(KEY, {}, {result: outputs[0]}), r"buffers of inputs \[\], expected"),
        (lambda: model.run_by_name("q", {name: inputs[0]}, {}), "Signature not found: q"),
        (lambda: inputs[0].write(np.zeros(65, np.int8)), "65 elements, at most 64"),
        (lambda: inputs[0].write(np.zeros(64, np.float32)), "elements of float32, the tensor buffer of int8"),
        (lambda: outputs[0].read(11, np.int8), "11 elements, at most 10"),
        (lambda: outputs[0].read(1, np.float32), "not of float32"),
        (lambda: CompiledModel.from_file("/nope"), "/nope"),
        (lambda: CompiledModel.from_buffer(b"abc"), "no known model format|not a known|format"),
        (lambda: model.run_by_index(0, outputs, outputs), "reshape"),
    ]
    for call, message in calls:
        with pytest.raises(RuntimeError, match=message):
            call()
    with pytest.raises(ValueError, match="must be a NumPy array"):
        inputs[0].write([1, 2])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="C-contiguous"):
        TensorBuffer.create_from_host_memory(np.zeros((4, 4))[:, ::2])
    inputs[0].destroy()
    with pytest.raises(RuntimeError, match="destroyed"):
        inputs[0].read(1, np.int8)


def test_beside_litert(model: CompiledModel, digits: Path) -> None:
    """The same calls give the same values, but for integers of its XNNPACK delegate, which may differ by one."""
    peer = pytest.importorskip("ai_edge_litert.compiled_model", reason="ai-edge-litert is not installed")
    theirs = peer.CompiledModel.from_file(str(digits / "digits_int8.tflite"))
    calls: list[Any] = [
        lambda m: m.get_signature_list(),
        lambda m: m.get_signature_by_index(0),
        lambda m: m.get_num_signatures(),
        lambda m: (m.get_signature_index(KEY), m.get_signature_index("x")),
        lambda m: m.get_input_tensor_details(KEY),
        lambda m: m.get_output_tensor_details(KEY),
        lambda m: m.get_input_buffer_requirements(0),
        lambda m: m.get_output_buffer_requirements(0),
        lambda m: m.is_fully_accelerated(),
        lambda m: m.create_input_buffer_by_name(KEY, ends(m)[0]).get_tensor_details(),
        lambda m: m.create_output_buffer_by_name(KEY, ends(m)[1]).get_tensor_details(),
    ]
    for i, call in enumerate(calls):
        assert call(model) == call(theirs), f"call {i}"
    results = []
    for m in (model, theirs):
        inputs, outputs = m.create_input_buffers(0), m.create_output_buffers(0)
        inputs[0].write(image())
        m.run_by_index(0, inputs, outputs)
        results.append(outputs[0].read(10, np.int8).astype(int))
    assert np.abs(results[0] - results[1]).max() <= 1
