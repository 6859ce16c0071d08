"""smelt.onnxruntime and the real package by the same calls, side by side."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import smelt
import smelt.onnxruntime
from models import onnx_model, relu_onnx

ADD = onnx_model(
    [("Add", ["a", "b"], ["sum"]), ("Mul", ["a", "b"], ["product"])],
    [("a", "float32", ("n", 3)), ("b", "float32", (1, 3))],
    [("sum", "float32", ("n", 3)), ("product", "float32", ("n", 3))],
)
A = np.arange(6, dtype=np.float32).reshape(2, 3)
B = np.array([[1, 2, 3]], np.float32)


@pytest.fixture(scope="module")
def modules() -> list[ModuleType]:
    return [smelt.onnxruntime, pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")]


def same(modules: list[ModuleType], call: Callable[[ModuleType], Any]) -> None:
    """Both give equal values, element types and shapes, or exceptions of the same name or built-in kind."""
    ours, theirs = (outcome(call, m) for m in modules)
    compare(ours, theirs)


def outcome(call: Callable[[ModuleType], Any], module: ModuleType) -> Any:
    try:
        return call(module)
    except Exception as e:
        return e


def compare(ours: Any, theirs: Any) -> None:
    if isinstance(theirs, Exception):
        assert isinstance(ours, Exception), f"{ours!r}, {theirs!r} expected"
        assert type(ours).__name__ == type(theirs).__name__, f"{ours!r}, {theirs!r} expected"
    elif isinstance(theirs, (list, tuple)):
        assert type(ours) is type(theirs), f"{ours!r}, {theirs!r} expected"
        assert len(ours) == len(theirs)
        for a, b in zip(ours, theirs, strict=True):
            compare(a, b)
    elif isinstance(theirs, np.ndarray):
        assert ours.dtype == theirs.dtype
        np.testing.assert_array_equal(ours, theirs, strict=True)
    else:
        assert ours == theirs


def session(ort: ModuleType, model: bytes | str = ADD, **options: Any) -> Any:
    return ort.InferenceSession(model, providers=["CPUExecutionProvider"], **options)


RUNS: dict[str, Callable[[Any], Any]] = {
    "all outputs": lambda s: s.run(None, {"a": A, "b": B}),
    "one output": lambda s: s.run(["product"], {"a": A, "b": B}),
    "outputs in another order": lambda s: s.run(["product", "sum"], {"a": A, "b": B}),
    "no output named": lambda s: s.run([], {"a": A, "b": B}),
    "lists": lambda s: s.run(None, {"a": A.tolist(), "b": B.tolist()}),
    "not contiguous": lambda s: s.run(None, {"a": np.asfortranarray(A), "b": B}),
    "missing input": lambda s: s.run(None, {"a": A}),
    "unknown input": lambda s: s.run(None, {"a": A, "b": B, "c": A}),
    "unknown output": lambda s: s.run(["quotient"], {"a": A, "b": B}),
    "another element type": lambda s: s.run(None, {"a": A.astype(np.float64), "b": B}),
    "another rank": lambda s: s.run(None, {"a": A[0], "b": B}),
    "another dimension": lambda s: s.run(None, {"a": A[:, :2], "b": B}),
    "inputs": lambda s: [(i.name, i.type, i.shape) for i in s.get_inputs()],
    "outputs": lambda s: [(o.name, o.type, o.shape) for o in s.get_outputs()],
    "overridable initializers": lambda s: [i.name for i in s.get_overridable_initializers()],
    "text of an input": lambda s: str(s.get_inputs()[0]),
    "providers": lambda s: s.get_providers(),
    "provider options": lambda s: s.get_provider_options(),
    "metadata": lambda s: s.get_modelmeta().custom_metadata_map,
    "producer": lambda s: s.get_modelmeta().producer_name,
    "graph": lambda s: s.get_modelmeta().graph_name,
    "no profile": lambda s: s.get_session_options().enable_profiling,
}


@pytest.mark.parametrize("name", RUNS)
def test_session(modules: list[ModuleType], name: str) -> None:
    same(modules, lambda ort: RUNS[name](session(ort)))


def test_loading(modules: list[ModuleType], tmp_path: Path, digits: Path) -> None:
    image = np.random.default_rng(0).random((1, 1, 8, 8), np.float32)
    ours, theirs = (session(m, str(digits / "digits.onnx")).run(None, {"image": image})[0] for m in modules)
    assert ours.dtype == theirs.dtype
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-7)
    same(modules, lambda ort: session(ort, str(tmp_path / "nothing.onnx")))
    same(modules, lambda ort: session(ort, 3))  # type: ignore[arg-type]


def test_ort_values(modules: list[ModuleType]) -> None:
    def values(ort: ModuleType) -> Any:
        a = ort.OrtValue.ortvalue_from_numpy(A)
        b = ort.OrtValue.ortvalue_from_shape_and_type([1, 3], np.float32)
        b.update_inplace(B)
        facts = [a.shape(), a.data_type(), a.element_type(), a.device_name(), a.is_tensor(), a.has_value(), b.numpy()]
        return facts + [v.numpy() for v in session(ort).run_with_ort_values(["sum"], {"a": a, "b": b})]

    same(modules, values)


def test_io_binding(modules: list[ModuleType]) -> None:
    def bound(ort: ModuleType) -> Any:
        s = session(ort)
        binding = s.io_binding()
        binding.bind_cpu_input("a", A)
        binding.bind_ortvalue_input("b", ort.OrtValue.ortvalue_from_numpy(B))
        out = ort.OrtValue.ortvalue_from_shape_and_type([2, 3], np.float32)
        binding.bind_ortvalue_output("product", out)
        binding.bind_output("sum")
        s.run_with_iobinding(binding)
        return [out.numpy(), *binding.copy_outputs_to_cpu(), [v.shape() for v in binding.get_outputs()]]

    same(modules, bound)
    binding = session(smelt.onnxruntime).io_binding()
    with pytest.raises(smelt.onnxruntime.InvalidArgument):
        binding.bind_cpu_input("z", A)
    with pytest.raises(smelt.onnxruntime.InvalidArgument):
        binding.bind_output("z")


def test_run_async(modules: list[ModuleType]) -> None:
    def run(ort: ModuleType) -> Any:
        done, got = threading.Event(), []

        def callback(results: list[Any], data: Any, error: str) -> None:
            got.extend([list(results), data, bool(error)])
            done.set()

        s = session(ort)
        s.run_async(None, {"a": A, "b": B}, callback, "data")
        assert done.wait(10)
        return got

    same(modules, run)


def test_options(modules: list[ModuleType]) -> None:
    def run(ort: ModuleType) -> Any:
        options = ort.SessionOptions()
        options.intra_op_num_threads = 2
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
        options.execution_mode = ort.ExecutionMode.ORT_SEQUENTIAL
        options.add_session_config_entry("session.key", "value")
        run_options = ort.RunOptions()
        run_options.logid = "run"
        results = session(ort, sess_options=options).run(None, {"a": A, "b": B}, run_options)
        return [options.get_session_config_entry("session.key"), *results]

    same(modules, run)
    same(modules, lambda ort: ort.SessionOptions().get_session_config_entry("unknown"))


def test_terminate() -> None:
    options = smelt.onnxruntime.RunOptions()
    options.terminate = True
    with pytest.raises(smelt.onnxruntime.Fail):
        session(smelt.onnxruntime).run(None, {"a": A, "b": B}, options)


def test_profiling(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    options = smelt.onnxruntime.SessionOptions()
    options.enable_profiling = True
    s = session(smelt.onnxruntime, sess_options=options)
    s.run(None, {"a": A, "b": B})
    assert {e["origin"] for e in json.loads(Path(s.end_profiling()).read_text())} == {"Add", "Mul"}
    assert session(smelt.onnxruntime).end_profiling() == ""


def test_providers() -> None:
    assert smelt.onnxruntime.get_device() == "CPU"
    assert "CPUExecutionProvider" in smelt.onnxruntime.get_available_providers()
    with pytest.warns(UserWarning, match="no provider Bogus"):
        s = smelt.onnxruntime.InferenceSession(relu_onnx(), providers=["Bogus", ("CPUExecutionProvider", {})])
    assert s.get_providers() == ["CPUExecutionProvider"]


def test_other_formats(digits: Path) -> None:
    s = session(smelt.onnxruntime, str(digits / "digits_xnnpack.pte"))
    (scores,) = s.run(None, {s.get_inputs()[0].name: np.ones((1, 1, 8, 8), np.float32)})
    assert scores.shape == (1, 10)
    with pytest.raises(smelt.Error, match="known format"):
        session(smelt.onnxruntime, b"nothing")
