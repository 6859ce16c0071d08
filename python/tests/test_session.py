"""Sessions: options, limits, threads, bound arrays, views, and memory."""

from __future__ import annotations

import asyncio
import gc
import multiprocessing
import resource
import struct
import threading
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import smelt
from models import identity_onnx, onnx_model, relu_onnx


def slow_model(steps: int = 400, n: int = 400) -> smelt.Model:
    """A chain of matrix products that takes seconds on the reference back-end."""
    value = ("float32", (n, n))
    nodes = [("MatMul", [f"t{i}" if i else "x", "x"], [f"t{i + 1}"]) for i in range(steps)]
    return smelt.load(onnx_model(nodes, [("x", *value)], [(f"t{steps}", *value)]))


def test_options_are_checked() -> None:
    model = smelt.load(relu_onnx())
    for options in (
        {"threads": 0},
        {"threads": 257},
        {"backend": "cuda"},
        {"method": "backward"},
        {"seconds_limit": -1},
        {"seconds_limit": float("nan")},
        {"memory_limit": -1},
        {"memory_limit": 2**64},
        {"device": -2},
        {"match": "litert"},
        {"device_storage": "tape"},
        {"seed": -1},
    ):
        with pytest.raises(smelt.InvalidInputError):
            model.session(**options)
    for options in ({"threads": "2"}, {"seconds_limit": "1"}, {"unknown": 1}):
        with pytest.raises(TypeError):
            model.session(**options)
    with pytest.raises(TypeError):
        smelt.Session("model")


@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_backends(x: np.ndarray, backend: str) -> None:
    with smelt.load(relu_onnx()).session(backend=backend, threads=2) as session:
        np.testing.assert_array_equal(session.run(x)[0], np.maximum(x, 0))
        assert session.isa


def test_close(x: np.ndarray) -> None:
    session = smelt.load(relu_onnx()).session()
    session.run(x)
    session.close()
    session.close()
    assert session.closed
    session.cancel()
    for call in (lambda: session.run(x), lambda: session.view(x), session.reset_state, lambda: session.isa):
        with pytest.raises(smelt.InvalidInputError, match="the session is closed"):
            call()


def test_input_is_read_where_it_lies(x: np.ndarray) -> None:
    # Identity on the CPU gives the input's own memory: what view() shows lies in the array.
    with smelt.load(identity_onnx("float32")).session() as session:
        a = np.arange(1000, dtype=np.float32)
        (y,) = session.view(a)
        assert np.shares_memory(a, y) or not np.may_share_memory(a, y)
        np.testing.assert_array_equal(a, y)


def test_outputs_own_their_memory(x: np.ndarray) -> None:
    with smelt.load(relu_onnx()).session() as session:
        (a,) = session.run(x)
        (b,) = session.run(-x)
        assert a.flags.owndata
        assert a.flags.writeable
        assert not np.may_share_memory(a, b)
        np.testing.assert_array_equal(a, np.maximum(x, 0))


def test_views(x: np.ndarray) -> None:
    session = smelt.load(relu_onnx()).session()
    (view,) = session.view(x)
    assert not view.flags.writeable
    np.testing.assert_array_equal(view, np.maximum(x, 0))
    address = view.ctypes.data
    with pytest.raises(smelt.InvalidInputError, match="views of the last run's outputs are alive"):
        session.run(x)
    del view
    (view,) = session.view(-x)
    assert view.ctypes.data == address
    session.close()  # the view keeps the memory
    del session
    gc.collect()
    np.testing.assert_array_equal(view, np.maximum(-x, 0))


