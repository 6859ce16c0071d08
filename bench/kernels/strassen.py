#!/usr/bin/env python3
"""Times of float32 products with constant matrices: as defined, and by Strassen's algorithm. Needs onnx and numpy.

    strassen.py [--smelt FILE] [--isa LEVEL] [--rows 98,196] [--depths 256,768] [--columns 256,768]

Prints a line a shape: rows, K, columns, microseconds of both, and what the second takes of the first. Each shape is a network
of so many products with weights of their own that they exceed the level-2 cache. least_rows and least_share of
strassen_f32.cc follow from these figures. Pin it: taskset -c 1 strassen.py.
"""

import argparse
import json
import os
import pathlib
import subprocess
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

ROOT = pathlib.Path(__file__).parent.parent.parent
WEIGHT_BYTES = 8 << 20


def network(m, k, n):
    rng = np.random.default_rng(0)
    copies = max(1, min(32, WEIGHT_BYTES // (4 * k * n)))
    nodes, weights, outputs = [], [], []
    for i in range(copies):
        matrix = rng.standard_normal((k, n)).astype(np.float32) / np.float32(np.sqrt(k))
        weights.append(numpy_helper.from_array(matrix, f"w{i}"))
        nodes.append(helper.make_node("MatMul", ["x", f"w{i}"], [f"y{i}"]))
        outputs.append(helper.make_tensor_value_info(f"y{i}", TensorProto.FLOAT, [m, n]))
    rows = helper.make_tensor_value_info("x", TensorProto.FLOAT, [m, k])
    graph = helper.make_graph(nodes, "products", [rows], outputs, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), copies


def microseconds(smelt, isa, model, setting):
    """Of a run."""
    command = [smelt, "bench", model, "--threads", "1", "--seconds", "0.04", "--json"]
    environment = os.environ | {"SMELT_CPU_STRASSEN": setting} | ({"SMELT_ISA": isa} if isa else {})
    return json.loads(subprocess.run(command, check=True, env=environment, capture_output=True).stdout)["min_ms"] * 1000


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smelt", default=ROOT / "build/release/bin/smelt")
    parser.add_argument("--isa", help="level; default: the best of the machine")
    parser.add_argument("--rows", default="64,98,128,196,392,784")
    parser.add_argument("--depths", default="128,192,256,512,2048")
    parser.add_argument("--columns", default="64,128,256,768")
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        model = pathlib.Path(folder) / "products.onnx"
        for k in map(int, args.depths.split(",")):
            for n in map(int, args.columns.split(",")):
                for m in map(int, args.rows.split(",")):
                    products, copies = network(m, k, n)
                    onnx.save(products, model)
                    times = [[microseconds(args.smelt, args.isa, model, s) for s in ("0", "always")] for _ in range(args.rounds)]
                    direct, halves = (min(t) / copies for t in zip(*times, strict=True))
                    print(m, k, n, f"{direct:.4g} {halves:.4g} {halves / direct:.2f}", flush=True)


if __name__ == "__main__":
    main()
