#!/usr/bin/env python3
"""Runs clang-tidy over every unit of a build.

    tidy.py BUILD_FOLDER [PATTERN]      PATTERN: a regular expression of the units' paths

A unit that passed is not checked again until its preprocessed text, its command or .clang-tidy change: the hashes of those
that passed are kept in BUILD_FOLDER/tidy.
"""

import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys

ROOT = pathlib.Path(__file__).parent.parent.parent


def check(entry, build, config):
    """What clang-tidy says of a unit that has not passed before; empty when it is clean."""
    command = entry["command"].split(" -o ")[0]
    source = [*shlex.split(re.sub(r"^\S*compiler_cache\.sh ", "", command)), entry["file"]]
    text = subprocess.run([*source, "-E"], cwd=entry["directory"], capture_output=True)
    if text.returncode != 0:
        return text.stderr.decode()
    key = hashlib.sha256(b"\0".join([config, " ".join(source).encode(), text.stdout])).hexdigest()
    passed = build / "tidy" / key
    if passed.exists():
        return ""
    # clang-tidy 14 takes the zero of a defaulted <=> for a null pointer: keys of the CPU's kernels have one.
    options = ["--checks=-modernize-use-nullptr"] if re.search("backends[_/]cpu", entry["file"]) else []
    ran = subprocess.run(
        ["clang-tidy", "--quiet", "-p", build / "tidy", "--warnings-as-errors=*", "--extra-arg=-Wno-unknown-warning-option",
         # Options of GCC alone.
         "--extra-arg=-Wno-unused-command-line-argument", "--extra-arg=-Wno-ignored-optimization-argument", *options, entry["file"]],
        cwd=ROOT, capture_output=True, text=True,
    )
    if ran.returncode == 0:
        passed.touch()
        return ""
    return ran.stdout + ran.stderr


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    (build / "tidy").mkdir(exist_ok=True)
    config = (ROOT / ".clang-tidy").read_bytes()
    entries = {e["file"]: e for e in json.loads((build / "compile_commands.json").read_text())}
    pattern = re.compile(sys.argv[2] if len(sys.argv) > 2 else "")
    # Options of GCC that Clang does not know.
    known = [{**e, "command": re.sub(r" -f(no-move-loop-invariants|no-tree-loop-im|vect-cost-model=\w+)\b", "", e["command"])} for e in entries.values()]
    (build / "tidy" / "compile_commands.json").write_text(json.dumps(known))
    units = [e for f, e in entries.items() if f.endswith((".cc", ".cxx")) and "/generated/" not in f and pattern.search(f)]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        said = [text for text in pool.map(lambda e: check(e, build, config), units) if text]
    print("\n".join(said), end="")
    print(f"tidy: {len(units)} units, {len(said)} with findings")
    return 1 if said else 0


if __name__ == "__main__":
    sys.exit(main())
