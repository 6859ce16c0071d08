#!/usr/bin/env python3
"""Races smelt against ONNX Runtime and OpenVINO on .onnx models, against LiteRT on .tflite models and against ExecuTorch
on .pte programs: engines in turns, each in a process of its own.

    pip install numpy onnxruntime openvino ai-edge-litert executorch
    python3 compare.py [--threads N] [--cpus LIST] MODEL|FOLDER...

Every engine is a process that is bound to --cpus, with real-time priority where the system allows it. A figure is the
minimum over all rounds. ratio: smelt's time over the time of the best peer; below 1.0 smelt is faster. first: from the
file to the first result. memory: at its peak, beyond what the engine's process holds before it opens the model. Python
and its modules are in neither.
"""

import argparse
import importlib
import json
import math
import os
import pathlib
import platform
import resource
import subprocess
import sys
import time

TYPES = {"f32": "float32", "float": "float32", "i64": "int64", "int64": "int64", "i32": "int32", "int32": "int32"}


def example(dtype, shape, given=None):
    """A value for an input: ones of integers, which are valid indices and masks; else numbers in [0, 1). given: its
    shape, where that is open."""
    import numpy

    dtype = numpy.dtype(TYPES.get(dtype, dtype))
    shape = given or [int(d) if not isinstance(d, str) and d and d > 0 else 1 for d in shape]
    return numpy.ones(shape, dtype) if dtype.kind == "i" else numpy.random.default_rng(1).random(shape, dtype)


def onnxruntime_runner(model, threads, _, shapes):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads, options.log_severity_level = threads, 1, 4
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    for i in session.get_inputs():
        dtype = i.type.removeprefix("tensor(").removesuffix(")")
        binding.bind_cpu_input(i.name, example(dtype, i.shape, shapes.get(i.name)))
    for o in session.get_outputs():
        binding.bind_output(o.name)
    return lambda: session.run_with_iobinding(binding)


def openvino_runner(model, threads, precision, shapes):
    import openvino

    settings = {"INFERENCE_NUM_THREADS": threads, "INFERENCE_PRECISION_HINT": precision, "PERFORMANCE_HINT": "LATENCY"}
    request = openvino.Core().compile_model(model, "CPU", settings).create_infer_request()
    for i, port in enumerate(request.model_inputs):
        shape = [d.get_length() if d.is_static else 1 for d in port.get_partial_shape()]
        value = example(port.get_element_type().get_type_name(), shape, shapes.get(port.get_any_name()))
        request.set_input_tensor(i, openvino.Tensor(value))
    return request.infer


def litert_runner(model, threads, _, shapes):
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(model_path=model, num_threads=threads)
    for d in interpreter.get_input_details():
        if d["name"] in shapes:
            interpreter.resize_tensor_input(d["index"], shapes[d["name"]])
    interpreter.allocate_tensors()
    for d in interpreter.get_input_details():
        interpreter.set_tensor(d["index"], example(d["dtype"], d["shape"]))
    return interpreter.invoke


def executorch_runner(model, threads, *_):
    # Names of element types by ExecuTorch's numbers.
    names = {0: "uint8", 1: "int8", 3: "int32", 4: "int64", 6: "float32", 7: "float64", 11: "bool"}
    import torch
    from executorch.extension.pybindings import portable_lib

    portable_lib._unsafe_reset_threadpool(threads)
    module = portable_lib._load_for_executorch(model)
    meta = module.method_meta("forward")
    inputs = [meta.input_tensor_meta(i) for i in range(meta.num_inputs())]
    tensors = [torch.from_numpy(example(names[i.dtype()], i.sizes())) for i in inputs]
    return lambda: module.run_method("forward", tensors, False)


PEERS = {
    "onnxruntime": onnxruntime_runner,
    "openvino": openvino_runner,
    "litert": litert_runner,
    "executorch": executorch_runner,
}
MODULES = {
    "onnxruntime": ["numpy", "onnxruntime"],
    "openvino": ["numpy", "openvino"],
    "litert": ["numpy", "ai_edge_litert.interpreter"],
    "executorch": ["numpy", "torch", "executorch.extension.pybindings.portable_lib"],
}
FORMATS = {"onnxruntime": [".onnx"], "openvino": [".onnx"], "litert": [".tflite"], "executorch": [".pte"]}
SUFFIXES = sorted({suffix for suffixes in FORMATS.values() for suffix in suffixes})


def shape_of(text):
    """("ids", [8, 128]) of "ids=8x128"."""
    name, _, dimensions = text.rpartition("=")
    return name, [int(d) for d in dimensions.split("x")]


def child(engine, threads, seconds, model, precision, *shapes):
    """Prints the figures of one engine in this process as JSON, without the start and the memory of Python and its
    modules."""
    for module in MODULES[engine]:
        importlib.import_module(module)
    pages = int(pathlib.Path("/proc/self/statm").read_text().split()[1])
    before = pages * os.sysconf("SC_PAGE_SIZE") / 2**20
    seconds, start = float(seconds), time.perf_counter()
    run = PEERS[engine](model, int(threads), precision, dict(map(shape_of, shapes)))
    run()
    first, best, end = time.perf_counter() - start, math.inf, time.perf_counter() + seconds
    while time.perf_counter() < end or best == math.inf:
        start = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - start)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(json.dumps({"ms": best * 1e3, "first": first * 1e3, "memory": memory / 1024 - before}))


def bound(args):
    """Runs in a child before its command starts: binds it and raises its priority."""
    os.sched_setaffinity(0, args.cpus)
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(10))
    except PermissionError:
        pass


