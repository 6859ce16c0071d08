#!/usr/bin/env python3
"""Mutates models of the golden cases and runs them: every result but exit status 0 or 1 within the limits is a finding.

    tests/fuzz/mutate.py --smelt build/asan/bin/smelt [--seconds 60] [--seed 1] [--corpus build/asan/corpus] [--keep DIR]
                         [--round-trips]

A third of the models, or all with --round-trips, is written in another format; what is written is written once more in
the next one. A written file that cannot be read again, and a file that a failed conversion leaves, are findings too.
"""
import argparse
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

MODELS = (".tflite", ".onnx", ".pte", ".xnn", ".vkd", ".bp", ".bpte", ".ort")


def mutate(data, rng):
    data = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 4, 16))):
        kind, at = rng.randrange(5), rng.randrange(len(data))
        if kind == 0:
            data[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            data[at] = rng.choice((0, 1, 0x7F, 0x80, 0xFF))
        elif kind == 2:
            data[at:at + 4] = rng.choice((0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, len(data))).to_bytes(4, "little")
        elif kind == 3 and len(data) > 8:
            del data[at:at + rng.randrange(1, 8)]
        else:
            data = data[:max(at, 8)] if rng.random() < 0.2 else data
        if not data:
            data = bytearray(b"\0")
    return bytes(data)


def limits():
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def ask(command):
    """Why the command's end is a finding, or None; and its exit status."""
    try:
        p = subprocess.run(command, capture_output=True, timeout=30, preexec_fn=limits)
    except subprocess.TimeoutExpired:
        return "no answer in 30 s", None
    why = p.stderr.decode(errors="replace")[-2000:]
    # A custom operator is written by its name; reading it back needs its user.
    unreadable = "written model: " in why and "is not known: register it" not in why
    bad = p.returncode not in (0, 1) or (p.returncode == 1 and not why.strip()) or unreadable
    return (f"status {p.returncode}: {why}" if bad else None), p.returncode


def run_model(smelt, path, folder, rng):
    return ask([smelt, "run", str(path), "--limit-seconds", "3", "--limit-memory", "200000000", *tolerance(rng)])[0]


def tolerance(rng):
    return rng.choice(([], ["--tolerate", "all"]))


def convert_twice(smelt, path, folder, rng):
    """Writes the model in one format, and the written file in the next."""
    options = rng.choice(([], [], ["--simplify"], ["--fp16-weights"])) + tolerance(rng)
    targets = rng.choice((("onnx", "tflite", "onnx"), ("tflite", "onnx", "tflite")))
    for step, target in enumerate(targets):
        out = Path(folder) / f"written{step}.{target}"
        out.unlink(missing_ok=True)
        why, status = ask([smelt, "convert", str(path), str(out), *(options if step == 0 else [])])
        if why or status is None:
            return f"{' -> '.join(targets[:step + 1])}: {why}"
        if status != 0:
            return f"a failed conversion leaves {out.name}" if out.exists() else None
        path = out
    return None


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--smelt", required=True)
    ap.add_argument("--corpus", type=Path)
    ap.add_argument("--seconds", type=float, default=60)
    ap.add_argument("--seed", type=int, default=1)
    ap.add_argument("--round-trips", action="store_true", help="conversions alone")
    ap.add_argument("--keep", type=Path, default=Path("build/fuzz-findings"))
    args = ap.parse_args()
    corpus = args.corpus or Path(args.smelt).resolve().parents[1] / "corpus"
    models = sorted(p for p in corpus.rglob("model.*") if p.suffix in MODELS and 16 < p.stat().st_size < 100_000)
    if not models:
        sys.exit(f"no models below {corpus}: build the tests first")
    rng, end, runs, found = random.Random(args.seed), time.time() + args.seconds, 0, 0
    with tempfile.TemporaryDirectory() as tmp:
        while time.time() < end:
            source = rng.choice(models)
            path = Path(tmp) / f"model{source.suffix}"
            path.write_bytes(mutate(source.read_bytes(), rng))
            convert = args.round_trips or rng.random() < 0.3
            why = (convert_twice if convert else run_model)(args.smelt, path, tmp, rng)
            runs += 1
            if why:
                found += 1
                args.keep.mkdir(parents=True, exist_ok=True)
                kept = args.keep / f"{source.parent.name}-{runs}{source.suffix}"
                kept.write_bytes(path.read_bytes())
                print(f"FINDING {kept}\n{why}", flush=True)
    print(f"{runs} runs, {found} findings")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
