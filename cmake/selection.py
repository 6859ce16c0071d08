#!/usr/bin/env python3
"""Lists what models need of a build, as a C++ header for src/base/selection.h.

    selection.py SMELT OUTPUT MODEL...

SMELT is the command of a whole build. The list holds the models' formats, the operators of their graphs as read and as
run, TFLite's operators, and the CPU kernels that run the graphs on each level of this machine.
"""

import json
import os
import re
import struct
import subprocess
import sys

LEVELS = ("baseline", "dot", "avx2", "avx512", "vnni", "amx")
# These run a node through other kernels, which no list names: of that operator, of the node's own where it is None.
THROUGH_OTHERS = {"legalized_types": None, "depthwise_multiplier": None, "expert_matmul": "MatMul"}
# Runs what other shapes do not let be an epilogue.
INSTEAD_OF_EPILOGUE = "binary_f32"
# What a node runs on where there is no fast kernel; tables and what is known when planning are filled by references.
BY_REFERENCE = re.compile("reference|folded|unknown|lookup_table")


def described(smelt, level, *arguments):
    """What the command prints on a level as JSON; None where the machine lacks the level."""
    environment = {**os.environ, "SMELT_ISA": level}
    run = subprocess.run([smelt, *arguments, "--json"], env=environment, capture_output=True, text=True)
    if run.returncode == 0:
        return json.loads(run.stdout)
    if "this machine has" in run.stderr:
        return None
    sys.exit(run.stderr.strip() or f"{smelt} {' '.join(arguments)}: exit status {run.returncode}")


def tflite_operators(path):
    """Operator codes of a TFLite model: table Model, field 1; table OperatorCode, fields 0 (byte) and 3 (int)."""
    with open(path, "rb") as file:
        data = file.read()

    def number(form, at):
        return struct.unpack_from(form, data, at)[0] if at else 0

    def field(table, index):
        vtable = table - number("<i", table)
        entry = 4 + 2 * index
        offset = number("<H", vtable + entry) if entry < number("<H", vtable) else 0
        return table + offset if offset else None

    root = struct.unpack_from("<I", data, 0)[0]
    at = field(root, 1)
    vector = at + number("<I", at) if at else None
    tables = [vector + 4 + 4 * i for i in range(number("<I", vector))]
    tables = [table + number("<I", table) for table in tables]
    return {max(number("<b", field(table, 0)), number("<i", field(table, 3))) for table in tables}


class Selection:
    def __init__(self):
        self.formats, self.ops, self.tflite, self.kernels, self.ops_of_any_kernel = set(), set(), set(), set(), set()
        self.reference_ops = set()

    def add(self, smelt, path):
        levels = 0
        for level in LEVELS:
            read = described(smelt, level, "inspect", path)
            if read is None:
                continue
            levels += 1
            self.formats.add(read["format"])
            nodes = [node for graph in read["graphs"] for node in graph["nodes"]]
            self.ops.update(node["op"] for node in nodes)
            run = [n for g in described(smelt, level, "inspect", "--optimised", path)["graphs"] for n in g["nodes"]]
            for node in run:
                self.add_node(node["op"], re.split(r" \+ ", node["runs_on"]))
            # What passes fold they compute by references; tables of bytes, too.
            kept = {node["op"] for node in run}
            folded = [n for n in nodes if n["op"] not in kept or BY_REFERENCE.search(n["runs_on"])]
            self.reference_ops.update(n["op"] for n in folded)
            if "TableFind" in kept:
                self.reference_ops.update(self.ops)
            # Parts of decomposed nodes are operators of their own.
            for node in described(smelt, level, "explain", path)["runs"]:
                for step in node.get("steps", []):
                    self.add_node(step["op"], [step["kernel"]])
        if not levels:
            sys.exit(f"{path}: no level of this machine is known")
        if "tflite" in self.formats and read_magic(path) == b"TFL3":
            self.tflite |= tflite_operators(path)

    def add_node(self, op, kernels):
        self.ops.add(op)
        self.kernels.update(INSTEAD_OF_EPILOGUE if k == "epilogue" else k for k in kernels)
        if any(BY_REFERENCE.search(k) for k in kernels):
            self.reference_ops.add(op)
        for kernel in kernels:
            if kernel == "unknown" or kernel in THROUGH_OTHERS:
                through = THROUGH_OTHERS.get(kernel) or op
                self.ops.add(through)
                self.ops_of_any_kernel.add(through)

    def header(self, models):
        def array(name, kind, entries):
            return f"inline constexpr std::array<{kind}, {len(entries)}> {name} = {{{', '.join(entries)}}};\n"

        def texts(name, entries):
            return array(name, "std::string_view", [json.dumps(e) for e in sorted(entries)])

        return (
            f"// What these models need, by cmake/selection.py: {', '.join(os.path.basename(m) for m in models)}\n"
            "#pragma once\n\n#include <array>\n#include <string_view>\n\nnamespace smelt::selection {\n"
            + texts("kFormats", self.formats)
            + texts("kOps", self.ops)
            + texts("kReferenceOps", self.reference_ops)
            + texts("kKernels", self.kernels)
            + texts("kOpsOfAnyKernel", self.ops_of_any_kernel)
            + array("kTfliteOperators", "int", [str(c) for c in sorted(self.tflite)])
            + "}  // namespace smelt::selection\n"
        )


def read_magic(path):
    with open(path, "rb") as file:
        return file.read(8)[4:]


def main():
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    smelt, output, models = sys.argv[1], sys.argv[2], sys.argv[3:]
    selection = Selection()
    for model in models:
        selection.add(smelt, model)
    text = selection.header(models)
    if not os.path.exists(output) or open(output).read() != text:
        with open(output, "w") as file:
            file.write(text)
    formats = ", ".join(sorted(selection.formats))
    print(f"{len(selection.ops)} operators, {len(selection.kernels)} kernels, formats: {formats}")


if __name__ == "__main__":
    main()