def command_output(args, command):
    done = subprocess.run(command, capture_output=True, text=True, check=False, preexec_fn=lambda: bound(args))
    if done.returncode != 0:
        raise RuntimeError((done.stderr or done.stdout).strip().splitlines()[-1][:100])
    return json.loads(done.stdout.splitlines()[-1])


def shape_options(args):
    return [word for shape in args.shape for word in ("--shape", shape)]


def measure(args, engine, binary, model, runs):
    """Figures of one round: ms, first result in ms, peak memory in MiB."""
    if engine in PEERS:
        options = [engine, args.threads, args.seconds, model, "bf16" if args.bf16 else "f32"]
        return command_output(args, [sys.executable, __file__, "--child", *map(str, options), *args.shape])
    command = [binary, "bench", str(model), "--json", "--threads", str(args.threads), "--runs", str(runs)]
    command += ["--bf16"] if args.bf16 and engine == "smelt" else []
    command += ["--fill", "ones", *shape_options(args)] if args.shape else []
    f = command_output(args, command)
    memory = (f["peak_memory_bytes"] - f.get("start_memory_bytes", 0)) / 2**20  # older commands don't say
    return {"ms": f["min_ms"], "first": f["load_ms"] + f["first_run_ms"], "memory": memory}


def race(args, model):
    """The best figures of each engine that runs the model, by name."""
    best, runs = {}, 3
    for _ in range(args.rounds):
        for engine, binary in args.engines.items():
            if engine in FORMATS and model.suffix not in FORMATS[engine]:
                continue
            try:
                figures = measure(args, engine, binary, model, runs)
            except RuntimeError as error:
                print(f"{model.stem}: {engine}: {error}")
                continue
            if engine == "smelt":
                runs = max(3, math.ceil(args.seconds * 1e3 / figures["ms"]))
            kept = best.setdefault(engine, figures)
            best[engine] = {key: min(kept[key], figures[key]) for key in kept}
    return best


def ratios(figures, key):
    peers = [figures[p][key] for p in PEERS if p in figures]
    return figures["smelt"][key] / min(peers) if peers and "smelt" in figures else math.nan


def bound_ratio(args, figures, model):
    """The ratio of an engine that computes nothing but the products, at --peak; Winograd's convolutions may beat it."""
    peers = [figures[p]["ms"] for p in PEERS if p in figures]
    if not peers:
        return math.nan
    command = [args.smelt, "inspect", str(model), "--json", *shape_options(args)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    products = json.loads(done.stdout)["multiply_adds"]
    return 2 * products / (args.peak * args.threads * 1e6) / min(peers)


def geomean(values):
    logs = [math.log(v) for v in values if not math.isnan(v)]
    return math.exp(sum(logs) / len(logs)) if logs else math.nan


def processor():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("models", nargs="+", type=pathlib.Path, help=".onnx, .tflite or .pte files, or folders with such below")
    ap.add_argument("--smelt", default="build/release/bin/smelt")
    ap.add_argument("--base", help="an older smelt command that races too")
    ap.add_argument("--threads", type=int, default=1, help="of each engine")
    ap.add_argument("--cpus", default="", help="processors to run on, 0,1,...; default: the last --threads ones")
    ap.add_argument("--rounds", type=int, default=3)
    ap.add_argument("--seconds", type=float, default=0.5, help="of measurement, per engine and round")
    ap.add_argument("--shape", action="append", default=[], help="NAME=8x128: of an input whose shape is open")
    ap.add_argument("--bf16", action="store_true", help="products in bfloat16, against OpenVINO's in bfloat16")
    ap.add_argument(
        "--peak",
        type=float,
        default=0,
        help="1e9 operations a second of a core (smelt_kernel_bench: Gop/s by share): adds the column `bound`, the ratio "
        "of an engine that computes nothing but the products, each as its definition has it",
    )
    ap.add_argument("--peers", default="")
    args = ap.parse_args()
    args.peers = args.peers or ("openvino" if args.bf16 else ",".join(PEERS))
    available = sorted(os.sched_getaffinity(0))
    args.cpus = [int(c) for c in args.cpus.split(",")] if args.cpus else available[-args.threads :]
    args.engines = {
        "smelt": args.smelt,
        **({"base": args.base} if args.base else {}),
        **dict.fromkeys(filter(None, args.peers.split(","))),
    }
    print(f"{processor()}, {time.strftime('%Y-%m-%d')}, {args.threads} thread(s)")
    columns = ["ratio", "first", "memory"] + (["bound"] if args.peak else [])
    print(f"{'ms':32}" + "".join(f"{e:>13}" for e in args.engines) + "".join(f"{c:>8}" for c in columns))
    rows = []
    for model in sorted(m for p in args.models for m in (p.rglob("*") if p.is_dir() else [p]) if m.suffix in SUFFIXES):
        figures = race(args, model)
        rows.append([ratios(figures, key) for key in ("ms", "first", "memory")])
        if args.peak:
            rows[-1].append(bound_ratio(args, figures, model))
        times = "".join(f"{figures[e]['ms']:13.3f}" if e in figures else f"{'-':>13}" for e in args.engines)
        print(
            f"{model.stem if model.stem != 'model' else model.parent.name:32}{times}"
            + "".join(f"{r:8.2f}" for r in rows[-1]),
            flush=True,
        )
    print(
        f"{'geometric mean':32}"
        + " " * 13 * len(args.engines)
        + "".join(f"{geomean(column):8.2f}" for column in zip(*rows))
    )


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child(*sys.argv[2:])
    else:
        main()
