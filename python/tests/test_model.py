"""Loading models, what they say of themselves, and running them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import smelt
from models import identity_onnx, onnx_model, relu_onnx, relu_tflite

FORMATS = {
    "digits.onnx": "onnx",
    "digits.tflite": "tflite",
    "digits_int8.tflite": "tflite",
    "digits_xnnpack.pte": "executorch",
    "digits_vulkan.pte": "executorch",
    "digits.bpte": "executorch",
}


@pytest.mark.parametrize(("file", "format"), FORMATS.items())
def test_load_every_format(digits: Path, file: str, format: str) -> None:
    model = smelt.load(digits / file)
    assert model.format == format
    assert model.file_bytes == (digits / file).stat().st_size
    info = model.inputs[0]
    (scores,) = model(np.ones(info.shape, info.numpy_dtype))
    assert scores.shape == (1, 10)
    assert scores.dtype == model.outputs[0].numpy_dtype
    assert repr(model).startswith(f"<smelt.Model {format}: {model.methods[0]}(")


def test_load_path_bytes_and_buffers_agree(digits: Path) -> None:
    path = digits / "digits.onnx"
    image = np.random.default_rng(0).random((1, 1, 8, 8), np.float32)
    data = path.read_bytes()
    sources = [str(path), path, data, bytearray(data), memoryview(data), np.frombuffer(data, np.uint8)]
    first, *others = [smelt.load(source)(image)[0] for source in sources]
    for other in others:
        np.testing.assert_array_equal(first, other)


def test_a_model_survives_changes_of_a_writable_buffer(x: np.ndarray) -> None:
    data = bytearray(relu_onnx())
    model = smelt.load(data)
    data[:] = bytes(len(data))
    np.testing.assert_array_equal(model(x)[0], np.maximum(x, 0))


def test_rules_that_a_file_may_break(x: np.ndarray) -> None:
    values = [(name, "float32", (1, 64)) for name in "xy"]
    backwards = onnx_model([("Neg", ["m"], ["y"]), ("Relu", ["x"], ["m"])], values[:1], values[1:])
    with pytest.raises(smelt.InvalidModelError, match="node-order"):
        smelt.load(backwards)
    for rules in (["node-order"], "node-order", "all"):
        model = smelt.load(backwards, tolerate=rules)
        np.testing.assert_array_equal(model(x)[0], -np.maximum(x, 0))
    assert smelt.load(relu_onnx()).warnings == []
    with pytest.raises(smelt.InvalidInputError, match="no-rule"):
        smelt.load(relu_onnx(), tolerate=["no-rule"])


def test_inputs_and_outputs() -> None:
    model = smelt.load(relu_onnx(("batch", 64)))
    (info,) = model.inputs
    assert info.name == "x"
    assert info.type == "float32[?,64]"
    assert info.shape == (None, 64)
    assert info.dim_names == ("batch", "")
    assert info.numpy_dtype == np.float32
    assert not info.optional
    assert info.quantization is None
    assert [p.name for p in model.outputs] == ["y"]


def test_quantization(digits: Path) -> None:
    quantization = smelt.load(digits / "digits_int8.tflite").inputs[0].quantization
    assert quantization is not None
    assert quantization.kind == "per_tensor"
    assert quantization.zero_points == (-128,)
    assert quantization.scales[0] == pytest.approx(1 / 255)


def test_metadata() -> None:
    model = smelt.load(relu_onnx())
    assert model.metadata["author"] == "tests"
    assert "smelt-tests" in model.producer
    assert model.methods == ("main",)


def test_names_give_a_dict(x: np.ndarray) -> None:
    outputs = smelt.load(relu_onnx())(x=x)
    assert list(outputs) == ["y"]
    np.testing.assert_array_equal(outputs["y"], np.maximum(x, 0))


def test_names_that_are_no_identifiers(x: np.ndarray) -> None:
    model = smelt.load(
        onnx_model(
            [("Add", ["a.1", "b 2"], ["out:0"])],
            [("a.1", "float32", (1, 64)), ("b 2", "float32", (1, 64))],
            [("out:0", "float32", (1, 64))],
        )
    )
    np.testing.assert_array_equal(model(**{"b 2": x, "a.1": x})["out:0"], x + x)


def test_shapes_may_change() -> None:
    model = smelt.load(relu_onnx(("n",)))
    for n in (3, 1, 0, 1000, 3):
        assert model(np.full(n, -1, np.float32))[0].tolist() == [0] * n


def test_scalars() -> None:
    (y,) = smelt.load(identity_onnx("float32", ()))(np.float32(2.5))
    assert y.shape == ()
    assert y[()] == 2.5


def test_tflite(x: np.ndarray) -> None:
    np.testing.assert_array_equal(smelt.load(relu_tflite())(x)[0], np.maximum(x, 0))


def test_methods_share_the_session(digits: Path) -> None:
    model = smelt.load(digits / "digits_portable.pte")
    with model.session() as session:
        method = session.method("forward")
        image = np.ones((1, 1, 8, 8), np.float32)
        np.testing.assert_array_equal(method(image)[0], session.run(image)[0])
        assert repr(method).startswith("forward(")
        with pytest.raises(smelt.InvalidInputError, match="no method 'backward'"):
            session.method("backward")


def test_inspect(digits: Path) -> None:
    description = smelt.load(digits / "digits.onnx").inspect()
    assert description["format"] == "onnx"
    assert description["operators"]
    assert "<html" in description.html()
    assert description._repr_html_().startswith("<iframe")
    optimised = smelt.load(digits / "digits.onnx").inspect(optimised=True)
    assert optimised["nodes"] <= description["nodes"]


def test_bench(x: np.ndarray) -> None:
    figures = smelt.load(relu_onnx()).bench(x, runs=7)
    assert figures["runs"] == 7
    assert 0 < figures["min_ms"] <= figures["median_ms"] <= figures["p90_ms"]


def test_profile(x: np.ndarray) -> None:
    with smelt.load(relu_onnx()).session(profile=True) as session:
        session.run(x)
        session.run(x)
        (entry,) = session.profile
        assert entry["origin"] == "Relu"
        assert entry["calls"] == 2
        assert "<td>Relu</td>" in session.profile._repr_html_()
        pandas = pytest.importorskip("pandas")
        assert isinstance(session.profile.to_pandas(), pandas.DataFrame)


def test_verify_bundle(digits: Path) -> None:
    results = smelt.verify_bundle(digits / "digits.bpte")
    assert [r.verdict for r in results] == ["passed"] * 10
    assert results[0].name == "forward, set 0"
    assert {r.verdict for r in smelt.verify_bundle(digits / "digits.bpte", rtol=0, atol=0)} <= {"passed", "failed"}
    with pytest.raises(smelt.Error, match=r"digits\.onnx"):
        smelt.verify_bundle(digits / "digits.onnx")


def test_errors_are_located(tmp_path: Path, digits: Path) -> None:
    with pytest.raises(smelt.FileError, match="nothing"):
        smelt.load(tmp_path / "nothing")
    with pytest.raises(OSError, match="nothing"):
        smelt.load(tmp_path / "nothing")
    with pytest.raises(smelt.InvalidModelError, match="not a model of a known format"):
        smelt.load(b"\0" * 100)
    broken = bytearray((digits / "digits.tflite").read_bytes())
    with pytest.raises(smelt.InvalidModelError, match=r"^cut: "):
        smelt.load(bytes(broken[: len(broken) // 2]), name="cut")
    with pytest.raises(TypeError):
        smelt.load(b"x", custom_operators=3)
    with pytest.raises(smelt.Error):
        smelt.load(12)


def test_import_is_light() -> None:
    code = "import sys, smelt; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_every_public_name_is_documented() -> None:
    for name in smelt.__all__:
        thing = getattr(smelt, name)
        assert name == "__version__" or thing.__doc__, name
    for kind in (smelt.Session, smelt.Model, smelt.TensorInfo):
        for name, member in vars(kind).items():
            if not name.startswith("_") and callable(member):
                assert member.__doc__, f"{kind.__name__}.{name}"


def command(*arguments: str | os.PathLike[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "smelt", *map(os.fspath, arguments)], capture_output=True, text=True)


def test_command_line(digits: Path) -> None:
    version = command("--version")
    assert version.stdout == f"smelt {smelt.__version__}\n"
    run = command("run", digits / "digits.tflite", "--image", digits / "seven.png", "--labels", digits / "labels.txt")
    assert run.returncode == 0
    assert run.stdout.splitlines()[1].split()[-1] == "seven"
    assert command("frobnicate").returncode == 2
    wrong = command("inspect", "nothing.onnx")
    assert wrong.returncode == 1
    assert "nothing.onnx" in wrong.stderr


def test_the_snippet_of_the_readme(digits: Path) -> None:
    text = (digits.parents[1] / "README.md").read_text().partition("## From Python")[2]
    code = text.partition("```python\n")[2].partition("```")[0]
    run = subprocess.run([sys.executable, "-c", code], cwd=digits.parents[1], capture_output=True, text=True)
    assert run.stdout.split() == ["float32[1,1,8,8]", "7"], run.stderr
