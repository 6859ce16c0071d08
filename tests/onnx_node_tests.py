#!/usr/bin/env python3
"""Runs the backend node tests of the `onnx` Python package through `smelt run` and compares the outputs.

    onnx_node_tests.py --smelt build/release/bin/smelt [--filter REGEX] [--list-failures] [--backend reference]

Needs onnx and numpy. Prints pass counts by operator, then 'N passed, N failed, N skipped'.
"""
import argparse
import collections
import concurrent.futures
import os
import re
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnx.backend.test.loader as loader
from onnx import numpy_helper

# Outputs that depend on a random generator, or operators that exist for gradients only.
SKIPPED = {
    "test_bernoulli": "random",
    "test_bernoulli_seed": "random",
    "test_bernoulli_double": "random",
    "test_bernoulli_expanded": "random",
    "test_bernoulli_seed_expanded": "random",
    "test_bernoulli_double_expanded": "random",
    "test_training_dropout": "random",
    "test_gradient_of_add": "gradient",
    "test_gradient_of_add_and_mul": "gradient",
}


def plain(array):
    """An array in the element types that .npy files of the command line use."""
    name = array.dtype.name
    if array.dtype == object or array.dtype.kind in "US":
        texts = [v.decode() if isinstance(v, bytes) else str(v) for v in array.ravel()]
        return np.array(texts, dtype=str).reshape(array.shape)
    if name == "bfloat16":
        return array.view(np.uint16)
    if name.startswith("float8"):
        return array.view(np.uint8)
    if name in ("int4", "int2"):
        return array.astype(np.int8)
    if name in ("uint4", "uint2") or name.startswith("float4"):
        return array.astype(np.uint8) if name.startswith("uint") else array.view(np.uint8)
    return array


def read_value(path, type_proto):
    """A .pb file as an array, a list of arrays, or None."""
    with open(path, "rb") as f:
        data = f.read()
    kind = type_proto.WhichOneof("value")
    if kind == "optional_type":
        proto = onnx.OptionalProto()
        proto.ParseFromString(data)
        value = numpy_helper.to_optional(proto)
        if value is None:
            return None
        return value if isinstance(value, list) else np.asarray(value)
    if kind == "sequence_type":
        proto = onnx.SequenceProto()
        proto.ParseFromString(data)
        return [np.asarray(v) for v in numpy_helper.to_list(proto)]
    proto = onnx.TensorProto()
    proto.ParseFromString(data)
    return numpy_helper.to_array(proto)


def write_value(value, stem):
    if value is None:
        return "none"
    if isinstance(value, list):
        os.makedirs(stem + ".seq")
        for i, v in enumerate(value):
            np.save(os.path.join(stem + ".seq", f"{i}.npy"), plain(v))
        return stem + ".seq"
    np.save(stem + ".npy", plain(value))
    return stem + ".npy"


def as_float(a):
    return a if a.dtype.kind in "US" or a.dtype == bool else a.astype(np.complex128 if a.dtype.kind == "c" else np.float64)


def differs(got, want, rtol, atol):
    if got.shape != want.shape:
        return f"shape {got.shape}, expected {want.shape}"
    if want.dtype.name.startswith(("bfloat16", "float8", "float4")) and got.dtype.itemsize == want.dtype.itemsize:
        got, want = got.view(want.dtype).astype(np.float32), want.astype(np.float32)
    else:
        want = plain(want)
    if want.dtype.kind in "US":
        return None if (got.astype(str) == want.astype(str)).all() else "strings differ"
    if got.dtype != want.dtype:
        return f"dtype {got.dtype}, expected {want.dtype}"
    ok = np.isclose(as_float(got), as_float(want), rtol, atol, equal_nan=True)
    return None if ok.all() else f"{(~ok).sum()} of {ok.size} elements differ"


def compare(folder, index, want, rtol, atol):
    stem = os.path.join(folder, str(index))
    if want is None:
        return None if not os.path.exists(stem + ".npy") else "an empty optional expected"
    if not isinstance(want, list):
        if not os.path.exists(stem + ".npy"):
            return "no tensor was written"
        return differs(np.load(stem + ".npy"), want, rtol, atol)
    have = sorted(os.listdir(stem + ".seq")) if os.path.isdir(stem + ".seq") else []
    if len(have) != len(want):
        return f"a sequence of {len(have)}, expected {len(want)}"
    for i, w in enumerate(want):
        if problem := differs(np.load(os.path.join(stem + ".seq", f"{i}.npy")), w, rtol, atol):
            return f"element {i}: {problem}"
    return None


