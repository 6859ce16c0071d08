#!/usr/bin/env python3
"""Checks what smelt convert writes against the first file, each in its own runtime.

    bench/convert/check_written.py [--smelt build/release/bin/smelt] [--from onnx --to tflite] [--group nets|ops] [--list]
    bench/convert/check_written.py --from onnx --to pte --executorch PYTHON     the Python that has executorch and torch

Every case of the corpus is written in another format. A written ONNX file passes onnx.checker with full_check. Both
files then run on 8 inputs: the stored ones, ones, zeros and large values that are not random, and four random draws of
the stored ones' range. Floats agree within 1e-5 of the largest magnitude, integers and values behind a quantization
within one step. A case fails where the checker refuses the file, the runtime refuses it, or an output disagrees on an
input that both run. The last line counts; the exit status is 1 if a share is below --floor.
"""
import argparse
import collections
import itertools
import json
import os
import pathlib
import pickle
import subprocess
import sys
import tempfile

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import convert_table as table  # noqa: E402


def draws(stored, rng):
    """Eight lists of inputs; indices and flags stay as stored, since their range is the model's own."""
    yield stored
    for fill in (1.0, 0.0, 3.0):
        yield [np.full_like(v, fill) if v.dtype.kind == "f" else v for v in stored]
    for _ in range(4):
        yield [(rng.standard_normal(v.shape) * (np.abs(v).max() / 2 if v.size else 1)).astype(v.dtype)
               if v.dtype.kind == "f" else v for v in stored]


def run(path, inputs, invokes):
    try:
        return table.RUNTIMES[path.suffix[1:]][1](path, inputs, invokes)
    except Exception as e:  # a runtime may refuse a file in any way
        return str(e).splitlines()[0][:80]


