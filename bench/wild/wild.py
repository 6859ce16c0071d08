#!/usr/bin/env python3
"""Runs public models in smelt and in the runtime of their format, side by side.

    pip install numpy onnxruntime ai-edge-litert [executorch]
    wild.py fetch FOLDER [--mirrors FOLDER]   copies the models of models.txt to FOLDER
    wild.py run FOLDER [--smelt COMMAND] [--only REGEX] [--results FILE]
    wild.py table FILE [--all]                the results as a table
    wild.py reference-time FOLDER|MODEL...    share of the time that is spent in reference kernels

models.txt has one model a line: sha256, format, bytes, kind, origin, which is `owner/name@commit:path` or
`pypi:name==version:path`. A result is one of: agree, differ, slow (agrees), refused here, refused by the peer, refused
by both, crash.
"""

import argparse
import collections
import concurrent.futures
import json
import pathlib
import re
import subprocess
import sys
import tempfile

import numpy as np
import sources

HERE = pathlib.Path(__file__).resolve().parent
TOLERANCE = 1e-3  # of the largest magnitude of an output, at least 0.001
TOLERANCE_OF_HALVES = 2e-2  # the same of float16 outputs
SLOW = 1.5  # times the peer's time, where that is more than SLOW_MS
SLOW_MS = 0.2
CONTROL_FLOW = ("If", "Loop", "While", "Scan", "Call")  # their time is that of the nodes inside


def last_line(text):
    lines = text.strip().splitlines()
    return lines[-1][:300] if lines else ""


