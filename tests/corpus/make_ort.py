#!/usr/bin/env python3
"""Makes tests/corpus/ort.tar.xz: golden cases of onnx.tar.xz with their models as ONNX Runtime writes them (.ort).

    tests/corpus/make_ort.py

Networks pass through ONNX Runtime's extended optimisations, operators stay as they are. Needs the Python package
onnxruntime.
"""
import json
import os
import tarfile
import tempfile
from pathlib import Path

import onnxruntime as ort
from pack import add_file

HERE = Path(__file__).resolve().parent
EVERY = 12  # of the operators' cases, beside those of LISTED
LARGEST = 40_000  # bytes of a case
LISTED = ("loop", "scan", "if_", "sequence", "optional", "map", "string", "sparse", "rnn", "causalconv", "moe", "tree")


def converted(model, optimise):
    """The bytes of the .ort file, or None where ONNX Runtime does not take or not write the model."""
    levels = ort.GraphOptimizationLevel
    options = ort.SessionOptions()
    options.graph_optimization_level = levels.ORT_ENABLE_EXTENDED if optimise else levels.ORT_DISABLE_ALL
    options.add_session_config_entry("session.save_model_format", "ORT")
    with tempfile.TemporaryDirectory() as folder:
        options.optimized_model_filepath = os.path.join(folder, "model.ort")
        try:
            ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
            return Path(options.optimized_model_filepath).read_bytes()
        except Exception:
            return None


def main():
    ort.set_default_logger_severity(4)
    cases = {}
    with tarfile.open(HERE / "onnx.tar.xz") as tar:
        for entry in tar:
            if entry.isfile():
                group, case, rest = entry.name.split("/", 3)[1:]
                cases.setdefault((group, case), {})[rest] = tar.extractfile(entry).read()
    taken = 0
    with tarfile.open(HERE / "ort.tar.xz", "w:xz", preset=9) as out:
        for i, ((group, case), files) in enumerate(sorted(cases.items())):
            listed = any(word in case for word in LISTED)
            small = sum(map(len, files.values())) <= LARGEST
            expects = json.loads(files["case.json"]).get("expect", "match")
            wanted = group == "nets" or (group == "ops" and (listed or i % EVERY == 0))
            if not small or not wanted or expects != "match" or "bernoulli" in case:
                continue
            files["model.ort"] = converted(files.pop("model.onnx"), group == "nets")
            if files["model.ort"] is None:
                continue
            taken += 1
            for name, data in sorted(files.items()):
                add_file(out, f"ort/{group}/{case}/{name}", data)
    print(f"ort: {taken} cases, {(HERE / 'ort.tar.xz').stat().st_size} bytes")


if __name__ == "__main__":
    main()
