#!/usr/bin/env python3
"""Races smelt against ONNX Runtime and ExecuTorch at generating text with the networks of bench/models/decoder_nets.py.

pip install numpy onnxruntime executorch, and the wheel of ./dev python
python3 decode.py [--threads N] [--cpus LIST] [--tokens N] FOLDER

Every engine is a process of its own, bound to --cpus. It reads a prompt and generates tokens greedily, one a run; the
caches of .onnx grow with each. Figures are those of the best round: tokens a second by the median of the second half of
the tokens, milliseconds from the file to the first token, and the peak of resident memory. How many of the first tokens
agree is printed: products of int8 rows round differently, and scores of random weights lie close together.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

PROMPT = [3, 14, 15, 92, 65, 35, 89, 79]


# Each gives the time after its imports, when the model begins to load, and step(tokens, position) -> the next token.


def onnx_steps(engine, model, threads):
    import numpy

    if engine == "smelt":
        import smelt.onnxruntime as onnxruntime
    else:
        import onnxruntime
    begin = time.perf_counter()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads, options.log_severity_level = threads, 1, 4
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    caches = [i.name for i in session.get_inputs() if i.name.startswith("past")]
    shape = next(i.shape for i in session.get_inputs() if i.name == caches[0])
    values = {name: numpy.zeros([1, shape[1], 0, shape[3]], numpy.float32) for name in caches}

    def step(tokens, position):
        feeds = {"input_ids": numpy.array([tokens]), "attention_mask": numpy.ones((1, position + len(tokens)), "int64")}
        scores, *present = session.run(None, feeds | values)
        values.update(zip(caches, present))
        return int(scores[0, -1].argmax())

    return begin, step


def smelt_program_steps(model, threads):
    import numpy
    import smelt

    begin = time.perf_counter()
    session = smelt.load(model).session(threads=threads)

    def step(tokens, position):
        scores = session.run(numpy.array([tokens]), numpy.array([position]))[0]
        return int(scores.reshape(-1, scores.shape[-1])[-1].argmax())

    return begin, step


def executorch_steps(model, threads):
    import executorch.kernels.quantized  # noqa: F401, registers operators
    import torch
    from executorch.extension.llm.custom_ops import custom_ops  # noqa: F401
    from executorch.extension.pybindings import portable_lib

    begin = time.perf_counter()
    torch.set_num_threads(threads)
    module = portable_lib._load_for_executorch(str(model))

    def step(tokens, position):
        scores = module.run_method("forward", (torch.tensor([tokens]), torch.tensor([position])))[0]
        return int(scores.reshape(-1, scores.shape[-1])[-1].argmax())

    return begin, step


def child(engine, model, threads, count):
    """Prints the figures of one engine in this process as JSON."""
    if model.endswith(".onnx"):
        begin, step = onnx_steps(engine, model, threads)
    else:
        steps = smelt_program_steps if engine == "smelt" else executorch_steps
        begin, step = steps(model, threads)
    tokens, fresh, position, times = [], PROMPT, 0, []
    while len(tokens) < count:
        start = time.perf_counter()
        token = step(fresh, position)
        times.append(time.perf_counter() - start)
        if not tokens:
            first = time.perf_counter() - begin
        position += len(fresh)
        fresh = [token]
        tokens.append(token)
    late = sorted(times[count // 2 :])
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(json.dumps({"median": late[len(late) // 2], "first": first, "memory": memory, "tokens": tokens}))


def measure(engine, model, options):
    command = [sys.executable, __file__, "--child", engine, "--threads", str(options.threads), "--tokens"]
    command += [str(options.tokens), str(model)]
    cpus = {int(c) for c in options.cpus.split(",")}
    done = subprocess.run(command, capture_output=True, text=True, preexec_fn=lambda: os.sched_setaffinity(0, cpus))
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["no reason"])[-1]
        print(f"{model.name}: {engine} left out: {reason}", file=sys.stderr)
        return None
    return json.loads(done.stdout.splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--cpus", default="1", help="processors that every engine is bound to, such as 0,1")
    parser.add_argument("--tokens", type=int, default=96)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        return child(options.child, str(options.folder), options.threads, options.tokens)
    for model in sorted(options.folder.glob("decoder.*")):
        peer = "onnxruntime" if model.suffix == ".onnx" else "executorch"
        best = {}
        for _ in range(options.rounds):
            for engine in ("smelt", peer):
                figures = measure(engine, model, options)
                if figures and (engine not in best or figures["median"] < best[engine]["median"]):
                    best[engine] = figures
        for engine, f in best.items():
            speed, first = 1 / f["median"], f["first"] * 1e3
            print(f"{model.name:14} {engine:12} {speed:8.1f} tokens/s, first {first:8.1f} ms, memory {f['memory']} MB")
        if len(best) == 2:
            ours, theirs = (best[e]["tokens"] for e in ("smelt", peer))
            same = next((i for i, pair in enumerate(zip(ours, theirs)) if pair[0] != pair[1]), len(ours))
            ratio = best[peer]["median"] / best["smelt"]["median"]
            print(f"{model.name:14} smelt is {ratio:.2f} times as fast; the first {same} of {len(ours)} tokens agree")
    return 0


if __name__ == "__main__":
    sys.exit(main())
