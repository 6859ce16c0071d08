#!/usr/bin/env python3
"""Runs ONNX's backend tests through `smelt verify` and writes the coverage table of the operators.

    onnx_node_tests.py --smelt build/release/bin/smelt [--data FOLDER]... [--runner COMMAND] [--filter REGEX]
                       [--backend cpu|reference] [--list-failures] [--table docs/onnx-operators.md]
                       [--abi "build/release/bin/smelt_abi_nodes build/release/lib/libonnxifi.so"]

The tests are those of the `onnx` Python package that is installed (needs numpy), and those of each --data: a folder of
test folders (model.onnx, test_data_set_N/*.pb) such as that of Debian's libonnx-testdata. --runner gives another
command that takes test folders and prints verdicts as `smelt verify` does; --abi runs everything once more
through the C ABI. Prints pass counts of each set.
"""
import argparse
import collections
import copy
import os
import re
import subprocess
import sys
import tempfile
import textwrap
import warnings

import numpy as np
import onnx
from onnx import numpy_helper

# Tests whose stored outputs nobody but their writer can give.
SKIPPED = [
    (r"test_bernoulli", "outputs of a random generator without a seed or with another generator's seed"),
    (r"test_training_dropout(_default)?(_mask)?$", "outputs of another random generator"),
    (r"test_gradient_of_", "ai.onnx.preview.training.Gradient: training"),
]
# Failures that stay, by test name.
REASONS = [
    (r"test_image_decoder_decode_jpeg_", "built without libjpeg: another inverse DCT and chroma filter than the writer's"),
    (r"test_image_decoder_decode_(jpeg2k|tiff|webp)", "built without the library of this format"),
    (r"test_adam_multiple", "the stored outputs used epsilon 0.01, the node says nothing and the default is 1e-6"),
    (r"test_castlike_(BFLOAT16_to_FLOAT|FLOAT_to_BFLOAT16)", "the stored input 'like' is [1], the model declares [3,4]"),
    (r"test_cast(like)?_FLOAT_to_STRING", "another spelling of the same float32 (eight significant digits, as ONNX Runtime)"),
]
ABI = ", C ABI"
# Operators of com.microsoft that the reader refuses though ONNX Runtime has CPU kernels for them.
LEFT = {
    "BeamSearch WhisperBeamSearch GreedySearch Sampling": "a generation loop around decoders that are subgraphs",
    "SparseToDenseMatMul": "takes a sparse tensor as a value",
    "MatMulFpQ4": "its packed weights are private to one build of its library; MatMulNBits and MatMulBnb4 are read",
    "AttnLSTM": "an LSTM with attention of early exporters, not read",
    "BifurcationDetector": "a step of one decoding scheme, not read",
    "EngramGate NGramHashMapping VarlenNGramHashMapping": "hashed memories of one model family, not read",
}
SHORT = {"float": "f32", "float16": "f16", "double": "f64", "bfloat16": "bf16", "string": "str", "complex64": "c64",
         "complex128": "c128", "float8e4m3fn": "f8e4m3fn", "float8e4m3fnuz": "f8e4m3fnuz", "float8e5m2": "f8e5m2",
         "float8e5m2fnuz": "f8e5m2fnuz", "float4e2m1": "f4e2m1", "float8e8m0": "f8e8m0"}


def reason_of(name, reasons):
    return next((text for pattern, text in reasons if re.match(pattern, name)), "")


def short(element):
    name = onnx.TensorProto.DataType.Name(element).lower()
    return SHORT.get(name, name.replace("uint", "u").replace("int", "i"))


def element_types(model):
    """Element types of a model's inputs, or of its outputs when it has none."""
    types = set()

    def visit(t):
        kind = t.WhichOneof("value")
        if kind in ("tensor_type", "sparse_tensor_type"):
            types.add(short(getattr(t, kind).elem_type))
        elif kind in ("sequence_type", "optional_type"):
            visit(getattr(t, kind).elem_type)

    for v in list(model.graph.input) or list(model.graph.output):
        visit(v.type)
    return types


