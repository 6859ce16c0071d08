#!/usr/bin/env python3
r"""Converts the networks of a corpus by onnx2tf, tf2onnx and smelt, and writes the table of docs/convert.md.

    python3 -m venv PEERS
    PEERS/bin/pip install onnx2tf==1.28.8 tensorflow-cpu==2.19.* tf-keras==2.19.* tf2onnx==1.17.0 onnx==1.19.* \
        "protobuf<6" onnx-graphsurgeon psutil sng4onnx simple-onnx-processing-tools ai-edge-litert onnxruntime
    PEERS/bin/python bench/convert/peers.py --smelt build/release/bin/smelt --json peers.json [--limit 120]
    python3 bench/convert/peers.py --json peers.json --output docs/convert.md

A conversion runs in a process of its own that has imported the peer already, so that a peer's time is that of its work
alone; smelt's time is of the command, start included. What is written runs in onnxruntime or LiteRT on the network's
stored inputs and agrees by the rule of convert_table.py. Layouts count as one: onnx2tf moves channels of inputs and
outputs to the end. Results are kept network by network: a run that is cut short goes on where it stopped.
"""
import argparse
import contextlib
import importlib.metadata
import io
import json
import multiprocessing
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import convert_table as table  # noqa: E402

PAIRS = {("onnx", "tflite"): "onnx2tf", ("tflite", "onnx"): "tf2onnx"}
BEGIN, END = "<!-- peers -->", "<!-- end of peers -->"


def by_onnx2tf(model, folder):
    import onnx2tf

    onnx2tf.convert(input_onnx_file_path=str(model), output_folder_path=str(folder), non_verbose=True,
                    not_use_onnxsim=True, copy_onnx_input_output_names_to_tflite=True)
    return next(folder.glob("*_float32.tflite"))


def by_tf2onnx(model, folder):
    import tf2onnx

    path = folder / "model.onnx"
    tf2onnx.convert.from_tflite(str(model), opset=17, output_path=str(path))
    return path


def lay_out_calibration_images(folder):
    """The file that onnx2tf reads from its working directory rather than fetch it: images of random pixels, with which it
    compares outputs."""
    pixels = np.random.default_rng(1).random((20, 128, 128, 3), np.float32)
    np.save(folder / "calibration_image_sample_data_20x128x128x3_float32.npy", pixels)


PEERS = {"onnx2tf": by_onnx2tf, "tf2onnx": by_tf2onnx}


def as_asked(wanted, value):
    """The value in the layout of a shape: as it is, or with channels last."""
    wanted = tuple(int(d) for d in wanted)
    same = len(wanted) == value.ndim and all(w in (-1, v) for w, v in zip(wanted, value.shape))
    if same or value.ndim < 3:
        return value
    return np.ascontiguousarray(np.moveaxis(value, 1, -1))


def outcome(target, path, case):
    """'agrees', 'differs' or why the file does not run."""
    inputs, outputs = table.numbered(case / "inputs"), table.numbered(case / "outputs")
    try:
        if target == "tflite":
            from ai_edge_litert.interpreter import Interpreter

            asked = Interpreter(model_path=str(path)).get_input_details()
            inputs = [as_asked(d["shape_signature"], v) for d, v in zip(asked, inputs)]
        got = table.RUNTIMES[target][1](path, inputs)
    except Exception as e:  # a peer's file may fail in any way
        return "fails: " + str(e).splitlines()[0][:60]
    if len(got) < len(outputs):  # maps, which are no arrays, are not stored
        return "differs"
    said = json.loads((case / "case.json").read_text())
    for turned in (lambda g, w: g, lambda g, w: np.moveaxis(g, -1, 1) if g.ndim > 2 else g):
        if table.agrees([turned(np.asarray(g), w) for g, w in zip(got, outputs)], outputs, said):
            return "agrees"
    return "differs"


def work(peer, target, model, case, out):
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        # onnx2tf writes to the file that it reads: it gets a copy, external data included.
        copy = pathlib.Path(folder) / "in"
        shutil.copytree(pathlib.Path(model).parent, copy, copy_function=shutil.copyfile)
        written = pathlib.Path(folder) / "out"
        written.mkdir()
        lay_out_calibration_images(written)
        os.chdir(written)
        begin = time.time()
        try:
            path = PEERS[peer](copy / pathlib.Path(model).name, written)
        except BaseException as e:  # onnx2tf ends the interpreter where it finds no form
            out.put(("not written", time.time() - begin, type(e).__name__))
            return
        seconds = time.time() - begin
        out.put((outcome(target, path, case), seconds, ""))


