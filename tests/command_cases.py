#!/usr/bin/env python3
"""Runs the invocations of command_cases.txt as a user would type them, and checks what the command promises.

    command_cases.py SMELT DIGITS_FOLDER SCHEMAS_FOLDER

Each invocation: exit status; what is printed matches a pattern; a fault is one line on standard error that begins with
"smelt: " (wrong usage: and a line that points to the help); a failed invocation leaves no new file. The output of --json
matches the schema of its command. Every option is in the help, in the manual page and in the three completion scripts.
"""

import json
import os
import pathlib
import re
import shlex
import struct
import subprocess
import sys
import tempfile
import xml.etree.ElementTree
import zipfile

import jsonschema
from onnx_proto import field

HERE = pathlib.Path(__file__).resolve().parent


def node(op, inputs, outputs, attributes=(), domain=""):
    out = b"".join([field(1, i) for i in inputs] + [field(2, o) for o in outputs]) + field(4, op) + field(7, domain)
    return field(1, out + b"".join(field(5, a) for a in attributes))


def tensor_type(elem, dims):
    dim = [field(1, field(2, d) if isinstance(d, str) else field(1, d)) for d in dims]
    return field(1, field(1, elem) + field(2, b"".join(dim)))


def port(number, name, type_proto):
    return field(number, field(1, name) + field(2, type_proto))


def model(*graph):
    opsets = field(8, field(1, "") + field(2, 13)) + field(8, field(1, "ai.onnx.ml") + field(2, 2))
    return field(1, 8) + opsets + field(7, b"".join(graph) + field(2, "graph"))


FLOAT, INT64 = 1, 7


def write_models():
    ids, mask = tensor_type(INT64, ["batch", "seq"]), tensor_type(FLOAT, ["batch", "seq"])
    pathlib.Path("dynamic.onnx").write_bytes(
        model(
            node("Cast", ["ids"], ["real"], [field(1, "to") + field(3, FLOAT) + field(20, 2)]),
            node("Mul", ["real", "mask"], ["product"]),
            node("Neg", ["product"], ["y"]),
            port(11, "ids", ids),
            port(11, "mask", mask),
            port(12, "y", mask),
        )
    )
    image, pooled = tensor_type(FLOAT, [1, 1, 4, 4]), tensor_type(FLOAT, [1, 1, 2, 2])
    strides = field(1, "strides") + field(8, 2) + field(8, 2) + field(20, 7)
    kernel = field(1, "kernel_shape") + field(8, 2) + field(8, 2) + field(20, 7)
    pool = node("MaxPool", ["image"], ["y", "unread"], [kernel, strides])
    pathlib.Path("pooled.onnx").write_bytes(model(pool, port(11, "image", image), port(12, "y", pooled)))
    fixed = field(5, field(1, 3) + field(2, FLOAT) + field(8, "w") + field(9, struct.pack("<3f", 1, 2, 3)))
    pathlib.Path("assumes.onnx").write_bytes(
        model(
            node("MatMul", ["x", "w"], ["y"]),
            fixed,
            port(11, "x", tensor_type(FLOAT, ["batch", "features"])),
            port(12, "y", tensor_type(FLOAT, ["batch"])),
        )
    )
    pathlib.Path("unknown.onnx").write_bytes(
        model(
            node("Frobnicate", ["x"], ["a"]),
            node("Frobnicate", ["a"], ["b"]),
            node("Twiddle", ["b"], ["y"], domain="my.domain"),
            port(11, "x", tensor_type(FLOAT, [2])),
            port(12, "y", tensor_type(FLOAT, [2])),
        )
    )
    labels = [field(1, "classlabels_strings") + field(9, "cat") + field(9, "dog") + field(20, 8)]
    # map(string, float) in a sequence
    maps = field(4, field(1, field(5, field(1, 8) + field(2, tensor_type(FLOAT, [])))))
    pathlib.Path("zipmap.onnx").write_bytes(
        model(
            node("ZipMap", ["x"], ["y"], labels, "ai.onnx.ml"),
            port(11, "x", tensor_type(FLOAT, [1, 2])),
            port(12, "y", maps),
        )
    )
    sequence = field(4, field(1, tensor_type(FLOAT, [])))
    pathlib.Path("sequence.onnx").write_bytes(
        model(
            node("SplitToSequence", ["x"], ["y"], [field(1, "axis") + field(3, 0) + field(20, 2)]),
            port(11, "x", tensor_type(FLOAT, [2, 2])),
            port(12, "y", sequence),
        )
    )