class Programs:
    """Runs programs in a process of another Python, which is started anew where a program ends it."""

    def __init__(self, python):
        self.python, self.process = python, None

    def __call__(self, path, sets, invokes):
        """Results on each list of inputs, or why there are none."""
        if not self.process or self.process.poll() is not None:
            here = str(pathlib.Path(__file__).resolve().parent)
            code = "import sys; sys.path.insert(0, sys.argv[1]); import check_written; check_written.serve()"
            self.process = subprocess.Popen([self.python, "-c", code, here], stdin=subprocess.PIPE,
                                            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        try:
            pickle.dump((path, sets, invokes), self.process.stdin)
            self.process.stdin.flush()
            return pickle.load(self.process.stdout)
        except (EOFError, BrokenPipeError):
            return [f"exit status {self.process.wait()}"] * len(sets)


def serve():
    """Runs programs on the sets of inputs that standard input names."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what runtimes print
    while True:
        try:
            path, sets, invokes = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        pickle.dump([run(path, inputs, invokes) for inputs in sets], answers)
        answers.flush()


def arrays(values):
    """Results as arrays; maps as their values, a row for each map, as TFLite has them."""
    return [np.array([list(m.values()) for m in v]) if isinstance(v, list) and v and isinstance(v[0], dict)
            else np.asarray(v) for v in values]


def distance(got, want, steps=None):
    """Largest difference in units of 1e-5 of the largest magnitude; of integers and of floats whose output has a
    step of its own in `steps` in those. None: other shapes."""
    worst = 0.0
    if len(got) != len(want):
        return None
    for i, (g, w) in enumerate(zip(arrays(got), arrays(want))):
        if g.shape != w.shape:
            return None
        if w.dtype.kind not in "fiub" or g.dtype.kind not in "fiub" or w.size == 0:
            continue
        a, b = g.astype(np.float64), w.astype(np.float64)
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        with np.errstate(invalid="ignore"):
            off = np.where(same, 0, np.abs(a - b))
        if w.dtype.kind == "f" and steps and steps[i] > 0:
            off = off / (1.001 * steps[i])
        elif w.dtype.kind == "f":
            off = off / max(1e-30, float(np.abs(b[np.isfinite(b)]).max(initial=0)) or 1) / 1e-5
        worst = max(worst, float(np.nan_to_num(off, nan=np.inf).max()))
    return worst


def by_reference(smelt, path, inputs, invokes):
    """What smelt's reference kernels give, which sum up in float64 and round a value once an operator."""
    with tempfile.TemporaryDirectory() as folder:
        command = [smelt, "run", str(path), "--backend", "reference", "--output-dir", folder, "--invokes", str(invokes)]
        for i, value in enumerate(inputs):
            np.save(f"{folder}/in{i}.npy", value)
            command += ["--input", f"{folder}/in{i}.npy"]
        subprocess.run(command, check=True, capture_output=True)
        out = {int(f.name.split(".")[0]): f for f in pathlib.Path(folder).iterdir() if f.name[0].isdigit()}
        return [np.load(f / "values.npy" if f.is_dir() else f, allow_pickle=True) for _, f in sorted(out.items())]


def is_quantized(path):
    """True if a file of ONNX has operators of quantization; others do not say, so their results have to."""
    data = path.read_bytes()
    return path.suffix != ".onnx" or any(mark in data for mark in (b"QuantizeLinear", b"QLinear", b"MatMulInteger", b"ConvInteger"))


def compare(first, second, case, args):
    """Why two files differ. With args.exact, also how far each is from the reference on the input where they do most."""
    invokes = json.loads((case / "case.json").read_text()).get("invokes", 1)
    rng, compared, worst, at = np.random.default_rng(1), 0, 0.0, None
    stored = table.numbered(case / "outputs")
    steps = [table.step_of(v) if v.dtype.kind == "f" else 0 for v in stored] if is_quantized(first) else None
    sets = list(draws(table.numbered(case / "inputs"), rng))
    wanted, results = (args.programs(f, sets, invokes) if f.suffix == ".pte" else [run(f, x, invokes) for x in sets]
                       for f in (first, second))
    for inputs, want, got in zip(sets, wanted, results):
        if isinstance(want, str):  # its own runtime has no answer
            try:
                want = by_reference(args.smelt, first, inputs, invokes)
            except subprocess.CalledProcessError:
                continue  # an input that the model refuses
        if isinstance(got, str):
            return "fails in its runtime: " + got
        # As ONNX, variables are further outputs.
        off = distance(got[:len(want)] if second.suffix == ".onnx" else got, want, steps)
        if off is None:
            return "other shapes"
        compared += 1
        if off > worst:
            worst, at = off, (inputs, got, want)
    if worst <= 1:
        return "agrees" if compared else "first file does not run"
    quantized = steps is not None and any(steps)
    said = f"differs: {worst:.3g} times the tolerance" + (" (quantized)" if quantized else "")
    if args.exact and not quantized:
        inputs, got, want = at
        best = by_reference(args.smelt, first, inputs, invokes)
        said += f"; from the reference: {distance(want, best):.3g} first, {distance(got, best):.3g} second file"
    return said


def cases(corpus, source, group):
    """Cases of a group; of programs, networks are those that say so."""
    for folder in ("portable", "xnnpack") if source == "pte" else (group,):
        for case in sorted((corpus / source / folder).iterdir()):
            model = case / f"model.{source}"
            if model.exists() and (source != "pte" or case.name.startswith("net_") == (group == "nets")):
                yield case, model


def check(args, source, target, case, model):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / f"model.{target}"
        done = subprocess.run(table.command(args.smelt, case, model, path), capture_output=True, text=True)
        if done.returncode != 0:
            lines = (done.stdout + done.stderr).replace(f"{model}: ", "").splitlines()
            return "not written", (lines or [""])[0][:100]
        if target == "onnx":
            import onnx

            try:
                onnx.checker.check_model(str(path), full_check=True)
            except Exception as e:
                return "checker", str(e).splitlines()[0][:100]
        said = compare(model, path, case, args)
        return said.split(":")[0], said


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smelt", default=str(table.ROOT / "build/release/bin/smelt"))
    parser.add_argument("--corpus", type=pathlib.Path, default=table.ROOT.parent / "shared/corpus")
    parser.add_argument("--from", dest="source", choices=table.RUNTIMES, action="append")
    parser.add_argument("--to", dest="target", choices=table.RUNTIMES, action="append")
    parser.add_argument("--executorch", default=sys.executable, help="the Python that runs programs")
    parser.add_argument("--group", choices=("nets", "ops"), action="append")
    parser.add_argument("--only", default="", help="cases with this in their name")
    parser.add_argument("--list", action="store_true", help="a line for each case that does not agree")
    parser.add_argument("--exact", action="store_true",
                        help="how far the runtimes of unquantized files that differ are from smelt's reference kernels")
    parser.add_argument("--floor", type=float, default=0, help="percent that agree at least")
    args = parser.parse_args()
    args.programs = Programs(args.executorch)
    low = False
    for source, target in itertools.product(args.source or ("onnx", "tflite"), args.target or ("onnx", "tflite")):
        if source == target:
            continue
        for group in args.group or ("nets", "ops"):
            counts = collections.Counter()
            for case, model in cases(args.corpus, source, group):
                if args.only not in case.name or not (case / "outputs").exists():
                    continue
                verdict, why = check(args, source, target, case, model)
                counts[verdict] += 1
                if args.list and verdict != "agrees":
                    print(f"  {case.name}: {why}", flush=True)
            total = sum(counts.values())
            share = 100 * counts["agrees"] / max(1, total)
            low |= share < args.floor
            print(f"{source} to {target}, {group}: {counts['agrees']} of {total} agree ({share:.1f} %)", dict(counts))
    sys.exit(1 if low else 0)


if __name__ == "__main__":
    main()
