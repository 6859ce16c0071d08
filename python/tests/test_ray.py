"""smelt.ray.Predictor: by itself, and on a local cluster where Ray is installed."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import smelt
from models import onnx_model, relu_onnx
from smelt.ray import Predictor

EXAMPLE = Path(__file__).parents[2] / "examples" / "ray_batch.py"


def images(count: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).random((count, 1, 8, 8), np.float32)


def test_results_do_not_depend_on_batches(digits: Path) -> None:
    predictor = Predictor(digits / "digits.onnx", {"pixels": "image"})
    x = images(12)
    model = smelt.load(digits / "digits.onnx")
    expected = np.concatenate([model(row[None])[0] for row in x])
    for size in (1, 5, 12):
        parts = [predictor({"pixels": x[i : i + size], "id": np.arange(12)[i : i + size]}) for i in range(0, 12, size)]
        np.testing.assert_array_equal(np.concatenate([p["scores"] for p in parts]), expected)
        assert np.concatenate([p["id"] for p in parts]).tolist() == list(range(12))
        assert {e for p in parts for e in p["error"]} == {""}


def test_bad_rows(digits: Path) -> None:
    rows = np.empty(3, object)
    rows[:] = [images(1)[0], np.zeros((1, 7, 7), np.float32), images(1)[0]]
    out = Predictor(digits / "digits.onnx", {"pixels": "image"})({"pixels": rows})
    assert [bool(e) for e in out["error"]] == [False, True, False]
    assert "[1,1,7,7]" in out["error"][1]
    assert out["scores"].shape == (3, 10)
    np.testing.assert_array_equal(out["scores"][0], out["scores"][2])
    assert not out["scores"][1].any()
    with pytest.raises(smelt.InvalidInputError):
        Predictor(digits / "digits.onnx", {"pixels": "image"}, error_column=None)({"pixels": rows})
    every = Predictor(digits / "digits.onnx", {"pixels": "image"})({"pixels": rows[1:2]})
    assert every["scores"].shape == (1, 10)


def test_empty_batches_and_outputs_of_many_shapes(tmp_path: Path) -> None:
    (tmp_path / "relu.onnx").write_bytes(relu_onnx(("n",)))
    predictor = Predictor(tmp_path / "relu.onnx", error_column=None)
    rows = np.empty(2, object)
    rows[:] = [np.ones(2, np.float32), np.ones(3, np.float32)]
    out = predictor({"x": rows})
    assert [v.shape for v in out["y"]] == [(2,), (3,)]
    assert len(predictor({"x": rows[:0]})["y"]) == 0


def test_columns_of_two_inputs_in_any_order(tmp_path: Path) -> None:
    """By position where all columns have one type, by name where rows have to be converted: equal results."""
    nodes, types = [("Sub", ("a", "b"), ("y",))], [(name, "float32", (1, 3)) for name in "aby"]
    (tmp_path / "sub.onnx").write_bytes(onnx_model(nodes, types[:2], types[2:]))
    predictor = Predictor(tmp_path / "sub.onnx", {"right": "b", "left": "a"})
    left, right = np.arange(12, dtype=np.float32).reshape(4, 3), np.ones((4, 3), np.float32)
    np.testing.assert_array_equal(predictor({"left": left, "right": right})["y"], left - right)
    rows = np.empty(4, object)
    rows[:] = list(left)
    rows[2] = left[2, :2]
    out = predictor({"left": rows, "right": right})
    assert [bool(e) for e in out["error"]] == [False, False, True, False]
    np.testing.assert_array_equal(np.delete(out["y"], 2, 0), np.delete(left - right, 2, 0))


def kill_an_actor(name: str, cluster: str) -> bool:
    """Kills a process of an actor of this class, as the kernel does when memory is short.

    cluster: what the environment of the cluster's processes has and no other's.
    """
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            text = (process / "cmdline").read_text()
            actor = text.startswith("ray::") and name in text and "__init__" not in text
            if actor and cluster.encode() in (process / "environ").read_bytes():
                os.kill(int(process.name), signal.SIGKILL)
                return True
    return False


def test_example_from_parquet_to_parquet(tmp_path: Path, digits: Path) -> None:
    """An actor is killed while the other one works: no row is lost or doubled."""
    pytest.importorskip("ray.data", reason="ray's data library is not installed")
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    count = 20000
    rows = list(images(count).reshape(count, 64))
    rows[17] = rows[17][:63]
    parquet.write_table(arrow.table({"id": np.arange(count), "image": rows}), tmp_path / "digits.parquet")
    target = tmp_path / "out"
    with open(tmp_path / "log", "w+") as log:
        job = subprocess.Popen(
            [sys.executable, EXAMPLE, tmp_path / "digits.parquet", target],
            env={**os.environ, "SMELT_TEST_FOLDER": str(tmp_path)},
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        killed = False
        while job.poll() is None:
            killed = killed or (target.exists() and kill_an_actor("Classifier", str(tmp_path)))
            time.sleep(0.02)
        log.seek(0)
        assert job.returncode == 0, log.read()
    assert killed
    out = parquet.read_table(target).sort_by("id").to_pydict()
    assert out["id"] == list(range(count))
    assert [i for i, error in enumerate(out["error"]) if error] == [17]
    assert (out["digit"][17], out["score"][17]) == (-1, 0)
    model = smelt.load(digits / "digits.onnx")
    for i in (0, 1, 9999, count - 1):
        (scores,) = model(rows[i].reshape(1, 1, 8, 8))
        assert (out["digit"][i], out["score"][i]) == (scores.argmax(), scores.max())


def test_on_a_cluster(digits: Path) -> None:
    ray = pytest.importorskip("ray", reason="ray is not installed")
    data = pytest.importorskip("ray.data", reason="ray's data library is not installed")
    ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False, logging_level="error")
    try:
        x = images(100)
        rows = (
            data.from_numpy(x)
            .map_batches(
                Predictor,
                fn_constructor_kwargs={"model": str(digits / "digits.onnx"), "columns": {"data": "image"}},
                batch_size=32,
                compute=data.ActorPoolStrategy(size=2),
                num_cpus=1,
                batch_format="numpy",
            )
            .take_all()
        )
        model = smelt.load(digits / "digits.onnx")
        expected = {row.tobytes(): model(row[None])[0][0] for row in x}
        assert len(rows) == 100
        for row in rows:
            np.testing.assert_array_equal(row["scores"], expected[np.asarray(row["data"], np.float32).tobytes()])
    finally:
        ray.shutdown()