def npy(descr, shape, data):
    header = "{'descr': '%s', 'fortran_order': False, 'shape': %s, }" % (descr, tuple(shape))
    header += " " * (63 - (10 + len(header)) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + data


def wav(rate, samples):
    data = struct.pack(f"<{len(samples)}h", *samples)
    header = struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, 1, rate, 2 * rate, 2, 16)
    chunks = b"WAVE" + header + struct.pack("<4sI", b"data", len(data)) + data
    return struct.pack("<4sI", b"RIFF", len(chunks)) + chunks


def write_arrays():
    os.mkdir("empty")
    values = [0.25 * i for i in range(6)]
    files = {
        "ids64.npy": npy("<i8", [2, 3], struct.pack("<6q", *range(6))),
        "ids32.npy": npy("<i4", [2, 3], struct.pack("<6i", *range(6))),
        "mask.npy": npy("<f4", [2, 3], struct.pack("<6f", *values)),
        "mask64.npy": npy("<f8", [2, 3], struct.pack("<6d", *values)),
        "row.npy": npy("<f4", [6], struct.pack("<6f", *values)),
        "image.npy": npy("<f4", [1, 8, 8, 1], struct.pack("<64f", *([0.5] * 64))),
        "mask.bin": struct.pack("<6f", *values),
        "odd.bin": b"12345",
        "empty.npy": b"",
        "empty.onnx": b"",
        "cut.npy": npy("<f4", [2, 3], b"1234"),
        "text.txt": b"no model at all\n",
        "five.txt": b"a\nb\nc\nd\ne\n",
        "ids.txt": b"3\n4\n",
        "tone.wav": wav(8000, [16384] * 4),
        "cut.wav": wav(8000, [])[:-8],
    }
    for name, data in files.items():
        pathlib.Path(name).write_bytes(data)
    # A header that promises 6 GB, in a sparse file that has them.
    with open("huge.npy", "wb") as f:
        f.write(npy("<f4", [1500000000], b""))
        f.truncate(128 + 6000000000)
    for name, method in {"stored.npz": zipfile.ZIP_STORED, "deflated.npz": zipfile.ZIP_DEFLATED}.items():
        with zipfile.ZipFile(name, "w", method) as z:
            z.writestr("mask.npy", files["mask.npy"])
            z.writestr("ids.npy", files["ids64.npy"])
    with zipfile.ZipFile("unnamed.npz", "w") as z:
        z.writestr("arr_0.npy", files["ids64.npy"])
        z.writestr("arr_1.npy", files["mask.npy"])


def listing():
    return {str(p): p.stat().st_size for p in pathlib.Path(".").rglob("*")}