class Case:
    def __init__(self, name, folder, model):
        self.name, self.folder = name, folder
        self.types = element_types(model)
        nodes = model.graph.node
        self.op = (nodes[0].domain, nodes[0].op_type) if len(nodes) == 1 else None
        domain = nodes[0].domain if self.op else ""
        self.opset = next((o.version for o in model.opset_import if o.domain in (domain, domain or "ai.onnx")), 1)
        self.verdict, self.why = "fail", "no verdict"


def write_proto(value, path):
    if isinstance(value, (onnx.TensorProto, onnx.SequenceProto, onnx.OptionalProto)):
        proto = value
    elif isinstance(value, (list, tuple)):
        proto = numpy_helper.from_list(value)
    elif value is None:
        proto = onnx.OptionalProto()
    else:
        proto = numpy_helper.from_array(np.asarray(value))
    with open(path, "wb") as f:
        f.write(proto.SerializeToString())


def write_values(values, infos, folder, kind):
    for i, (value, info) in enumerate(zip(values, infos)):
        path = os.path.join(folder, f"{kind}_{i}.pb")
        if info.type.WhichOneof("value") == "optional_type" and not isinstance(value, onnx.OptionalProto):
            value = numpy_helper.from_optional(list(value) if isinstance(value, (list, tuple)) else value)
        write_proto(value, path)


def package_cases(root, wanted):
    """The tests of the installed package; those that it makes in memory are written below `root`."""
    import onnx.backend.test.loader as loader
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tests = [t for kind in ("node", "simple", "pytorch-converted", "pytorch-operator")
                 for t in loader.load_model_tests(kind=kind)]
    for test in tests:
        if not wanted(test.name):
            continue
        if test.model is None:
            yield Case(test.name, test.model_dir, onnx.load(os.path.join(test.model_dir, "model.onnx")))
            continue
        folder = os.path.join(root, test.name)
        os.makedirs(folder, exist_ok=True)
        onnx.save(test.model, os.path.join(folder, "model.onnx"))
        case = Case(test.name, folder, test.model)
        initial = {t.name for t in test.model.graph.initializer}
        for k, (inputs, outputs) in enumerate(test.data_sets):
            data = os.path.join(folder, f"test_data_set_{k}")
            os.makedirs(data, exist_ok=True)
            write_values(inputs, [v for v in test.model.graph.input if v.name not in initial], data, "input")
            write_values(outputs, test.model.graph.output, data, "output")
        yield case


def folder_cases(root, wanted):
    for folder, _, files in sorted(os.walk(root)):
        name = os.path.basename(folder)
        if "model.onnx" in files and wanted(name):
            yield Case(name, folder, onnx.load(os.path.join(folder, "model.onnx"), load_external_data=False))


def verify(cases, command):
    """Sets every case's verdict from the lines of one command."""
    for case in cases:
        if why := reason_of(case.name, SKIPPED):
            case.verdict, case.why = "skip", why
    todo = [c for c in cases if c.verdict != "skip"]
    for start in range(0, len(todo), 500):
        part = {c.folder: c for c in todo[start:start + 500]}
        run = subprocess.run(command + list(part), capture_output=True, text=True, errors="replace")
        for line in run.stdout.splitlines():
            verdict, _, rest = line.partition("  ")
            folder, _, text = rest.lstrip().partition(" test_data_set_")
            if verdict.strip() not in ("pass", "FAIL", "skip") or folder.split(": ")[0] not in part:
                continue
            case = part[folder.split(": ")[0]]
            if case.why != "no verdict" and case.verdict != "pass":
                continue  # an earlier data set decided
            case.verdict = verdict.strip().lower()
            case.why = text.partition(": ")[2] or "see standard error"
        for line in run.stderr.splitlines():
            for folder, case in part.items():
                if folder + "/model.onnx" in line:
                    case.why = line.split("model.onnx: ")[-1]
    return cases


def count(cases):
    return collections.Counter(c.verdict for c in cases)


def totals(cases):
    c = count(cases)
    return f"{c['pass']} passed, {c['fail']} failed, {c['skip']} skipped"


def operator_of(case, by_name):
    """The operator that a test is about: its only node, or that of the test whose expansion it is."""
    if case.op:
        return case.op
    base = re.sub(r"_expanded.*$", "", case.name)
    return by_name.get(base)


