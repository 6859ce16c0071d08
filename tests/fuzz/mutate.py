#!/usr/bin/env python3
"""Mutates models of the golden cases and runs them: every result but exit status 0 or 1 within the limits is a finding.

    tests/fuzz/mutate.py --smelt build/asan/bin/smelt [--seconds 60] [--seed 1] [--corpus build/asan/corpus] [--keep DIR]
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


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--smelt", required=True)
    ap.add_argument("--corpus", type=Path)
    ap.add_argument("--seconds", type=float, default=60)
    ap.add_argument("--seed", type=int, default=1)
    ap.add_argument("--keep", type=Path, default=Path("fuzz-findings"))
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
            command = [args.smelt, "run", str(path), "--limit-seconds", "3", "--limit-memory", "200000000"]
            if rng.random() < 0.3:
                command = [args.smelt, "convert", str(path), str(Path(tmp) / "written.onnx")]
            command += rng.choice(([], ["--tolerate", "all"]))
            try:
                p = subprocess.run(command, capture_output=True, timeout=30, preexec_fn=limits)
                bad = p.returncode not in (0, 1) or (p.returncode == 1 and not p.stderr.strip()) or b"written model: " in p.stderr
                why = p.stderr.decode(errors="replace")[-2000:]
            except subprocess.TimeoutExpired:
                bad, why = True, "no answer in 30 s"
            runs += 1
            if bad:
                found += 1
                args.keep.mkdir(parents=True, exist_ok=True)
                kept = args.keep / f"{source.parent.name}-{runs}{source.suffix}"
                kept.write_bytes(path.read_bytes())
                print(f"FINDING {kept}\n{why}", flush=True)
    print(f"{runs} runs, {found} findings")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
