#!/usr/bin/env python3
"""Walks a flatbuffer by its schema and gives every field illegal values, one at a time: what smelt does with such a file
must be a result or a located error within the limits.

    tests/fuzz/fields.py --smelt build/asan/bin/smelt [--corpus build/asan/corpus] [--keep DIR] [--most 4000] [--only ort]

Models: the smallest golden cases of each format that name each operator once. Mutated cases run in batches by
`smelt verify`; a batch that crashes, leaks or hangs is bisected.
"""
import argparse
import json
import re
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

SCHEMAS = Path(__file__).resolve().parents[2] / "schemas"
#: suffix: schema, file identifiers
FORMATS = {
    "ort": ("ort.fbs", (b"ORTM",)),
    "ptd": ("executorch_ptd.fbs", (b"FT01",)),
    "bpte": ("bundled_program_bp08.fbs", (b"BP08",)),
    "bp": ("bundled_program_bp04.fbs", (b"BP04",)),
    "xnn": ("xnnpack_graph.fbs", (b"XN00", b"XN01")),
    "vkd": ("vulkan_graph.fbs", (b"VK00",)),
    "pte": ("executorch_program.fbs", (b"ET12",)),
    "tflite": ("tflite.fbs", (b"TFL3",)),
}
WIDTHS = {"bool": 1, "byte": 1, "ubyte": 1, "int8": 1, "uint8": 1, "short": 2, "ushort": 2, "int16": 2, "uint16": 2,
          "int": 4, "uint": 4, "int32": 4, "uint32": 4, "float": 4, "long": 8, "ulong": 8, "int64": 8, "uint64": 8,
          "double": 8}