def reads(smelt, root, domain, name, version):
    """Whether the reader knows an operator at a version of its domain."""
    node = onnx.helper.make_node(name, ["x"], ["y"], domain=domain)
    graph = onnx.helper.make_graph([node], "g", [onnx.helper.make_empty_tensor_value_info("x")],
                                   [onnx.helper.make_empty_tensor_value_info("y")])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid(domain, version)])
    path = os.path.join(root, "probe.onnx")
    onnx.save(model, path)
    run = subprocess.run([smelt, "inspect", path], capture_output=True, text=True, errors="replace")
    return not re.search(r"is not known|does not exist in opset|newest known", run.stderr)


def microsoft(smelt, root):
    """Lines about com.microsoft, as the installed onnxruntime knows it; none without it."""
    try:
        import onnxruntime
        from onnxruntime.capi import onnxruntime_pybind11_state as runtime
    except ImportError:
        return []
    domain = "com.microsoft"
    names = sorted({s.name for s in runtime.get_all_operator_schema() if s.domain == domain})
    on_cpu = {k.op_name for k in runtime.get_all_opkernel_def() if k.domain == domain and "CPU" in k.provider}
    read = [n for n in names if reads(smelt, root, domain, n, 1)]
    left = [n for n in names if n not in read]
    why = {n: text for group, text in LEFT.items() for n in group.split()}
    lines = ["", "## com.microsoft", "",
             f"Of the {len(names)} operators that onnxruntime {onnxruntime.__version__} knows, {len(read)} are read: " +
             ", ".join(read) + ".", "", "Refused by name:", ""]
    lines += [f"- {n}: {why.get(n, 'no reason given')}" for n in left if n in on_cpu]
    lines.append("- without a CPU kernel in ONNX Runtime either: " + ", ".join(n for n in left if n not in on_cpu))
    return lines


def types_text(types):
    """Element types in short: families that are complete by one name, {"i8", ...} -> "int"."""
    types = set(types)
    families = {"int": {"i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64"},
                "f8": {"f8e4m3fn", "f8e4m3fnuz", "f8e5m2", "f8e5m2fnuz"},
                "narrow": {"f4e2m1", "i2", "i4", "u2", "u4"}}
    for name, members in families.items():
        if members <= types:
            types = types - members | {name}
    return " ".join(sorted(types))


def wrapped(lines):
    """Lines of prose and lists at most 118 columns long; tables as they are."""
    out = []
    for line in lines:
        keep = len(line) <= 118 or line.startswith("|")
        indent = "  " if line.startswith("- ") else ""
        out += [line] if keep else textwrap.wrap(line, 118, subsequent_indent=indent, break_long_words=False,
                                                 break_on_hyphens=False)
    return out


