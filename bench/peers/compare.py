"""Times models with `smelt bench` and with a peer, in turns, and prints a table. Used by ort.py and litert.py."""
import argparse
import json
import math
import pathlib
import subprocess
import sys
import time

import numpy as np


def models_of(paths, name):
    """Model files: the paths themselves, and all files called `name` below folders."""
    found = []
    for path in map(pathlib.Path, paths):
        found += sorted(path.rglob(name)) if path.is_dir() else [path]
    return found


def case_inputs(model):
    """The inputs of a golden case, which lie beside its model: arrays in the model's order, or None."""
    files = sorted(model.parent.glob("inputs/*.npy"), key=lambda f: int(f.stem))
    return [np.load(f) for f in files] if files else None


def median_ms(run, runs):
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        run()
        times.append((time.perf_counter() - start) * 1e3)
    return sorted(times)[len(times) // 2]


class Row:
    """Figures of one model in milliseconds; of several rounds the best median counts, which other load disturbs least."""

    def __init__(self, name):
        self.name, self.ours, self.theirs = name, math.inf, math.inf
        self.our_start, self.their_start = math.inf, math.inf

    ratio = property(lambda self: self.ours / self.theirs)


def smelt_bench(args, model, inputs, runs):
    command = [args.smelt, "bench", str(model), "--json", "--threads", str(args.threads), "--runs", str(runs)]
    if inputs is not None:
        command += ["--input", *[str(model.parent / "inputs" / f"{i}.npy") for i in range(len(inputs))]]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError((done.stderr or done.stdout).strip().splitlines()[-1])
    return json.loads(done.stdout)


def measure(args, model, make_peer):
    """make_peer(model, inputs, threads) loads the model with the peer; it returns a function that runs it once."""
    inputs = case_inputs(model)
    row = Row(model.parent.name if model.stem == "model" else model.stem)
    run = make_peer(model, inputs, args.threads)
    run()
    guess = max(median_ms(run, 3), 1e-3)
    runs = max(5, min(2000, int(args.milliseconds / guess)))
    for _ in range(args.rounds):
        figures = smelt_bench(args, model, inputs, runs)
        row.ours = min(row.ours, figures["median_ms"])
        row.our_start = min(row.our_start, figures["load_ms"] + figures["first_run_ms"])
        row.theirs = min(row.theirs, median_ms(run, runs))
        if args.start:
            command = [sys.executable, sys.argv[0], "--start-only", "--threads", str(args.threads), str(model)]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            row.their_start = min(row.their_start, float(done.stdout.split()[-1]))
    return row


def start_ms(model, make_peer, threads):
    """Load and first run in a process that ran nothing before, as `smelt bench` is one."""
    inputs = case_inputs(model)
    start = time.perf_counter()
    make_peer(model, inputs, threads)()
    return (time.perf_counter() - start) * 1e3


def main(doc, model_name, peer_name, make_peer):
    ap = argparse.ArgumentParser(description=doc)
    ap.add_argument("models", nargs="+", help=f"model files, or folders with {model_name} in them")
    ap.add_argument("--smelt", default="build/release/bin/smelt")
    ap.add_argument("--threads", type=int, default=1, help="of each side")
    ap.add_argument("--rounds", type=int, default=3)
    ap.add_argument("--milliseconds", type=float, default=60, help="measured time of a model, each round and side")
    ap.add_argument("--above", type=float, default=0, help="list only ratios above this")
    ap.add_argument("--start", action="store_true", help="also load + first run, each in a fresh process")
    ap.add_argument("--start-only", action="store_true", help=argparse.SUPPRESS)
    args = ap.parse_args()
    if args.start_only:
        print(start_ms(pathlib.Path(args.models[0]), make_peer, args.threads))
        return
    rows = []
    for model in models_of(args.models, model_name):
        try:
            rows.append(measure(args, model, make_peer))
        except Exception as e:  # a model that one side does not run is no reason to stop
            print(f"skipped {model.parent.name}: {str(e).splitlines()[0][:120]}")
    rows.sort(key=lambda r: -r.ratio)
    start = f"  {'smelt start':>12}  {peer_name + ' start':>16}" if args.start else ""
    print(f"{'model':52}  {'smelt ms':>10}  {peer_name + ' ms':>14}  {'ratio':>6}{start}")
    for r in rows:
        start = f"  {r.our_start:12.2f}  {r.their_start:16.2f}" if args.start else ""
        if r.ratio >= args.above:
            print(f"{r.name:52}  {r.ours:10.4f}  {r.theirs:14.4f}  {r.ratio:6.2f}{start}")
    if rows:
        mean = math.exp(sum(math.log(r.ratio) for r in rows) / len(rows))
        above = [sum(r.ratio > limit for r in rows) for limit in (1, 2)]
        print(f"{len(rows)} models, {above[0]} above 1.0, {above[1]} above 2.0, geometric mean {mean:.3f}")
