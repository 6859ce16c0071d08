#!/usr/bin/env python3
"""Writes src/formats/executorch/aten/overloads.inc: the overloads that PyTorch has of the ATen operators that smelt reads.

    aten_overloads.py native_functions.yaml     (PyTorch's; its wheel has it as torchgen/packaged/ATen/native)
"""
import collections
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).parents[1]
FOLDER = ROOT / "src/formats/executorch"
HEAD = """\
// The overloads of the ATen operators that smelt reads, functional and out variants, after PyTorch's
// native_functions.yaml; "default" is the one without a name. tests/aten_overloads.py writes this file.
"""


def main():
    text = pathlib.Path(sys.argv[1]).read_text()
    overloads = collections.defaultdict(set)
    names = re.findall(r"^- func: ([\w.]+)\(", text, re.M)
    for line in re.findall(r"^  autogen: (.*)$", text, re.M):
        names += [name.strip() for name in line.split(",")]
    for name in names:
        base, _, overload = name.partition(".")
        inplace = base.endswith("_") and not base.endswith("__")
        overloads[base[:-1] if inplace else base].add(overload or "default")
    sources = "".join(p.read_text() for p in FOLDER.rglob("*.cc"))
    read = set(re.findall(r'\{"aten::(\w+)",', sources))
    lines = [f'SMELT_ATEN_OVERLOADS("{name}", "{" ".join(sorted(overloads[name]))}")' for name in sorted(read & overloads.keys())]
    (FOLDER / "aten/overloads.inc").write_text(HEAD + "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