def in_process(args, *work_args):
    """(outcome, seconds, why) of `work` in a child; its last word is kept if it dies or takes too long."""
    out = multiprocessing.SimpleQueue()
    child = multiprocessing.Process(target=work, args=(*work_args, out))
    child.start()
    child.join(args.limit)
    if child.is_alive():
        child.kill()
        child.join()
        return "not written", args.limit, "time limit"
    return out.get() if not out.empty() else ("not written", 0, f"exit status {child.exitcode}")


def by_smelt(args, target, model, case):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / f"model.{target}"
        begin = time.time()
        done = subprocess.run([args.smelt, "convert", str(model), str(path)], capture_output=True, text=True)
        seconds = time.time() - begin
        return ("not written" if done.returncode else outcome(target, path, case)), seconds, ""


def measure(args):
    results = json.loads(args.json.read_text()) if args.json.exists() else {"rows": {}}
    results["versions"] = {p: importlib.metadata.version(p)
                           for p in ("onnx2tf", "tf2onnx", "tensorflow-cpu", "onnxruntime", "ai-edge-litert")}
    for name in args.peer or PEERS:
        __import__(name)
    for (source, target), peer in PAIRS.items():
        if args.peer and peer not in args.peer:
            continue
        results.setdefault("every", {})[peer] = args.every
        for case, model in list(table.networks(args.corpus, source))[::args.every]:
            key = f"{source} {target} {case.name}"
            row = results["rows"].setdefault(key, {})
            for who, run in ((peer, lambda: in_process(args, peer, target, str(model), case)),
                             ("smelt", lambda: by_smelt(args, target, model, case))):
                if who in row and who not in args.again:
                    continue
                row[who] = run()
                print(key, who, *row[who], flush=True)
            args.json.write_text(json.dumps(results, indent=1))


def section(results, args):
    rows, limits = results["rows"], []
    yield BEGIN
    yield "## Other converters\n"
    versions = ", ".join(f"{k} {v}" for k, v in results["versions"].items())
    yield f"{versions};"
    yield f"{args.processor}, {args.date}; by `bench/convert/peers.py`. A written file runs in LiteRT or onnxruntime on"
    yield "the network's stored inputs. Times are of networks that both write; a peer's time has no start of"
    yield "Python nor its imports in it."
    for peer, every in results.get("every", {}).items():
        if every > 1:
            yield f"{peer}: one network of {every}, in the order of their names, since it takes long."
    yield from results.get("notes", [])
    yield ""
    yield "| from | to | by | networks | written | run and agree | median seconds |\n|---|---|---|---|---|---|---|"
    for (source, target), peer in PAIRS.items():
        of = [r for k, r in rows.items() if k.startswith(f"{source} {target} ") and peer in r and "smelt" in r]
        late = sum(r[peer][2] == "time limit" for r in of)
        of = [r for r in of if r[peer][2] != "time limit"]
        if not of:
            continue
        if late:
            networks = "one further network, which is" if late == 1 else f"{late} further networks, which are"
            limits.append(f"{peer} came to no end in the time limit on {networks} left out.")
        both = [r for r in of if "not written" not in (r[peer][0], r["smelt"][0])]
        for who in (peer, "smelt"):
            written = sum(r[who][0] != "not written" for r in of)
            agree = sum(r[who][0] == "agrees" for r in of)
            seconds = statistics.median([r[who][1] for r in both] or [0])
            yield f"| {source} | {target} | {who} | {len(of)} | {written} | {agree} | {seconds:.3f} |"
    yield from ["", *limits] if limits else []
    yield END


def write(args):
    text = args.output.read_text()
    made = "\n".join(section(json.loads(args.json.read_text()), args))
    head, _, rest = text.partition(BEGIN)
    tail = rest.partition(END)[2]
    if not rest:
        head, mark, tail = text.partition("\n## What is missing")
        made, tail = "\n" + made + "\n", mark + tail
    args.output.write_text(head + made + tail)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smelt", help="the command; without it nothing is measured")
    parser.add_argument("--corpus", type=pathlib.Path, default=table.ROOT.parent / "shared/corpus")
    parser.add_argument("--json", type=pathlib.Path, required=True, help="results, network by network")
    parser.add_argument("--output", type=pathlib.Path, help="document whose section is written")
    parser.add_argument("--peer", action="append", choices=sorted(PEERS), help="this one alone")
    parser.add_argument("--again", action="append", default=[], help="measure this one anew")
    parser.add_argument("--limit", type=float, default=120, help="seconds for one conversion by a peer")
    parser.add_argument("--every", type=int, default=1, help="each Nth network alone")
    parser.add_argument("--processor", default="AMD EPYC (Zen 5)")
    parser.add_argument("--date", default=time.strftime("%Y-%m-%d"))
    args = parser.parse_args()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    if args.smelt:
        measure(args)
    if args.output:
        write(args)


if __name__ == "__main__":
    multiprocessing.set_start_method("fork")
    main()