def test_bind(x: np.ndarray) -> None:
    with smelt.load(relu_onnx()).session() as session:
        out = np.empty((1, 64), np.float32)
        for bind in (lambda: session.bind(out), lambda: session.bind(y=out)):
            bind()
            out.fill(-1)
            assert session.run(x)[0] is out
            np.testing.assert_array_equal(out, np.maximum(x, 0))
        session.bind()
        assert session.run(x)[0] is not out
        read_only = np.empty((1, 64), np.float32)
        read_only.flags.writeable = False
        for wrong in (
            np.empty((1, 64), np.float64),
            np.empty((64,), np.float32),
            np.empty((1, 128), np.float32)[:, ::2],
            read_only,
            [0] * 64,
        ):
            session.bind(wrong)
            with pytest.raises(smelt.InvalidInputError, match="bound to"):
                session.run(x)
        with pytest.raises(smelt.InvalidInputError, match="no output 'z'"):
            session.bind(z=out)
        with pytest.raises(smelt.InvalidInputError, match="2 arrays bound"):
            session.bind(out, out)


def test_limits() -> None:
    x = np.eye(400, dtype=np.float32)
    model = slow_model()
    with (
        model.session(backend="reference", seconds_limit=0.05) as session,
        pytest.raises(smelt.LimitError, match=r"seconds|time"),
    ):
        session.run(x)
    with model.session(memory_limit=1000) as session, pytest.raises(smelt.LimitError):
        session.run(x)
    with model.session(steps_limit=3) as session, pytest.raises(smelt.LimitError):
        session.run(x)


def test_levels() -> None:
    model = slow_model(steps=1, n=40)
    x = np.random.default_rng(1).random((40, 40), dtype=np.float32)
    with pytest.raises(smelt.InvalidInputError, match="isa is avx7; this machine has baseline"):
        model.session(isa="avx7")
    for level in ("baseline", "vnni", "amx", "bf16", "amx_bf16"):
        try:
            session = model.session(isa=level)
        except smelt.InvalidInputError:
            assert level != "baseline"
            continue
        with session:
            assert session.isa == level
            np.testing.assert_allclose(session.run(x)[0], x @ x, rtol=1e-5)


def test_strict_types() -> None:
    values = [(name, "float16", (1,)) for name in "xy"]
    model = smelt.load(onnx_model([("Mul", ["x", "x"], ["m"]), ("Sqrt", ["m"], ["y"])], values[:1], values[1:]))
    x = np.array([300], np.float16)  # its square is beyond float16
    assert model.session().run(x)[0] == 300
    assert model.session(strict_types=True).run(x)[0] == np.inf


def test_deterministic() -> None:
    model = slow_model(steps=2, n=200)
    x = np.random.default_rng(2).random((200, 200), dtype=np.float32)
    results = [model.session(threads=n, deterministic=True).run(x)[0].tobytes() for n in (1, 2, 3)]
    assert results[0] == results[1] == results[2]


def test_match(digits: Path) -> None:
    model = smelt.load(digits / "digits_int8.tflite")
    image = np.random.default_rng(3).integers(-128, 128, model.inputs[0].shape, dtype=np.int8)
    a, b = (model.session(match=m).run(image)[0] for m in ("reference", "litert-xnnpack"))
    assert 0 < np.abs(a.astype(int) - b).max() < 10


def test_cancel() -> None:
    x = np.eye(400, dtype=np.float32)
    with slow_model().session(backend="reference") as session:
        timer = threading.Timer(0.1, session.cancel)
        timer.start()
        start = time.monotonic()
        with pytest.raises(smelt.CancelledError):
            session.run(x)
        assert time.monotonic() - start < 10
        timer.join()


def test_run_async(x: np.ndarray) -> None:
    async def runs() -> None:
        with smelt.load(relu_onnx()).session() as session:
            results = await asyncio.gather(*(session.run_async(x * i) for i in range(8)))
            for i, (y,) in enumerate(results):
                np.testing.assert_array_equal(y, np.maximum(x * i, 0))
            assert list(await session.run_async(x=x)) == ["y"]
            with pytest.raises(smelt.InvalidInputError):
                await session.run_async()

    asyncio.run(runs())


def test_cancelled_task() -> None:
    async def run() -> None:
        with slow_model().session(backend="reference") as session:
            task = asyncio.create_task(session.run_async(np.eye(400, dtype=np.float32)))
            await asyncio.sleep(0.1)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    start = time.monotonic()
    asyncio.run(run())
    assert time.monotonic() - start < 10


