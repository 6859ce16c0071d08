#!/usr/bin/env python3
"""Times a .tflite model with LiteRT on one thread (pip install ai-edge-litert): the peer of `smelt bench`."""
import argparse
import time

import numpy as np
from ai_edge_litert.interpreter import Interpreter


def main():
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("model")
    ap.add_argument("--runs", type=int, default=20)
    ap.add_argument("--threads", type=int, default=1)
    args = ap.parse_args()
    interpreter = Interpreter(model_path=args.model, num_threads=args.threads)
    interpreter.allocate_tensors()
    for d in interpreter.get_input_details():
        interpreter.set_tensor(d["index"], np.zeros(d["shape"], d["dtype"]))
    for _ in range(3):
        interpreter.invoke()
    times = []
    for _ in range(args.runs):
        start = time.perf_counter()
        interpreter.invoke()
        times.append((time.perf_counter() - start) * 1e3)
    print(f"min {min(times):.3f}, median {sorted(times)[len(times) // 2]:.3f} ms")


if __name__ == "__main__":
    main()