class Schema:
    """Tables, structs, enums and unions of a .fbs file and its includes, by their names without namespaces."""

    def __init__(self, path):
        self.tables, self.structs, self.enums, self.unions, self.root = {}, {}, {}, {}, None
        self.read(path)

    def read(self, path):
        text = re.sub(r"//[^\n]*", "", path.read_text())
        for name in re.findall(r'include\s+"([^"]+)"', text):
            self.read(path.parent / name)
        for kind, name, base, body in re.findall(r"\b(table|struct|enum|union)\s+(\w+)\s*(?::\s*(\w+))?[^{;]*{([^}]*)}",
                                                 text):
            if kind == "enum":
                self.enums[name] = WIDTHS[base]
            elif kind == "union":
                self.unions[name] = [self.last(m.split(":")[-1]) for m in body.split(",") if m.strip()]
            else:
                fields = re.findall(r"(\w+)\s*:\s*(\[?)\s*([\w.]+)", re.sub(r"\([^)]*\)|=[^;]*", "", body))
                into = self.tables if kind == "table" else self.structs
                into[name] = [(field, bool(vector), self.last(type_)) for field, vector, type_ in fields]
        self.root = (re.findall(r"root_type\s+(\w+)", text) or [self.root])[0]

    @staticmethod
    def last(name):
        return name.split("=")[0].strip().split(".")[-1]

    def width(self, type_):
        """Bytes of a scalar or struct; None: neither."""
        if type_ in self.structs:
            widths = [self.width(t) for _, _, t in self.structs[type_]]
            at = 0
            for w in widths:
                at = -(-at // w) * w + w
            return -(-at // max(widths)) * max(widths)
        return WIDTHS.get(type_) or self.enums.get(type_)


class Walk:
    """Places of a flatbuffer: (path, kind, offset, width) with kind scalar, float, offset, length or entry (of a vtable).
    Of long vectors only the first, second and last element are visited, each table once."""

    def __init__(self, data, schema, start):
        self.data, self.schema, self.places, self.seen = data, schema, [], set()
        self.place("root", "offset", start, 4)
        self.table(schema.root, start + self.get(start, "<I"), schema.root)

    def get(self, at, form):
        return struct.unpack_from(form, self.data, at)[0]

    def place(self, path, kind, at, width):
        self.places.append((path, kind, at, width))

    def table(self, name, at, path):
        if at in self.seen:
            return
        self.seen.add(at)
        vtable = at - self.get(at, "<i")
        self.place(path, "offset", at, 4)
        self.place(path + ".vtable_bytes", "scalar", vtable, 2)
        entries = (self.get(vtable, "<H") - 4) // 2
        slot, member = 0, 0
        for field, vector, type_ in self.schema.tables[name]:
            where = f"{path}.{field}"
            if type_ in self.schema.unions and not vector:
                at_type = self.entry(vtable, at, entries, slot, where + "_type")
                member = self.data[at_type] if at_type else 0
                if at_type:
                    self.place(where + "_type", "scalar", at_type, 1)
                slot += 1
            at_field = self.entry(vtable, at, entries, slot, where)
            slot += 1
            if at_field:
                self.field(where, vector, type_, at_field, member)

    def entry(self, vtable, table, entries, slot, path):
        """Where field `slot` of a table lies; None: it is absent."""
        if slot >= entries or not (offset := self.get(vtable + 4 + 2 * slot, "<H")):
            return None
        self.place(path, "entry", vtable + 4 + 2 * slot, 2)
        return table + offset

    def field(self, path, vector, type_, at, member):
        width = self.schema.width(type_)
        if not vector and width:
            return self.value(path, type_, at)
        self.place(path, "offset", at, 4)
        to = at + self.get(at, "<I")
        if vector or type_ == "string":
            n = self.get(to, "<I")
            self.place(path, "length", to, 4)
            step = width or (4 if vector else 1)
            for i in sorted({0, 1, n - 1} & set(range(n))):
                element = to + 4 + i * step
                if width or type_ == "string" and not vector:
                    self.value(f"{path}[{i}]", type_ if width else "ubyte", element)
                else:
                    self.field(f"{path}[{i}]", False, type_, element, 0)
        elif type_ in self.schema.unions:
            members = self.schema.unions[type_]
            if 0 < member <= len(members) and members[member - 1] in self.schema.tables:
                self.table(members[member - 1], to, path)
        else:
            self.table(type_, to, path)
        return None

    def value(self, path, type_, at):
        if type_ in self.schema.structs:
            for field, _, t in self.schema.structs[type_]:
                width = self.schema.width(t)
                at = -(-at // width) * width
                self.value(f"{path}.{field}", t, at)
                at += width
            return
        self.place(path, "float" if type_ in ("float", "double") else "scalar", at, self.schema.width(type_))


def illegal(kind, width, old, size):
    """Values to write in a place that holds `old` in a file of `size` bytes."""
    top = 1 << 8 * width
    if kind == "float":
        infinite, quiet, small = ((0x7F800000, 0x7FC00000, 1) if width == 4 else (0x7FF << 52, 0xFFF << 51, 1))
        return {0, infinite, quiet, small, old ^ top >> 1, infinite - 1}
    # The verifier refuses most offsets and lengths: few of them.
    few = {"entry": {0, old + 4}, "offset": {0, old + 4, old - 4}, "length": {0, old - 1, old + 1, top - 1}}
    return few.get(kind, {0, 1, 2, old + 1, old - 1, top - 1, top // 2 - 1, top // 2, top // 4, 1 << 20, size})


def mutants(data, schema, identifiers):
    """(path, bytes) for every place and value."""
    found = [at for i in identifiers for at in [data.find(i)] if at >= 4]
    if not found:
        return
    walk = Walk(data, schema, found[0] - 4)
    for path, kind, at, width in walk.places:
        old = int.from_bytes(data[at:at + width], "little")
        for value in sorted({v % (1 << 8 * width) for v in illegal(kind, width, old, len(data))} - {old}):
            yield f"{path} {kind} {old} -> {value}", data[:at] + value.to_bytes(width, "little") + data[at + width:]


def chosen(corpus, suffix, most_bytes=60_000):
    """The smallest file of each folder name without its last parts, so that each operator comes once."""
    found = {}
    for p in sorted(corpus.rglob(f"model.{suffix}"), key=lambda p: p.stat().st_size):
        if p.stat().st_size <= most_bytes and "bad" not in p.parts:
            found.setdefault("_".join(p.parent.name.split("_")[:2]), p)
    return list(found.values())


class Runner:
    def __init__(self, args, folder):
        self.smelt, self.keep, self.folder, self.found = args.smelt, args.keep, folder, 0

    def run(self, batch):
        """None, or why the batch is a finding."""
        names = [str(d) for d, _ in batch]
        command = [self.smelt, "verify", *names, "--limit-memory", "200000000", "--limit-seconds", "2"]
        try:
            p = subprocess.run(command, capture_output=True, timeout=30 + 4 * len(batch))
        except subprocess.TimeoutExpired:
            return "no answer in time"
        return None if p.returncode in (0, 1, 3) else f"status {p.returncode}: {p.stderr.decode(errors='replace')[:4000]}"

    def check(self, batch):
        why = self.run(batch)
        if why and len(batch) > 1:
            middle = len(batch) // 2
            self.check(batch[:middle])
            self.check(batch[middle:])
        elif why:
            folder, text = batch[0]
            self.found += 1
            kept = self.keep / f"{self.found}_{folder.name}"
            kept.mkdir(parents=True, exist_ok=True)
            for p in folder.rglob("model.*"):
                (kept / p.name).write_bytes(p.read_bytes())
            print(f"FINDING {kept}: {text}\n{why}", flush=True)


def case(folder, source, suffix, data):
    """A copy of the case `source` whose model.SUFFIX holds `data`; any end but a crash is right."""
    folder.mkdir()
    for p in source.iterdir():
        if p.name not in (f"model.{suffix}", "case.json"):
            (folder / p.name).symlink_to(p.resolve())
    (folder / f"model.{suffix}").write_bytes(data)
    bundle = suffix in ("bp", "bpte")
    info = json.loads((source / "case.json").read_text()) if (source / "case.json").exists() else {}
    if not bundle:
        (folder / "case.json").write_text(json.dumps({**info, "expect": "any"}))
    return folder / f"model.{suffix}" if bundle else folder


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--smelt", required=True)
    ap.add_argument("--corpus", type=Path)
    ap.add_argument("--most", type=int, default=4000, help="mutants of a format, drawn evenly")
    ap.add_argument("--only", choices=sorted(FORMATS), nargs="*", default=sorted(FORMATS))
    ap.add_argument("--keep", type=Path, default=Path("build/fuzz-findings"))
    args = ap.parse_args()
    corpus = args.corpus or Path(args.smelt).resolve().parents[1] / "corpus"
    total = 0
    for suffix in args.only:
        schema_file, identifiers = FORMATS[suffix]
        schema = Schema(SCHEMAS / schema_file)
        jobs = [(p, *m) for p in chosen(corpus, suffix) for m in mutants(p.read_bytes(), schema, identifiers)]
        jobs = jobs[::-(-len(jobs) // args.most) or 1]
        runner = Runner(args, None)
        for begin in range(0, len(jobs), 100):
            with tempfile.TemporaryDirectory() as tmp:
                batch = [(case(Path(tmp) / f"{begin + i}_{p.parent.name}", p.parent, suffix, data), f"{p}: {path}")
                         for i, (p, path, data) in enumerate(jobs[begin:begin + 100])]
                runner.check(batch)
        print(f"{suffix}: {len(jobs)} mutants, {runner.found} findings", flush=True)
        total += runner.found
    sys.exit(1 if total else 0)


if __name__ == "__main__":
    main()
