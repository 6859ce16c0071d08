#!/usr/bin/env python3
"""Writes the networks of corpus folders as ExecuTorch programs and runs them in ExecuTorch (packages executorch, torch).

    bench/convert/check_pte.py --smelt build/release/bin/smelt ../shared/corpus/tflite/nets [--delegate xnnpack]
    bench/convert/check_pte.py --smelt build/release/bin/smelt --speed net.pte [--rounds 20]

A network is a folder with model.*, inputs/N.npy, outputs/N.npy and case.json. Its results agree if floats are within
--tolerance of the largest magnitude, or within the tolerance of case.json, and integers within the steps of case.json.
--speed takes a program of ExecuTorch's own exporter, writes it anew and times both in turns on one thread; the exit status
is 1 if the ratio of the minima is above --ratio. Exit status 1 also where less than --least of the networks agree.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import time

import numpy as np


def numbered(folder):
    return [np.load(f) for f in sorted(folder.glob("*.npy"), key=lambda f: int(f.stem))]


def load(path):
    """The program's first method; the program must live as long."""
    from executorch.runtime import Runtime
    import executorch.kernels.quantized  # noqa: F401: its operators

    program = Runtime.get().load_program(str(path))
    return program, program.load_method(sorted(program.method_names)[0])


def run(method, inputs):
    import torch

    return [y.numpy() for y in method.execute([torch.from_numpy(x) for x in inputs])]


def difference(got, want, case, tolerance):
    """Why two results differ; empty if they agree."""
    if got.shape != want.shape:
        return f"shape {got.shape}, {want.shape} expected"
    a, b = got.astype(np.float64), want.astype(np.float64)
    error = float(np.abs(a - b).max(initial=0))
    if got.dtype.kind in "iub":
        steps = max(1, case.get("atol", 0))
        return f"{error:g} steps" if error > steps else ""
    limit = max(tolerance * max(1.0, float(np.abs(b).max(initial=0))), case.get("atol", 0))
    return f"error {error:g} above {limit:g}" if not error <= limit else ""


def convert(smelt, model, out, delegate, case, inputs):
    command = [smelt, "convert", model, out, "--delegate", delegate]
    if model.suffix == ".onnx":
        for name, value in zip(case.get("input_names", []), inputs):
            if value.ndim:
                command += ["--shape", f"{name}={'x'.join(map(str, value.shape))}"]
    return subprocess.run([str(c) for c in command], capture_output=True, text=True)


def check(smelt, folder, delegate, tolerance, scratch):
    """One of "agrees", "not written: ...", "does not run: ...", "differs: ..."."""
    model = next(f for f in sorted(folder.glob("model.*")) if f.suffix in (".onnx", ".tflite", ".pte"))
    case = json.loads((folder / "case.json").read_text())
    inputs, outputs = numbered(folder / "inputs"), {int(f.stem): f for f in (folder / "outputs").iterdir()}
    done = convert(smelt, model, scratch, delegate, case, inputs)
    if done.returncode != 0:
        lines = (done.stderr + done.stdout).strip().splitlines() or ["?"]
        return "not written: " + lines[min(1, len(lines) - 1)].split(": ", 1)[-1]
    # In a process of its own: what the runtime can't run may end it.
    code = "import sys; sys.path.insert(0, sys.argv[1]); import check_pte; check_pte.child(*sys.argv[2:])"
    here = str(pathlib.Path(__file__).resolve().parent)
    child = subprocess.run([sys.executable, "-c", code, here, str(scratch), str(folder)], capture_output=True, text=True)
    if child.returncode != 0:
        lines = [x for x in child.stderr.splitlines() if "rror" in x] or [f"status {child.returncode}"]
        return "does not run: " + lines[-1][-160:]
    results = numbered(pathlib.Path(str(scratch) + ".out"))
    # An output that is a map is written as its values; those are not compared.
    arrays = [(y, outputs[i]) for i, y in enumerate(results) if outputs.get(i, folder).suffix == ".npy"]
    why = [difference(y, np.load(f), case, tolerance) for y, f in arrays]
    why = [w for w in why if w] or ([] if len(results) == len(outputs) else [f"{len(results)} results"])
    return "differs: " + why[0] if why else "agrees"


def child(path, folder):
    """Runs a program on a folder's inputs; the results go to PATH.out."""
    program, method = load(path)
    out = pathlib.Path(path + ".out")
    out.mkdir(exist_ok=True)
    for old in out.glob("*.npy"):
        old.unlink()
    for i, y in enumerate(run(method, numbered(pathlib.Path(folder) / "inputs"))):
        np.save(out / f"{i}.npy", y)
    del method, program


def speed(smelt, native, rounds):
    """Minimum milliseconds of the program and of the one written from it."""
    import torch

    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        written = pathlib.Path(folder) / "written.pte"
        subprocess.run([smelt, "convert", native, str(written)], check=True)
        loaded = [load(p) for p in (native, written)]
        folder = pathlib.Path(native).parent / "inputs"
        inputs = [torch.from_numpy(x) for x in numbered(folder)]
        best = [float("inf")] * 2
        for _ in range(rounds):
            for i, (_, method) in enumerate(loaded):
                start = time.perf_counter()
                method.execute(inputs)
                best[i] = min(best[i], 1e3 * (time.perf_counter() - start))
        return best


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="*", type=pathlib.Path)
    parser.add_argument("--smelt", required=True)
    parser.add_argument("--delegate", default="xnnpack", choices=["xnnpack", "none"])
    parser.add_argument("--tolerance", type=float, default=1e-5)
    parser.add_argument("--least", type=float, default=0, help="share of the networks that must agree")
    parser.add_argument("--speed", metavar="PTE", help="program of ExecuTorch's exporter, inputs/N.npy beside it")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--ratio", type=float, default=1.1)
    options = parser.parse_args()
    failed = False
    if options.speed:
        native, written = speed(options.smelt, options.speed, options.rounds)
        print(f"{options.speed}: native {native:.2f} ms, written {written:.2f} ms, ratio {written / native:.3f}")
        failed = written / native > options.ratio
    for group in options.folders:
        counts = {}
        with tempfile.TemporaryDirectory() as scratch:
            for folder in sorted(f for f in group.iterdir() if (f / "outputs").is_dir()):
                verdict = check(options.smelt, folder, options.delegate, options.tolerance,
                                pathlib.Path(scratch) / "written.pte")
                kind = verdict.split(":")[0]
                counts[kind] = counts.get(kind, 0) + 1
                if kind != "agrees":
                    print(f"  {folder.name}: {verdict}", flush=True)
        total = sum(counts.values())
        print(f"{group}: {total} networks, " + ", ".join(f"{n} {k}" for k, n in sorted(counts.items())))
        failed = failed or counts.get("agrees", 0) < options.least * total
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
