#!/usr/bin/env python3
"""Races smelt against ONNX Runtime, OpenVINO, MNN and ncnn on .onnx models, LiteRT and MNN on .tflite models and
ExecuTorch on .pte programs: engines in turns, each in a process of its own.

    pip install numpy onnxruntime openvino ai-edge-litert executorch MNN ncnn pnnx
    python3 compare.py [--threads N] [--cpus LIST] [--peers LIST] [--json FILE] MODEL|FOLDER...

Every engine is a process that is bound to --cpus, with real-time priority where the system allows it. A figure is the
minimum over all rounds. ratio: smelt's time over the time of the best peer; below 1.0 smelt is faster. first: from the
file to the first result. memory: at its peak, beyond what the engine's process holds before it opens the model. Python
and its modules are in neither. MNN and ncnn read their own formats: a model is converted first (MNN's converter, pnnx),
which does not count, and their first result is that from the converted file.

A peer that does not convert or run a model, or whose outputs are far from those of the format's own engine, is left out
for that model, with the reason.
"""

import argparse
import json
import math
import os
import pathlib
import platform
import re
import subprocess
import sys
import tempfile
import time

from engines import PEERS, Refused, child, converted, difference, reason_of
from families import FIGURES, kind_of, precision_of, summary, worst

SUFFIXES = sorted({suffix for peer in PEERS.values() for suffix in peer.formats})
REFERENCES = ("onnxruntime", "litert", "executorch")  # their outputs are what those of the other peers are held against
LARGEST_DIFFERENCE = 0.5  # of quantized networks that round differently; other results are farther off


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
        raise Refused(reason_of(done))
    return json.loads(done.stdout.splitlines()[-1])


def shape_options(args):
    return [word for shape in args.shape for word in ("--shape", shape)]


def measure(args, engine, binary, model, runs):
    """Figures of one round: ms, first result in ms, peak memory in MiB; of peers a sample of the outputs too."""
    if engine in PEERS:
        file = converted(engine, model, args.converted, args.shape)
        options = [engine, args.threads, args.seconds, file, "bf16" if args.bf16 else "f32"]
        return command_output(args, [sys.executable, __file__, "--child", *map(str, options), *args.shape])
    command = [binary, "bench", str(model), "--json", "--threads", str(args.threads), "--runs", str(runs)]
    command += ["--bf16"] if args.bf16 and engine == "smelt" else []
    command += ["--fill", "ones", *shape_options(args)] if args.shape else []
    done = command_output(args, command)
    memory = (done["peak_memory_bytes"] - done.get("start_memory_bytes", 0)) / 2**20  # older commands don't say
    return {"ms": done["min_ms"], "first": done["load_ms"] + done["first_run_ms"], "memory": memory}


def race(args, model):
    """(the best figures of each engine that runs the model, why others do not), both by name."""
    best, left_out, runs = {}, {}, 3
    for _ in range(args.rounds):
        for engine, binary in args.engines.items():
            if engine in left_out or (engine in PEERS and model.suffix not in PEERS[engine].formats):
                continue
            try:
                figures = measure(args, engine, binary, model, runs)
            except Refused as reason:
                left_out[engine] = str(reason)
                best.pop(engine, None)
                continue
            if engine == "smelt":
                runs = max(3, math.ceil(args.seconds * 1e3 / figures["ms"]))
            kept = best.setdefault(engine, figures)
            best[engine] = figures | {key: min(kept[key], figures[key]) for key in ("ms", "first", "memory")}
    outputs = {engine: figures.pop("outputs", None) for engine, figures in best.items()}
    reference = next((outputs[engine] for engine in REFERENCES if outputs.get(engine)), None)
    for engine, values in outputs.items():
        gap = difference(reference, values) if reference and values is not None else 0
        if gap > LARGEST_DIFFERENCE:
            away = f"are {gap:.1f} of their size away from" if math.isfinite(gap) else "cannot be compared with"
            left_out[engine] = f"its outputs {away} those of the format's own engine"
            del best[engine]
    return best, left_out


