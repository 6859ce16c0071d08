"""smelt.executorch: the documented calls of ExecuTorch's runtime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import smelt
from smelt.executorch import Runtime, Verification


def test_documented_example(digits: Path) -> None:
    runtime = Runtime.get()
    assert Runtime.get() is runtime
    program = runtime.load_program(digits / "digits_xnnpack.pte", verification=Verification.Minimal)
    assert program.method_names == {"forward"}
    method = program.load_method("forward")
    assert method is not None
    image = np.random.default_rng(0).random((1, 1, 8, 8), np.float32)
    (scores,) = method.execute([image])
    np.testing.assert_array_equal(scores, smelt.load(digits / "digits_xnnpack.pte")(image)[0])
    assert program.load_method("backward") is None
    assert Runtime.get().load_program((digits / "digits_xnnpack.pte").read_bytes()).method_names == {"forward"}


def test_metadata(digits: Path) -> None:
    metadata = Runtime.get().load_program(digits / "digits_portable.pte").metadata("forward")
    assert (metadata.name(), metadata.num_inputs(), metadata.num_outputs()) == ("forward", 1, 1)
    assert metadata.input_tensor_meta(0).sizes() == (1, 1, 8, 8)
    assert metadata.input_tensor_meta(0).nbytes() == 256
    assert metadata.output_tensor_meta(0).dtype() == "float32"
    with pytest.raises(IndexError):
        metadata.output_tensor_meta(1)


def test_torch_tensors(digits: Path) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    method = Runtime.get().load_program(digits / "digits_xnnpack.pte").load_method("forward")
    assert method is not None
    (scores,) = method.execute([torch.ones(1, 1, 8, 8)])
    assert isinstance(scores, torch.Tensor)


def test_errors(digits: Path) -> None:
    with pytest.raises(smelt.FileError):
        Runtime.get().load_program("nothing.pte")
    method = Runtime.get().load_program(digits / "digits_xnnpack.pte").load_method("forward")
    assert method is not None
    with pytest.raises(smelt.InvalidInputError):
        method.execute([])
    with pytest.raises(smelt.InvalidInputError, match="float64"):
        method.execute([np.ones((1, 1, 8, 8))])
