#!/usr/bin/env python3
"""Compares the integers of quantized operators with those of the runtime of their format (docs/arithmetic.md).

    pip install numpy ai-edge-litert flatbuffers onnx onnxruntime
    measure.py tflite|onnx [--smelt COMMAND] [--values N] [--only REGEX] [--seed N]

A row is an operator with its types. Models of that one operator with random scales, zero points and contents run on
both sides until N values are compared (default: one million). The table says how many differ and by how much at most:
steps of integers, or real numbers.
"""

import argparse
import importlib
import pathlib
import re
import subprocess
import sys
import tempfile

import numpy as np


def smelt_outputs(command, model, suffix, inputs):
    """Outputs of smelt for model bytes; a string: what it says against the model."""
    with tempfile.TemporaryDirectory(prefix="arithmetic") as name:
        folder = pathlib.Path(name)
        (folder / f"model.{suffix}").write_bytes(model)
        arguments = [command, "run", str(folder / f"model.{suffix}"), "--output-dir", str(folder / "out"), "--input"]
        for i, array in enumerate(inputs):
            np.save(folder / f"{i}.npy", array)
            arguments.append(str(folder / f"{i}.npy"))
        done = subprocess.run(arguments, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            return done.stderr.strip()[-200:]
        files = sorted((folder / "out").glob("*.npy"), key=lambda f: int(f.stem))
        return [np.load(f) for f in files]


def compare(got, want):
    """Number of values that differ, and the largest difference."""
    kind = np.float64 if want.dtype.kind == "f" else np.int64
    apart = np.abs(got.reshape(want.shape).astype(kind) - want.astype(kind))
    return int((apart > 0).sum()), apart.max(initial=0)


def measure(args, peers, case):
    """Values compared, values that differ, largest difference; a string: why nothing was compared."""
    compared = different = 0
    largest = 0
    random = np.random.default_rng(args.seed)
    while compared < args.values:
        model, inputs = case.make(random)
        try:
            want = peers.run(model, inputs)
        except (RuntimeError, ValueError) as error:
            return "peer: " + " ".join(str(error).split())[-160:]
        got = smelt_outputs(args.smelt, model, peers.SUFFIX, inputs)
        if isinstance(got, str):
            return got
        for g, w in zip(got, want, strict=True):
            count, apart = compare(g, w)
            compared, different, largest = compared + w.size, different + count, max(largest, apart)
    return compared, different, largest


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("format", choices=("tflite", "onnx"))
    parser.add_argument("--smelt", default="build/release/bin/smelt")
    parser.add_argument("--values", type=int, default=1_000_000, help="compared a row, at least")
    parser.add_argument("--only", default="", help="regular expression that a row's name matches")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    peers = importlib.import_module(f"{args.format}_cases")
    print("| operator | values | differ | by at most |\n|---|---|---|---|")
    for case in peers.cases():
        if not re.search(args.only, case.name):
            continue
        result = measure(args, peers, case)
        cells = [result] if isinstance(result, str) else [str(result[0]), str(result[1]), f"{result[2]:.3g}"]
        print(f"| {case.name} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    sys.exit(main())