def to_array(value):
    """A value of an in-memory test as an array, a list of arrays, or None."""
    if value is None:
        return None
    if isinstance(value, (list, tuple)):
        return [to_array(v) for v in value]
    if isinstance(value, onnx.TensorProto):
        value = numpy_helper.to_array(value)
    return np.asarray(value)


def data_sets(case, model, inputs):
    """Pairs of input and output lists, from memory or from the test's folder."""
    if case.data_sets is not None:
        for ins, outs in case.data_sets:
            yield [to_array(v) for v in ins], [to_array(v) for v in outs]
        return
    for folder in sorted(d for d in os.listdir(case.model_dir) if d.startswith("test_data_set_")):
        base = os.path.join(case.model_dir, folder)
        read = lambda kind, values: [read_value(os.path.join(base, f"{kind}_{i}.pb"), v.type) for i, v in enumerate(values)
                                     if os.path.exists(os.path.join(base, f"{kind}_{i}.pb"))]
        yield read("input", inputs), read("output", model.graph.output)


def run_case(case, args):
    """(name, operator, 'pass' | 'skip' | message)"""
    model = case.model or onnx.load(os.path.join(case.model_dir, "model.onnx"), load_external_data=False)
    op = case.model_name if case.model is None else model.graph.node[0].op_type
    if case.name in SKIPPED or case.name.startswith("test_training_dropout"):
        return case.name, op, "skip"
    initial = {t.name for t in model.graph.initializer}
    inputs = [v for v in model.graph.input if v.name not in initial]
    for ins, outs in data_sets(case, model, inputs):
        with tempfile.TemporaryDirectory() as tmp:
            model_path = os.path.join(tmp, "model.onnx")
            if case.model is None:
                model_path = os.path.join(case.model_dir, "model.onnx")
            else:
                onnx.save(model, model_path)
            out = os.path.join(tmp, "out")
            command = [args.smelt, "run", model_path, "--backend", args.backend, "--output-dir", out]
            for i, value in enumerate(ins):
                command += ["--input", write_value(value, os.path.join(tmp, f"in{i}"))]
            run = subprocess.run(command, capture_output=True, text=True, timeout=60)
            if run.returncode != 0:
                message = (run.stderr.strip().splitlines() or [f"exit {run.returncode}"])[-1]
                return case.name, op, message.split("model.onnx: ")[-1][:300]
            for i, want in enumerate(outs):
                rtol, atol = max(case.rtol, 1e-3), max(case.atol, 1e-5)
                if isinstance(want, np.ndarray) and want.dtype == np.float16:
                    atol = max(atol, 1e-3)
                if isinstance(want, np.ndarray) and want.dtype.name == "bfloat16":  # 8 bits of precision
                    rtol, atol = max(rtol, 0.016), max(atol, 0.016)
                if problem := compare(out, i, want, rtol, atol):
                    return case.name, op, f"output {i}: {problem}"
    return case.name, op, "pass"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--smelt", required=True)
    parser.add_argument("--backend", default="reference")
    parser.add_argument("--filter", default="")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--list-failures", action="store_true")
    parser.add_argument("--by-op", action="store_true")
    args = parser.parse_args()
    cases = [c for kind in ("node", "simple") for c in loader.load_model_tests(kind=kind)]
    cases = [c for c in cases if re.search(args.filter, c.name) and (c.model or c.model_dir)]
    total = collections.Counter()
    by_op = collections.defaultdict(collections.Counter)
    failures = []

    def guarded(case):
        try:
            return run_case(case, args)
        except Exception as e:  # a case that can't even be prepared is a failure with a reason
            return case.name, "?", f"{type(e).__name__}: {e}"[:300]

    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        for name, op, outcome in pool.map(guarded, cases):
            kind = outcome if outcome in ("pass", "skip") else "fail"
            total[kind] += 1
            by_op[op][kind] += 1
            if kind == "fail":
                failures.append((name, outcome))
    if args.by_op:
        for op in sorted(by_op):
            c = by_op[op]
            print(f"{op:32} {c['pass']:5} passed {c['fail']:5} failed {c['skip']:5} skipped")
    if args.list_failures:
        for name, outcome in failures:
            print(f"FAIL {name}: {outcome}")
    print(f"{total['pass']} passed, {total['fail']} failed, {total['skip']} skipped")
    return 0 if not failures else 3


if __name__ == "__main__":
    sys.exit(main())
