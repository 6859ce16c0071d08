"""ONNX's own backend tests through smelt.onnx_backend."""

from __future__ import annotations

import unittest
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")
import onnx
import onnx.backend.test
import smelt.onnx_backend as backend

TOLERANCES = {
    # The expected values hold float32 noise of 2e-7 where the exact result, which smelt gives, is 0.
    "test_dft_inverse": {"atol": 1e-6},
    "test_dft_inverse_opset19": {"atol": 1e-6},
    # Rounded to float16 after each node: two of 192 values differ by one unit in the last place.
    "test_attention_4d_causal_fp16_expanded": {"rtol": 2e-3},
}


class Suite(onnx.backend.test.BackendTest):
    """ONNX's runner with tolerances of our own; it takes the length of a sequence's elements: scalars are wrapped."""

    def _add_model_test(self, model_test: Any, kind: str) -> None:
        super()._add_model_test(replace(model_test, **TOLERANCES.get(model_test.name, {})), kind)

    @classmethod
    def assert_similar_outputs(cls, ref_outputs: Any, outputs: Any, *arguments: Any, **options: Any) -> None:
        if isinstance(outputs, np.ndarray) and outputs.ndim == 0:
            ref_outputs, outputs = [ref_outputs], [outputs]
        super().assert_similar_outputs(ref_outputs, outputs, *arguments, **options)


with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    suite = Suite(backend, __name__)
for pattern in (
    "test_bernoulli",  # outputs of a random generator without a seed or with another generator's seed
    "test_training_dropout(_default)?(_mask)?_cpu$",  # outputs of another random generator
    "test_gradient_of_",  # ai.onnx.preview.training.Gradient: training
    "_cuda$",
):
    suite.exclude(pattern)
CASES = {name: case for name, case in suite.test_cases.items() if "RealModel" not in name}  # those are downloads


def run_all() -> unittest.TestResult:
    """The cases for the CPU, as `unittest` runs them."""
    result = unittest.TestResult()
    for case in CASES.values():
        names = [n for n in unittest.defaultTestLoader.getTestCaseNames(case) if n.endswith("_cpu")]
        unittest.TestSuite(map(case, names)).run(result)
    return result


def test_onnx_suite() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = run_all()
    failed = [f"{case.id()}: {text.splitlines()[-1]}" for case, text in result.failures + result.errors]
    assert not failed
    if onnx.__version__ == "1.23.2":  # the counts of tests/onnx_node_tests.py
        assert (result.testsRun - len(result.skipped), len(result.skipped)) == (2012, 12)


def test_run_node() -> None:
    node = onnx.helper.make_node("Add", ["a", "b"], ["c"])
    a = np.arange(3, dtype=np.float32)
    np.testing.assert_array_equal(backend.run_node(node, [a, a])[0], a + a)


def test_devices() -> None:
    assert backend.supports_device("CPU")
    assert not backend.supports_device("CUDA:1")
    assert not backend.supports_device("moon")
