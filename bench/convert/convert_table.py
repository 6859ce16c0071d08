#!/usr/bin/env python3
"""Converts every network of a corpus to every other format, checks what is written in that format's own runtime, and
writes the table docs/convert.md.

    bench/convert/convert_table.py --smelt build/release/bin/smelt --corpus ../shared/corpus [--output docs/convert.md]

A network is a folder with model.*, inputs/N.npy and outputs/N.npy. ONNX files pass onnx.checker with full_check and run in
onnxruntime; TFLite files run in ai_edge_litert; programs run in executorch. A runtime that is not installed counts as
"not checked". Times are of the command, loading included.
"""
import argparse
import collections
import datetime
import importlib.util
import json
import pathlib
import platform
import re
import subprocess
import tempfile
import time

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
GROUPS = {"onnx": ["onnx/nets"], "tflite": ["tflite/nets"], "pte": ["pte/portable", "pte/xnnpack"]}
MODELS = (".onnx", ".tflite", ".pte")


def networks(corpus, source):
    for group in GROUPS[source]:
        for case in sorted((corpus / group).iterdir()):
            if source == "pte" and not case.name.startswith("net_"):
                continue
            models = [m for m in case.glob("model.*") if m.suffix in MODELS]
            if models:
                yield case, models[0]


def numbered(folder):
    files = [f for f in folder.glob("*.npy") if f.stem.isdigit()]
    return [np.load(f, allow_pickle=True) for f in sorted(files, key=lambda f: int(f.stem))]


def run_onnx(path, inputs, invokes=1):
    import onnx
    import onnxruntime

    onnx.checker.check_model(str(path), full_check=True)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    feed = {i.name: v for i, v in zip(session.get_inputs(), inputs)}
    names = [o.name for o in session.get_outputs()]
    for _ in range(invokes):
        outputs = session.run(None, feed)
        # A variable: its next value is what the input of that name takes.
        feed |= {n.removesuffix("_next"): v for n, v in zip(names, outputs) if n.endswith("_next")}
    return outputs


def run_tflite(path, inputs, invokes=1):
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(model_path=str(path))
    for detail, value in zip(interpreter.get_input_details(), inputs):
        interpreter.resize_tensor_input(detail["index"], value.shape)
    interpreter.allocate_tensors()
    for _ in range(invokes):
        for detail, value in zip(interpreter.get_input_details(), inputs):
            interpreter.set_tensor(detail["index"], value)
        interpreter.invoke()
    return [interpreter.get_tensor(d["index"]) for d in interpreter.get_output_details()]


def run_pte(path, inputs, invokes=1):
    import torch
    from executorch.runtime import Runtime
    import executorch.kernels.quantized  # noqa: F401: its operators

    program = Runtime.get().load_program(str(path))
    method = program.load_method(sorted(program.method_names)[0])
    for _ in range(invokes):
        outputs = method.execute([torch.from_numpy(v) for v in inputs])
    return [np.asarray(o) for o in outputs]


RUNTIMES = {"onnx": ("onnxruntime", run_onnx), "tflite": ("ai_edge_litert", run_tflite), "pte": ("executorch", run_pte)}


def step_of(values):
    """The step of floats that were quantized to 8 bits: every gap between them is a multiple of it. 0: there is none."""
    levels = np.unique(values.astype(np.float64))
    if not 2 < len(levels) <= 256:
        return 0.0
    gaps = np.diff(levels)
    # The least gap may be a few steps where there are levels enough to tell.
    for part in range(1, 9 if len(levels) > 8 else 2):
        step = gaps.min() / part
        multiples = gaps / step
        if gaps.sum() <= 256 * step and np.abs(multiples - np.round(multiples)).max() < 0.02:
            return float(step)
    return 0.0


def agrees(got, want, case):
    """Floats within 1e-3 of the largest magnitude or the tolerance of case.json, integers and quantized floats within a
    step; or as well correlated as the network's own stored outputs have to be, whose kernels round otherwise."""
    least = case.get("min_correlation")
    for g, w in zip(got, want):
        g = np.asarray(g)
        if g.shape != w.shape:
            return False
        if w.dtype.kind in "USO" or w.size == 0:
            continue
        a, b = g.astype(np.float64), w.astype(np.float64)
        magnitude = max(1.0, float(np.abs(b).max()))
        allowed = 1 if w.dtype.kind in "iub" else max(1e-3 * magnitude, 1.001 * step_of(w))
        own = case.get("atol", 0) + case.get("rtol", 0) * np.abs(b) if w.dtype.kind == "f" else 0
        if (np.abs(a - b) <= np.maximum(allowed, own)).all():
            continue
        if least is None or w.dtype.kind not in "fiu" or w.size < 2:
            return False
        if not np.corrcoef(a.ravel(), b.ravel())[0, 1] >= least:
            return False
    return True


def check(target, path, case):
    module, run = RUNTIMES[target]
    if importlib.util.find_spec(module) is None:
        return "not checked", ""
    try:
        said = json.loads((case / "case.json").read_text())
        got = run(path, numbered(case / "inputs"), said.get("invokes", 1))
    except Exception as e:
        return "fails in its runtime", str(e).splitlines()[0][:60]
    return ("agrees" if agrees(got, numbered(case / "outputs"), said) else "differs"), ""