class Checker:
    def __init__(self, smelt, digits, schemas):
        self.smelt = smelt
        self.names = {"digits": digits}
        self.schemas = schemas
        self.wrong = self.checks = 0

    def expect(self, good, what, *shown):
        self.checks += 1
        if not good:
            self.wrong += 1
            print(what, *shown, sep="\n  ")

    def case(self, status, pattern, command):
        stdin = None
        if " < " in command:
            command, source = command.split(" < ")
            stdin = open(source.strip().format(**self.names), "rb")
        arguments = [a.format(**self.names) for a in shlex.split(command)]
        before = listing()
        run = subprocess.run([self.smelt, *arguments], stdin=stdin, capture_output=True, timeout=120)
        out, error = run.stdout.decode(errors="replace"), run.stderr.decode(errors="replace")
        shown = (out + error)[:600]
        self.expect(run.returncode == status, f"smelt {command}: status {run.returncode}, {status} expected", shown)
        self.expect(re.search(pattern, out + error), f"smelt {command}: does not print '{pattern}'", shown)
        if status in (1, 2):
            lines = error.splitlines()
            shape = len(lines) == status and lines[0].startswith("smelt: ") and (status == 1 or "--help` says more" in lines[1])
            self.expect(shape, f"smelt {command}: no message of one line", shown)
            self.expect(listing() == before, f"smelt {command}: leaves files behind", sorted(set(listing()) - set(before)))
        self.expect(not list(pathlib.Path(".").rglob("*.part")), f"smelt {command}: leaves a .part file")
        if status == 0 and ("--json" in arguments or "-j" in arguments):
            self.validate(arguments[0], out, command)

    def validate(self, name, text, command):
        schema = json.loads((self.schemas / f"{name}.json").read_text())
        try:
            jsonschema.validate(json.loads(text, parse_constant=lambda word: 1 / 0), schema)
            self.checks += 1
        except (ValueError, ZeroDivisionError, jsonschema.ValidationError) as e:
            self.expect(False, f"smelt {command}: {str(e)[:400]}", text[:200])

    def text(self, *arguments):
        return subprocess.run([self.smelt, *arguments], capture_output=True, text=True, check=True).stdout

    def options(self):
        """Every option that a help lists is in the manual page and in the completion scripts."""
        pages = {"man": self.text("man").replace("\\-", "-")}
        for shell in ("bash", "zsh", "fish"):
            pages[shell] = self.text("completion", shell)
        commands = re.findall(r"^  ([a-z]+)  ", self.text("--help").split("SUBCOMMANDS:")[-1].split("Subcommands:")[-1], re.M)
        self.expect(len(commands) >= 8, "commands in the help", commands)
        for command in commands:
            section = pages["man"].split(f".SS smelt {command}\n")[-1].split(".SS ")[0]
            for option in set(re.findall(r"^  (?:-\w,)?--([a-z0-9-]+)", self.text(command, "--help"), re.M)):
                self.expect(f"--{option}" in section, f"{command} --{option} is not in the manual page")
                for shell in ("bash", "zsh"):
                    self.expect(f"--{option}" in pages[shell], f"{command} --{option} is not in the {shell} completion")
                fish = [l for l in pages["fish"].splitlines() if f"_from {command}'" in l and f"-l {option} " in l + " "]
                self.expect(fish, f"{command} --{option} is not in the fish completion")
        for shell in ("bash", "zsh", "fish"):
            if subprocess.run(["sh", "-c", f"command -v {shell}"], capture_output=True).returncode == 0:
                check = subprocess.run([shell, "-n"], input=pages[shell], text=True, capture_output=True)
                self.expect(check.returncode == 0, f"the {shell} completion does not parse", check.stderr)

    def files(self):
        """What the invocations wrote."""
        for name in ("ops.json", "trace.json", "old.json"):
            if pathlib.Path(name).exists():
                schema = {"ops.json": "profile", "trace.json": "trace", "old.json": "bench"}[name]
                self.validate(schema, pathlib.Path(name).read_text(), name)
            else:
                self.expect(False, f"{name} was not written")
        with zipfile.ZipFile("out.npz") as z:
            self.expect(z.namelist() == ["y.npy"] and z.testzip() is None, "out.npz", z.namelist())
            self.expect(z.read("y.npy").startswith(b"\x93NUMPY"), "out.npz: y.npy is no array")
        self.expect(sorted(os.listdir("named")) == ["y.npy"], "files by name", os.listdir("named"))
        self.expect(sorted(os.listdir("numbered")) == ["0.npy"], "files by index", os.listdir("numbered"))
        self.expect(sorted(os.listdir("pictures")) == ["seven", "two"], "a folder a picture", os.listdir("pictures"))
        cases = xml.etree.ElementTree.parse("results.xml").getroot().findall("testcase")
        self.expect(len(cases) == 10, "results.xml", len(cases))
        self.expect(pathlib.Path("graph.dot").read_text().startswith("digraph "), "graph.dot")
        self.expect(pathlib.Path("ops.csv").read_text().startswith("graph,index,node,"), "ops.csv")


def main():
    smelt, digits, schemas = (pathlib.Path(a).resolve() for a in sys.argv[1:4])
    checker = Checker(str(smelt), str(digits), schemas)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        write_models()
        write_arrays()
        cases = 0
        for line in (HERE / "command_cases.txt").read_text().splitlines():
            if not line.strip() or line.startswith("#"):
                continue
            status, pattern, command = (part.strip() for part in line.split(" | ", 2))
            checker.case(int(status), pattern, command)
            cases += 1
        for command in ("bench dynamic.onnx --runs 3 --json", "bench dynamic.onnx --runs 3 --compare old.json"):
            run = subprocess.run([str(smelt), *command.split()], capture_output=True, text=True)
            checker.expect(run.returncode == 0, command, run.stderr)
            if "--json" in command:
                pathlib.Path("old.json").write_text(run.stdout)
            else:
                checker.expect(re.search(r"median .* \d\.\d{3}", run.stdout), command, run.stdout)
        checker.files()
        checker.options()
        os.chdir("/")
    print(f"{cases} invocations, {checker.checks} checks, {checker.wrong} wrong")
    sys.exit(checker.wrong != 0)


if __name__ == "__main__":
    main()