def ratio(figures, key):
    peers = [figures[p][key] for p in PEERS if p in figures]
    return figures["smelt"][key] / min(peers) if peers and "smelt" in figures else None


def bound_ratio(args, figures, model):
    """The ratio of an engine that computes nothing but the products, at --peak; Winograd's convolutions may beat it."""
    peers = [figures[p]["ms"] for p in PEERS if p in figures]
    if not peers:
        return None
    command = [args.smelt, "inspect", str(model), "--json", *shape_options(args)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    products = json.loads(done.stdout)["multiply_adds"]
    return 2 * products / (args.peak * args.threads * 1e6) / min(peers) or None


def processor():
    """The name, and what tells processors of the same name apart."""
    facts = {}
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        key, _, value = line.partition(":")
        facts.setdefault(key.strip(), value.strip())
    if "model name" not in facts:
        return platform.machine()
    units = [u for u in ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "avx512_fp16", "amx_int8", "amx_bf16")]
    has = [u for u in units if u in facts.get("flags", "").split()]
    return f"{facts['model name']}, family {facts['cpu family']} model {facts['model']} ({', '.join(has)})"


def models_of(paths):
    return sorted(m for p in paths for m in (p.rglob("*") if p.is_dir() else [p]) if m.suffix in SUFFIXES)


def versions(args):
    """What each engine is, by name. Peers that are not installed are left out of the race, with a word."""
    found = {}
    for engine, binary in list(args.engines.items()):
        if engine in PEERS:
            found[engine] = PEERS[engine].version()
            if found[engine] is None:
                print(f"{engine} is not installed: left out", flush=True)
                del args.engines[engine], found[engine]
        else:
            said = subprocess.run([binary, "--version"], capture_output=True, text=True, check=False).stdout
            found[engine] = said.strip().removeprefix("smelt ")
    return found


def name_of(model):
    return model.stem if model.stem != "model" else model.parent.name


def shown(values, width=8):
    return "".join(f"{'-':>{width}}" if v is None else f"{v:{width}.2f}" for v in values)


def print_network(args, network, keys):
    times = (network["figures"].get(engine) for engine in args.engines)
    row = "".join(f"{f['ms']:13.3f}" if f else f"{'-':>13}" for f in times)
    print(f"{network['name']:32}{row}{shown(network.get(key) for key in keys)}", flush=True)
    for engine, reason in network["left_out"].items():
        print(f"  {engine} left out: {reason}", flush=True)


def print_summary(networks, keys):
    """Geometric means of each family, then the networks of the highest ratios."""
    print(f"\n{'geometric means':32}{'networks':>8}" + "".join(f"{key:>8}" for key in keys))
    for title, count, means in summary(networks):
        print(f"{title:32}{count:8}{shown(m for key, m in zip(FIGURES, means) if key in keys)}")
    if highest := worst(networks):
        print("\nhighest ratios")
    for n in highest:
        best = min((n["figures"][p]["ms"], p) for p in PEERS if p in n["figures"])
        print(f"{n['name']:32}{n['ratio']:8.2f}  {n['figures']['smelt']['ms']:.3f} ms, {best[1]} {best[0]:.3f} ms")


