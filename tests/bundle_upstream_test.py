#!/usr/bin/env python3
"""Checks that ExecuTorch reads and verifies the bundles that `smelt bundle` writes.

    bundle_upstream_test.py --smelt build/release/bin/smelt [--cases tests/corpus/pte.tar.xz] [--limit 40]

Every program of the golden cases (with its stored inputs) is bundled in both layouts. A BP08 bundle must come back from
ExecuTorch's own deserializer with the same program, methods and values, load in its runtime and verify there; a BP04
bundle must come back from `smelt verify` and, where this ExecuTorch still knows the layout, from its deserializer. A
bundle with a changed expectation must be told from a right one by both. Exit status 77: skipped, the `executorch`
package is not installed.
"""
import argparse
import json
import multiprocessing
import pathlib
import subprocess
import sys
import tarfile
import tempfile

try:
    import numpy as np
    import torch
    from executorch.devtools.bundled_program.serialize import deserialize_from_flatbuffer_to_bundled_program
    from executorch.extension.pybindings.portable_lib import (
        _load_bundled_program_from_buffer, _load_for_executorch_from_buffer)
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)


def run(*command):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    return done.returncode, (done.stdout + done.stderr).strip()


def cases(archive, limit, folder):
    """Folders of cases with a .pte that this ExecuTorch runs on tensors only, evenly spread over the archive."""
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")
    found = sorted(p.parent for p in pathlib.Path(folder).rglob("model.pte"))
    found = [p for p in found if usable(p)]
    return found[:: max(1, len(found) // limit)][:limit]


def usable(case):
    info = json.loads((case / "case.json").read_text())
    if case.name.startswith("memplan"):  # ExecuTorch's own verification crashes when inputs or outputs are not planned
        return False
    plain = not any(k in info for k in ("expect", "method", "invokes", "bf16_inputs")) or info.get("bf16_inputs") == []
    return plain and case.parent.name == "portable" and (case / "inputs").is_dir() and not (case / "model.ptd").exists()


def upstream_runs(case):
    """The case's program in ExecuTorch itself; None when it cannot run it."""
    files = sorted((case / "inputs").glob("*.npy"), key=lambda p: int(p.stem))
    try:
        inputs = tuple(torch.from_numpy(np.load(f).copy()) for f in files)
        _load_for_executorch_from_buffer((case / "model.pte").read_bytes()).forward(inputs)
        return files
    except Exception:
        return None


def verified_upstream(data):
    """Raises when ExecuTorch's runtime does not find the expected outputs of set 0 of forward."""
    return _load_bundled_program_from_buffer(data).verify_result_with_bundled_expected_output("forward", 0, 1e-3, 1e-4)


def changed(data, values):
    """The bundle with one byte of its expected output changed; None when its bytes are not found."""
    wanted = np.ascontiguousarray(values).tobytes()
    at = data.rfind(wanted) if wanted else -1
    if at < 0:
        return None
    k = at + (values.dtype.itemsize - 1 if values.dtype.kind == "f" else 0)
    return data[:k] + bytes([data[k] ^ (0x40 if values.dtype.kind == "f" else 1)]) + data[k + 1 :]


def check(smelt, case, folder, out):
    """In a process of its own: ExecuTorch crashes on programs that it cannot run."""
    problems = []
    files = upstream_runs(case)
    out.send(files is not None)
    if files is None:
        return
    for layout in ("bp08", "bp04"):
        path = folder / f"{case.name}.{layout}"
        status, text = run(smelt, "bundle", case / "model.pte", "--record", "--format", layout, "-o", path,
                           *(["--inputs", *files] if files else []))
        if status != 0:
            problems.append(f"{case.name} {layout}: bundle: {text}")
            continue
        status, text = run(smelt, "verify", path)
        if status != 0 or "1 passed, 0 failed" not in text:
            problems.append(f"{case.name} {layout}: verify: {text}")
        if layout == "bp08":
            read_back(case, path.read_bytes(), files, problems)
        damaged(smelt, case, path, problems)
    out.send(problems)


def checked_apart(smelt, case, folder):
    """Whether ExecuTorch runs the case, and what is wrong with its bundles."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=check, args=(smelt, case, folder, theirs))
    process.start()
    theirs.close()
    runs, problems = False, []
    try:
        runs = ours.recv()
        if runs:
            problems = ours.recv()
    except EOFError:
        if runs:
            problems = [f"{case.name}: ExecuTorch ends with a signal"]
    process.join()
    return runs, problems


def read_back(case, data, files, problems):
    bundle = deserialize_from_flatbuffer_to_bundled_program(data)
    suites = bundle.method_test_suites
    if bytes(bundle.program) != (case / "model.pte").read_bytes():
        problems.append(f"{case.name}: upstream reads another program")
    if [s.method_name for s in suites] != ["forward"] or len(suites[0].test_cases) != 1:
        problems.append(f"{case.name}: upstream reads other test suites")
    if len(suites[0].test_cases[0].inputs) != len(files):
        problems.append(f"{case.name}: upstream reads {len(suites[0].test_cases[0].inputs)} inputs")
    try:
        verified_upstream(data)
    except Exception as error:
        problems.append(f"{case.name}: upstream does not verify: {error}")


def damaged(smelt, case, path, problems):
    first = case / "outputs" / "0.npy"
    recorded = path.parent / "recorded"
    inputs = [a for f in sorted((case / "inputs").glob("*.npy"), key=lambda p: int(p.stem)) for a in ("--input", f)]
    run(smelt, "run", case / "model.pte", *inputs, "--output-dir", recorded)
    if not first.exists() or not (recorded / "0.npy").exists():
        return
    data = changed(path.read_bytes(), np.load(recorded / "0.npy"))
    if data is None:
        return
    wrong = path.with_suffix(path.suffix + ".wrong")
    wrong.write_bytes(data)
    status, text = run(smelt, "verify", wrong)
    if status not in (1, 3):
        problems.append(f"{case.name}: a changed bundle gives status {status}: {text}")
    if path.suffix != ".bp08":
        return
    try:
        verified_upstream(data)
        problems.append(f"{case.name}: upstream matches a changed bundle")
    except Exception:
        pass


def main():
    here = pathlib.Path(__file__).resolve().parent
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smelt", required=True)
    parser.add_argument("--cases", default=here / "corpus/pte.tar.xz")
    parser.add_argument("--limit", type=int, default=40)
    options = parser.parse_args()
    problems, checked = [], 0
    with tempfile.TemporaryDirectory() as folder:
        for case in cases(options.cases, options.limit, folder):
            runs, found = checked_apart(options.smelt, case, pathlib.Path(folder))
            checked += runs
            problems += found
    for line in problems:
        print(line)
    print(f"{checked} programs bundled, {len(problems)} problems")
    sys.exit(1 if problems or checked == 0 else 0)


main()