def table(args, sets, root):
    """The Markdown page."""
    schemas = collections.defaultdict(set)
    for s in onnx.defs.get_all_schemas_with_history():
        schemas[s.domain, s.name].add(s.since_version)
    rows = collections.defaultdict(lambda: [[] for _ in sets])
    rest = [[] for _ in sets]
    for k, (_, cases) in enumerate(sets):
        by_name = {c.name: c.op for c in cases if c.op}
        for c in cases:
            op = operator_of(c, by_name)
            (rows[op][k] if op in schemas else rest[k]).append(c)
    sets_text = "; ".join(f"{title}: {totals(cases)}" for title, cases in sets)
    data = "".join(" --data " + d for d in args.data)
    abi = f" --abi '{args.abi}'" if args.abi else ""
    lines = [
        "# ONNX operators", "",
        f"Made by `tests/onnx_node_tests.py --smelt build/release/bin/smelt{data}{abi} --backend {args.backend} --table docs/onnx-operators.md` "
        f"with the Python package onnx {onnx.__version__}; do not edit.", "",
        f"ONNX's backend tests through `smelt verify`, and through libonnxifi.so where it says C ABI. {sets_text}.", "",
        "*Versions* are those of the operator's definition that the reader knows; one in parentheses is refused by name.",
        "*Types* are the element types of the tests' inputs: a type with a mark `!` failed; `int` stands for the integers of "
        "8 to 64 bits, `f8` for the four float8 formats with a fraction, `narrow` for those of 2 and 4 bits. The counts "
        "are passed/failed/skipped, an operator's expanded function bodies included. An operator without tests in the set "
        "has a dash. *opset N* is the test data of --data.", "",
        "|Operator|Versions|Types|" + "|".join(t for t, _ in sets) + "|",
        "|---|---|---|" + "---|" * len(sets)]
    for op in sorted(schemas, key=lambda o: (o[0], o[1])):
        known = [str(v) if reads(args.smelt, root, *op, v) else f"({v})" for v in sorted(schemas[op])]
        cases = [c for part in rows[op] for c in part]
        bad = {t for c in cases if c.verdict == "fail" for t in c.types}
        types = types_text(t + ("!" if t in bad else "") for t in {t for c in cases for t in c.types})
        cells = []
        for part in rows[op]:
            c = count(part)
            cells.append(f"{c['pass']}/{c['fail']}/{c['skip']}" if part else "-")
        name = (op[0] + "." if op[0] else "") + op[1]
        lines.append("|".join(["", name, " ".join(known), types or "-", *cells, ""]))
    lines += ["", "Models of several nodes (PyTorch exports, sequences, control flow): " +
              "; ".join(f"{t}: {totals(cs)}" for (t, _), cs in zip(sets, rest)) + ".", *microsoft(args.smelt, root), "", "## What fails or is skipped", ""]
    verdicts = {(title, c.name): c.verdict for title, cases in sets for c in cases}
    beyond = collections.defaultdict(list)  # skipped through the ABI only: names by reason
    for title, cases in sets:
        for c in cases:
            if c.verdict == "pass":
                continue
            if title.endswith(ABI):
                if c.verdict == "skip" and not reason_of(c.name, SKIPPED):
                    beyond[c.why].append(c.name)
                    continue
                if verdicts[title.removesuffix(ABI), c.name] == c.verdict:
                    continue  # as through `smelt verify`
            why = c.why if c.verdict == "skip" else reason_of(c.name, REASONS) or c.why
            lines.append(f"- {c.name} ({title}), {c.verdict}: {why}")
    if beyond:
        lines += ["", "Skipped through the C ABI only:", ""]
        for why, names in sorted(beyond.items()):
            lines.append(f"- {why}: " + ", ".join(sorted(set(names))))
    return "\n".join(wrapped(lines)) + "\n"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--smelt", required=True)
    parser.add_argument("--data", action="append", default=[])
    parser.add_argument("--runner", default="")
    parser.add_argument("--abi", default="", help="smelt_abi_nodes and libonnxifi.so: the same tests through the C ABI")
    parser.add_argument("--backend", default="cpu")
    parser.add_argument("--filter", default="")
    parser.add_argument("--list-failures", action="store_true")
    parser.add_argument("--table", default="")
    args = parser.parse_args()
    command = args.runner.split() or [args.smelt, "verify", "--backend", args.backend]
    wanted = lambda name: re.search(args.filter, name) is not None
    with tempfile.TemporaryDirectory() as root:
        sets = [(f"onnx {onnx.__version__}", list(package_cases(root, wanted)))]
        for folder in args.data:
            cases = list(folder_cases(folder, wanted))
            newest = max((c.opset for c in cases if not c.op or c.op[0] in ("", "ai.onnx")), default=0)
            sets.append((f"opset {newest}", cases))
        runs = [(title, cases, command) for title, cases in sets]
        if args.abi:
            runs += [(title + ABI, [copy.copy(c) for c in cases], args.abi.split()) for title, cases in sets]
        sets = [(title, cases) for title, cases, _ in runs]
        for title, cases, how in runs:
            verify(cases, how)
            if args.list_failures:
                for c in cases:
                    if c.verdict == "fail":
                        print(f"FAIL {c.name}: {c.why[:300]}")
            print(f"{title}: {totals(cases)}")
        if args.table:
            os.makedirs(os.path.dirname(args.table) or ".", exist_ok=True)
            with open(args.table, "w") as f:
                f.write(table(args, sets, root))
    return 3 if any(c.verdict == "fail" and not reason_of(c.name, REASONS) for _, cs in sets for c in cs) else 0


if __name__ == "__main__":
    sys.exit(main())
