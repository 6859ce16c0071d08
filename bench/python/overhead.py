"""Microseconds of one call from Python: a Relu of 64 float32 values, through smelt and through its peers.

    overhead.py [--rounds N] [--calls N]

Prints the median over rounds, in which the runtimes take turns, and the time of `import`. A peer that is not installed
is left out with a word. smelt must not be slower than onnxruntime and ai-edge-litert.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2] / "python" / "tests"))
from models import relu_onnx, relu_tflite

Call = Callable[[], object]


def smelt_call(folder: Path, x: np.ndarray) -> Call:
    import smelt

    session = smelt.load(folder / "relu.onnx").session()
    return lambda: session.run(x)


def smelt_drop_in_call(folder: Path, x: np.ndarray) -> Call:
    import smelt.onnxruntime as ort

    session = ort.InferenceSession(folder / "relu.onnx")
    return lambda: session.run(None, {"x": x})


def onnxruntime_call(folder: Path, x: np.ndarray) -> Call:
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(folder / "relu.onnx", options, providers=["CPUExecutionProvider"])
    return lambda: session.run(None, {"x": x})


def _interpreter_call(module: object, folder: Path, x: np.ndarray) -> Call:
    interpreter = module.Interpreter(str(folder / "relu.tflite"))  # type: ignore[attr-defined]
    interpreter.allocate_tensors()
    i = interpreter.get_input_details()[0]["index"]
    o = interpreter.get_output_details()[0]["index"]

    def call() -> object:
        interpreter.set_tensor(i, x)
        interpreter.invoke()
        return interpreter.get_tensor(o)

    return call


def smelt_litert_call(folder: Path, x: np.ndarray) -> Call:
    import smelt.litert as module

    return _interpreter_call(module, folder, x)


def litert_call(folder: Path, x: np.ndarray) -> Call:
    import ai_edge_litert.interpreter as module

    return _interpreter_call(module, folder, x)


RUNTIMES = {
    "smelt": smelt_call,
    "smelt.onnxruntime": smelt_drop_in_call,
    "onnxruntime": onnxruntime_call,
    "smelt.litert": smelt_litert_call,
    "ai-edge-litert": litert_call,
}


def import_ms(module: str) -> float:
    """Milliseconds of `import MODULE` in a new interpreter, the least of five."""
    code = f"import time; t = time.perf_counter(); import {module}; print(1e3 * (time.perf_counter() - t))"
    runs = [subprocess.run([sys.executable, "-c", code], capture_output=True, text=True) for _ in range(5)]
    return min(float(r.stdout.splitlines()[-1]) if r.returncode == 0 else float("nan") for r in runs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--calls", type=int, default=2000)
    arguments = parser.parse_args()
    x = np.linspace(-1, 1, 64, dtype=np.float32).reshape(1, 64)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "relu.onnx").write_bytes(relu_onnx())
        (folder / "relu.tflite").write_bytes(relu_tflite())
        calls: dict[str, Call] = {}
        for runtime, make in RUNTIMES.items():
            try:
                calls[runtime] = make(folder, x)
            except ImportError as e:
                print(f"{runtime}: left out ({e})")
        times: dict[str, list[float]] = {runtime: [] for runtime in calls}
        for _ in range(arguments.rounds):
            for runtime, call in calls.items():
                start = time.perf_counter()
                for _ in range(arguments.calls):
                    call()
                times[runtime].append((time.perf_counter() - start) / arguments.calls * 1e6)
        for runtime, values in times.items():
            print(f"{runtime:20} {statistics.median(values):6.2f} us a call")
    for module in ("smelt", "onnxruntime", "ai_edge_litert.interpreter"):
        print(f"import {module:26} {import_ms(module):7.1f} ms")


if __name__ == "__main__":
    main()