def test_gil_is_released() -> None:
    x = np.eye(400, dtype=np.float32)
    with slow_model().session(backend="reference", seconds_limit=1) as session:
        count = 0

        def run() -> None:
            with pytest.raises(smelt.LimitError):
                session.run(x)

        thread = threading.Thread(target=run)
        thread.start()
        while thread.is_alive():
            count += 1
            time.sleep(0.001)
        thread.join()
        assert count > 50


@pytest.mark.parametrize("shared", [True, False])
def test_threads(digits: Path, shared: bool) -> None:
    model = smelt.load(digits / "digits.onnx")
    one = model.session()
    images = np.random.default_rng(0).random((8, 1, 1, 8, 8), np.float32)
    expected = [one.run(image)[0] for image in images]
    failures: list[BaseException] = []

    def work(i: int) -> None:
        try:
            session = one if shared else model.session()
            for _ in range(200):
                np.testing.assert_array_equal(session.run(images[i])[0], expected[i])
        except BaseException as e:
            failures.append(e)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def growth_over_sessions(x: np.ndarray) -> int:
    """The bytes by which 9,000 sessions grow this process."""
    model = smelt.load(relu_onnx())

    def resident() -> int:
        gc.collect()
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()

    for i in range(10_000):
        with model.session() as session:
            session.run(x)
        if i == 1000:
            before = resident()
    return resident() - before


# In a process of its own, which threads of other tests do not grow.
def test_ten_thousand_sessions(x: np.ndarray) -> None:
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as own:
        assert own.submit(growth_over_sessions, x).result() < 2 << 20


class ClippedScale(smelt.CustomOperator):
    """y = min(scale * x, limit); the options are two floats."""

    name = "ClippedScale"

    def infer(self, inputs: Any, declared: Any, options: bytes) -> Any:
        assert inputs[0].dtype == "float32"
        return [inputs[0]]

    def run(self, inputs: list[np.ndarray], options: bytes) -> Any:
        scale, limit = struct.unpack("<ff", options)
        return np.minimum(np.float32(scale) * inputs[0], np.float32(limit))


def test_custom_operator(digits: Path) -> None:
    path = digits.parent / "custom_operator" / "clipped_scale.tflite"
    x = np.array([[-1, 0, 1], [2, 3, 4]], np.float32)
    with pytest.raises(smelt.UnsupportedError, match="ClippedScale"):
        smelt.load(path)
    (y,) = smelt.load(path, custom_operators=[ClippedScale()])(x)
    assert y.shape == (2, 3)
    assert y[0, 0] < 0 < y.max() < 100
    assert len(set(y.ravel().tolist())) < 6  # clipped

    class Broken(ClippedScale):
        def run(self, inputs: list[np.ndarray], options: bytes) -> Any:
            raise RuntimeError("a hole")

    with pytest.raises(smelt.Error, match="a hole"):
        smelt.load(path, custom_operators=[Broken()])(x)

    class Wrong(ClippedScale):
        def run(self, inputs: list[np.ndarray], options: bytes) -> Any:
            return inputs[0][:, :2]

    with pytest.raises(smelt.Error, match=r"float32\[2,2\], float32\[2,3\] expected"):
        smelt.load(path, custom_operators=[Wrong()])(x)

    class Lost(ClippedScale):
        def infer(self, inputs: Any, declared: Any, options: bytes) -> Any:
            return [("float33", None)]

    with pytest.raises(smelt.Error, match="unknown type float33"):
        smelt.load(path, custom_operators=[Lost()])(x)


def test_prepare() -> None:
    with smelt.load(relu_onnx(("n", "m"))).session() as session:
        ((dtype, shape),) = session.prepare(np.zeros((3, 5), np.float32))
        assert (dtype, shape) == ("float32", (3, 5))
        with pytest.raises(smelt.InvalidInputError):
            session.prepare(np.zeros(3, np.float32))