def call(command, seconds):
    """Exit status (None: out of time), standard output, last line of standard error."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False, errors="replace")
    except subprocess.TimeoutExpired:
        return None, "", f"no result after {seconds} s"
    return done.returncode, done.stdout, last_line(done.stderr)


def arrays_of(folder):
    return [np.load(f) for f in sorted(folder.glob("*.npy"), key=lambda f: int(f.stem))]


def distance(got, want):
    """How far two outputs are apart in units of the tolerance, or what else differs."""
    if got.shape != want.shape:
        return f"shape {list(got.shape)}, peer {list(want.shape)}"
    if got.dtype.kind in "SUO" or want.dtype.kind in "SUO":
        return 0.0 if got.astype(str).tolist() == want.astype(str).tolist() else "strings differ"
    tolerance = TOLERANCE_OF_HALVES if want.dtype == np.float16 else TOLERANCE
    kind = np.complex128 if want.dtype.kind == "c" else np.float64
    got, want = got.astype(kind), want.astype(kind)
    finite = np.isfinite(want)
    if (np.isfinite(got) != finite).any():
        return f"{int((np.isfinite(got) != finite).sum())} of {want.size} values not finite on one side"
    if not finite.any():
        return 0.0
    return float(np.abs(got - want)[finite].max() / (tolerance * max(np.abs(want[finite]).max(), 1e-3)))


def compare(got, want):
    """The largest distance of all outputs, or the first other difference."""
    if len(got) != len(want):
        return f"{len(got)} outputs, peer {len(want)}"
    distances = [distance(g, w) for g, w in zip(got, want, strict=True)]
    return next((d for d in distances if isinstance(d, str)), max(distances, default=0.0))


def agrees(apart):
    return not isinstance(apart, str) and apart <= 1


def smelt_ms(args, model, inputs, milliseconds):
    runs = max(3, min(500, int(1e3 * args.seconds / max(milliseconds, 1e-3))))
    status, out, _ = call([args.smelt, "bench", str(model), "--json", "--runs", str(runs), *inputs], args.limit)
    return json.loads(out)["min_ms"] if status == 0 else None


def judge(args, model, peer, folder):
    """One result: class, distance or message, times."""
    inputs = sorted((folder / "in").glob("*.npy"), key=lambda f: int(f.stem))
    flags = ["--input", *map(str, inputs)] if inputs else []
    command = [args.smelt, "run", str(model), "--output-dir", str(folder / "smelt"), *flags]
    status, _, message = call(command, args.limit)
    if status not in (0, 1):
        return {"class": "crash" if status is not None else "slow", "here": message or f"exit status {status}"}
    if status == 1:
        return {"class": "refused by both" if "error" in peer else "refused here", "here": message}
    if "error" in peer:
        return {"class": "refused by the peer", "there": peer["error"]}
    got = arrays_of(folder / "smelt")
    apart = {name: compare(got, arrays_of(folder / name)) for name in ("out", "ref") if (folder / name).exists()}
    result = {"apart": apart, "peer_ms": peer["ms"], "class": "agree"}
    if not any(map(agrees, apart.values())):
        result["class"] = "differ"
    if peer["ms"] is not None:
        result["ms"] = smelt_ms(args, model, flags, peer["ms"])
        slower = result["ms"] is not None and result["ms"] > max(SLOW * peer["ms"], peer["ms"] + SLOW_MS)
        if slower and result["class"] == "agree":
            result["class"] = "slow"
    return result


def measure(args, model):
    with tempfile.TemporaryDirectory(prefix="wild") as folder:
        command = [sys.executable, str(HERE / "peer.py"), str(model), folder, str(args.seconds)]
        status, out, message = call(command, args.limit)
        try:
            peer = json.loads(last_line(out))
        except ValueError:
            peer = {"error": message if status is None else f"crash, exit status {status}"}
        return {"model": model.name, **judge(args, model, peer, pathlib.Path(folder))}


def run(args):
    listed = {f"{m.sha256[:16]}.{m.format}": m for m in sources.read(HERE / "models.txt")}
    models = [f for f in sorted(args.folder.iterdir()) if f.suffix.lstrip(".") in sources.FORMATS]
    if args.only:
        described = {f: f"{f.name} {listed[f.name].text()}" if f.name in listed else f.name for f in models}
        models = [f for f in models if re.search(args.only, described[f])]
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool, args.results.open("a") as file:
        for result in pool.map(lambda m: measure(args, m), models):
            file.write(json.dumps(result) + "\n")
            file.flush()


def detail(result):
    if "apart" in result:
        shown = {k: v if isinstance(v, str) else f"{v:.2g} tolerances" for k, v in result["apart"].items()}
        text = "; ".join(f"{k}: {v}" for k, v in shown.items())
        if result.get("ms") and result.get("peer_ms"):
            text += f"; {result['ms']:.3f} ms, peer {result['peer_ms']:.3f} ms"
        return text
    return result.get("here") or result.get("there", "")


def table(args):
    listed = {f"{m.sha256[:16]}.{m.format}": m for m in sources.read(HERE / "models.txt")}
    results = {r["model"]: r for r in map(json.loads, args.results.read_text().splitlines())}  # the latest counts
    for result in sorted(results.values(), key=lambda r: (r["class"], r["model"])):
        if args.all or result["class"] not in ("agree", "refused by the peer", "refused by both"):
            model = listed.get(result["model"])
            print(f"| {result['model']} | {model.origin if model else ''} | {result['class']} | {detail(result)} |")
    kinds = collections.defaultdict(collections.Counter)
    for name, result in results.items():
        kinds[listed[name].kind if name in listed else "unlisted"][result["class"]] += 1
        kinds["all"][result["class"]] += 1
    classes = sorted(kinds["all"])
    print("\n| kind | " + " | ".join(classes) + " |\n|" + "---|" * (len(classes) + 1))
    for kind in sorted(kinds, key=lambda k: (k == "all", k)):
        print(f"| {kind} | " + " | ".join(str(kinds[kind][c]) for c in classes) + " |")


def models_below(paths):
    for path in paths:
        files = sorted(path.rglob("*")) if path.is_dir() else [path]
        yield from (f for f in files if f.suffix.lstrip(".") in sources.FORMATS)


def profiled_nodes(args, model, profile):
    """The executed nodes of a model as the profile has them, without those that only run others; None: refused."""
    command = [args.smelt, "bench", str(model), "--runs", "5", "--json", "--profile", str(profile)]
    if call(command, args.limit)[0] != 0:
        return None
    return [n for n in json.loads(profile.read_text()) if n["op"] not in CONTROL_FLOW]


def reference_time(args):
    """Prints for each model with reference kernels their share of the time of a run, then the share of all together."""
    total, reference, shares, by_op = 0.0, 0.0, [], collections.Counter()
    with tempfile.TemporaryDirectory() as folder:
        for model in models_below(args.models):
            nodes = profiled_nodes(args, model, pathlib.Path(folder) / "profile.json")
            if nodes is None:
                continue
            whole = sum(n["micros_per_run"] for n in nodes) / 1e3
            slow = [n for n in nodes if n["kernel"] == "reference"]
            part = sum(n["micros_per_run"] for n in slow) / 1e3
            total, reference = total + whole, reference + part
            for n in slow:
                by_op[n["op"]] += n["micros_per_run"] / 1e3
            shares.append((part / whole if whole else 0.0, part, model))
    for share, part, model in sorted(shares, reverse=True):
        if share > 0.01:
            print(f"{share:7.1%} {part:9.3f} ms  {model}")
    for op, part in by_op.most_common(20):
        print(f"{part:9.3f} ms  {op}")
    print(f"{len(shares)} models, {total:.1f} ms in all, {reference:.1f} ms in reference kernels")
    print(f"share: {reference / total:.2%}" if total else "no model ran")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    fetch = commands.add_parser("fetch")
    fetch.add_argument("folder", type=pathlib.Path)
    fetch.add_argument("--mirrors", type=pathlib.Path, help="folder of git repositories owner+name")
    fetch.add_argument("--only", default="", help="regular expression that a line of models.txt matches")
    side = commands.add_parser("run")
    side.add_argument("folder", type=pathlib.Path)
    side.add_argument("--only", default="", help="regular expression that file name or line of models.txt matches")
    side.add_argument("--results", type=pathlib.Path, default="wild.jsonl", help="results are appended here")
    side.add_argument("--jobs", type=int, default=1, help="models at a time; times are reliable with 1 only")
    side.add_argument("--seconds", type=float, default=0.2, help="of measurement, per model and side")
    shown = commands.add_parser("table")
    shown.add_argument("results", type=pathlib.Path)
    shown.add_argument("--all", action="store_true", help="also the models that agree or that the peer refuses")
    share = commands.add_parser("reference-time")
    share.add_argument("models", nargs="+", type=pathlib.Path)
    for command in (side, share):
        command.add_argument("--smelt", default="build/release/bin/smelt")
        command.add_argument("--limit", type=float, default=60, help="seconds for a process")
    args = parser.parse_args()
    if args.command == "fetch":
        sources.fetch(sources.read(HERE / "models.txt"), args.folder, args.mirrors, args.only)
    else:
        {"run": run, "table": table, "reference-time": reference_time}[args.command](args)


if __name__ == "__main__":
    main()