def command(smelt, case, model, path):
    """The conversion of a case's model, with the shapes of the case's inputs for a program, whose shapes are static."""
    arguments = [smelt, "convert", str(model), str(path)]
    if path.suffix == ".pte" and model.suffix == ".onnx":
        names = json.loads((case / "case.json").read_text()).get("input_names", [])
        for name, value in zip(names, numbered(case / "inputs")):
            if value.ndim:
                arguments += ["--shape", f"{name}={'x'.join(map(str, value.shape))}"]
    if (case / "model.ptd").exists():
        arguments += ["--data", str(case / "model.ptd")]
    return arguments


def convert(args, source, target):
    counts, notes, seconds = collections.Counter(), [], []
    for case, model in networks(args.corpus, source):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / f"model.{target}"
            arguments = command(args.smelt, case, model, path)
            begin = time.time()
            done = subprocess.run(arguments, capture_output=True, text=True)
            seconds.append(time.time() - begin)
            counts["networks"] += 1
            if done.returncode != 0:
                why = (done.stdout + done.stderr).replace(f"{model}: ", "")
                notes.append((case.name, "not written", "; ".join(why.splitlines()[:-1] or why.splitlines())[:60]))
                continue
            counts["written"] += 1
            verdict, why = check(target, path, case)
            counts[verdict] += 1
            if verdict not in ("agrees", "not checked"):
                notes.append((case.name, verdict, why))
    return counts, notes, sorted(seconds)[len(seconds) // 2] if seconds else 0


def onnx_forms():
    """Graph operators and the ONNX operators that they are written as, from the writer's tables."""
    for path in sorted((ROOT / "src/formats/onnx/writer").glob("write_*.cc")):
        for op, text in re.findall(r'\{Op::k(\w+), \w+,\s*"([^"]*)"\}', path.read_text()):
            yield op, text


def page(results, args):
    yield "# Converting models\n"
    yield "`smelt convert IN OUT` writes a model in another format; `smelt convert --help` lists the options. What the"
    yield "target has no form for is listed by operator, element types and place; then nothing is written. As TFLite and as `.pte`,"
    yield "`ZipMap` gives the values [n, c] of its maps alone: column k belongs to key k.\n"
    yield f"Networks of the corpus, {platform.machine()}, {datetime.date.today()}, by `bench/convert/convert_table.py`. A"
    yield "written file is run in its own runtime on the network's stored inputs and agrees if"
    yield "floats are within 1e-3 of the largest magnitude or the tolerance of the network's case, integers and quantized"
    yield "floats within a step; or if outputs correlate as the case asks, whose stored outputs are of kernels that round"
    yield "twice.\n"
    yield "Programs (`.pte`): nodes that XNNPACK has a form for become delegates, others calls of ATen's out variants;"
    yield "`--delegate none` gives calls alone. Shapes are static: `--shape` gives open ones a size, and what follows from it is"
    yield "computed as the program is written. Loops whose length follows from constants are unrolled, branches become jumps;"
    yield "other loops have no form. As `.bpte`, the test sets of the bundled program that was read go with it."
    yield "`bench/convert/check_pte.py` runs written programs in ExecuTorch and times them against those of its exporter.\n"
    yield "| from | to | networks | written | run and agree | differ | fail to run | not checked | median seconds |"
    yield "|---|---|---|---|---|---|---|---|---|"
    for (source, target), (c, _, median) in results.items():
        cells = [c["networks"], c["written"], c["agrees"], c["differs"], c["fails in its runtime"], c["not checked"]]
        yield f"| {source} | {target} | " + " | ".join(str(v) for v in cells) + f" | {median:.3f} |"
    yield "\n## What is missing or differs"
    for (source, target), (_, notes, _) in results.items():
        if notes:
            yield f"\n### {source} to {target}\n"
        for name, verdict, why in notes:
            yield f"- {name}: {verdict}" + (f" ({why})" if why else "")
    yield "\n## Operators as ONNX\n\n| graph operator | ONNX operators |\n|---|---|"
    for op, text in sorted(onnx_forms()):
        yield f"| {op} | {text} |"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smelt", default=str(ROOT / "build/release/bin/smelt"))
    parser.add_argument("--corpus", type=pathlib.Path, default=ROOT.parent / "shared/corpus")
    parser.add_argument("--output", type=pathlib.Path, default=ROOT / "docs/convert.md")
    parser.add_argument("--json", type=pathlib.Path)
    args = parser.parse_args()
    usage = subprocess.run([args.smelt, "convert", "x", "y", "--to", "?"], capture_output=True, text=True).stderr
    targets = [t for t in RUNTIMES if re.search(rf"\b{t}\b", usage)]
    results = {(s, t): convert(args, s, t) for s in GROUPS for t in targets if s != t}
    made = "\n".join(page(results, args)) + "\n"
    peers = re.search("<!-- peers -->.*<!-- end of peers -->\n", args.output.read_text(), re.S) if args.output.exists() else None
    if peers:  # bench/convert/peers.py wrote that part
        made = made.replace("\n## What is missing", f"\n{peers[0]}\n## What is missing", 1)
    args.output.write_text(made)
    if args.json:
        args.json.write_text(json.dumps({f"{s} {t}": dict(c) for (s, t), (c, _, _) in results.items()}, indent=1))


if __name__ == "__main__":
    main()