def parsed():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument(
        "models", nargs="+", type=pathlib.Path, help=".onnx, .tflite or .pte files, or folders with such below"
    )
    ap.add_argument("--smelt", default="build/release/bin/smelt")
    ap.add_argument("--base", help="an older smelt command that races too; column `base`: the time over its time")
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
        help="1e9 operations a second of a core (smelt_kernel_bench: Gop/s by share): adds the column `bound`, the "
        "ratio of an engine that computes nothing but the products, each as its definition has it",
    )
    ap.add_argument("--peers", help=f"names of peers, by commas; default: {','.join(PEERS)}; with --bf16 openvino")
    ap.add_argument(
        "--converted", type=pathlib.Path, help="folder that keeps converted models; default: a temporary one"
    )
    ap.add_argument("--convert-only", action="store_true", help="fill --converted and measure nothing")
    ap.add_argument("--json", type=pathlib.Path, help="file to write all figures to, for report.py")
    ap.add_argument("--set", default="", help="what the networks have in common, for --json: 'onnx int8'")
    ap.add_argument("--add", action="store_true", help="keep the networks of FILE that are not measured now")
    args = ap.parse_args()
    if args.peers is None:
        args.peers = "openvino" if args.bf16 else ",".join(PEERS)
    names = list(filter(None, args.peers.split(",")))
    if unknown := sorted(set(names) - set(PEERS)):
        ap.error(f"no peer {', '.join(unknown)}; there are {', '.join(PEERS)}")
    available = sorted(os.sched_getaffinity(0))
    args.cpus = [int(c) for c in args.cpus.split(",")] if args.cpus else available[-args.threads :]
    args.models = models_of(args.models)
    suffixes = {model.suffix for model in args.models}
    names = [name for name in names if suffixes & set(PEERS[name].formats)]
    args.engines = {"smelt": args.smelt, **({"base": args.base} if args.base else {}), **dict.fromkeys(names)}
    return args


def convert_all(args):
    for model in args.models:
        for engine in args.engines:
            if engine in PEERS and model.suffix in PEERS[engine].formats and PEERS[engine].converter:
                try:
                    print(f"{name_of(model)}: {converted(engine, model, args.converted, args.shape)}", flush=True)
                except Refused as reason:
                    print(f"{name_of(model)}: {engine}: {reason}", flush=True)


def written(args, report):
    """Writes the report; with --add the networks that the file has of another time stay."""
    if args.add and args.json.exists():
        older = {(n["file"], n["name"]): n for n in json.loads(args.json.read_text())["networks"]}
        networks = older | {(n["file"], n["name"]): n for n in report["networks"]}
        report["networks"] = [networks[key] for key in sorted(networks)]
    args.json.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(report, indent=1)
    # A list of numbers or an engine's figures on one line.
    args.json.write_text(re.sub(r"[{\[]\s+([^{}\[\]]+?)\s+[}\]]", lambda m: re.sub(r"\s+", " ", m[0]), text) + "\n")


def main():
    args = parsed()
    report = {"processor": processor(), "date": time.strftime("%Y-%m-%d"), "set": args.set, "threads": args.threads}
    report |= {"cpus": args.cpus, "rounds": args.rounds, "seconds": args.seconds, "bf16": args.bf16, "peak": args.peak}
    report |= {"shapes": args.shape, "engines": versions(args), "networks": []}
    print(f"{report['processor']}, {report['date']}, {args.threads} thread(s)")
    print(", ".join(f"{engine} {version}" for engine, version in report["engines"].items()))
    asked_for = {"bound": args.peak, "base": args.base}
    keys = [key for key in FIGURES if asked_for.get(key, True)]
    with tempfile.TemporaryDirectory() as temporary:
        args.converted = args.converted or pathlib.Path(temporary)
        if args.convert_only:
            return convert_all(args)
        print(f"{'ms':32}" + "".join(f"{e:>13}" for e in args.engines) + "".join(f"{key:>8}" for key in keys))
        for model in args.models:
            figures, left_out = race(args, model)
            name = " ".join([name_of(model), *dict.fromkeys(shape.rpartition("=")[2] for shape in args.shape)])
            network = {"name": name, "file": model.name, "kind": kind_of(name), "precision": precision_of(name)}
            network |= {"ratio": ratio(figures, "ms"), "first": ratio(figures, "first")}
            network |= {"memory": ratio(figures, "memory"), "figures": figures, "left_out": left_out}
            if "smelt" in figures and "base" in figures:
                network["base"] = figures["smelt"]["ms"] / figures["base"]["ms"]
            if args.peak:
                network["bound"] = bound_ratio(args, figures, model)
            report["networks"].append(network)
            print_network(args, network, keys)
    print_summary(report["networks"], keys)
    if args.json:
        written(args, report)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child(*sys.argv[2:])
    else:
        main()
