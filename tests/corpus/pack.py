#!/usr/bin/env python3
"""Packs the generated golden cases of ../shared/corpus into tests/corpus/FORMAT.tar.xz.

    tests/corpus/pack.py [FORMAT ...]

Third-party model files (source other than "generated") and cases above 200 kB stay out.
"""
import io
import json
import sys
import tarfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
SHARED = HERE.parents[2] / "shared" / "corpus"
LARGEST = 200_000


def wanted(case):
    info = json.loads((case / "case.json").read_text())
    if info.get("source", "generated") != "generated":
        return False
    return sum(p.stat().st_size for p in case.rglob("*") if p.is_file()) <= LARGEST


def add_file(archive, name, data):
    """Adds bytes as a file without owner or time: equal cases make equal archives."""
    entry = tarfile.TarInfo(name)
    entry.size = len(data)
    archive.addfile(entry, io.BytesIO(data))


def pack(fmt):
    cases = sorted(p.parent for p in (SHARED / fmt).rglob("case.json") if wanted(p.parent))
    with tarfile.open(HERE / f"{fmt}.tar.xz", "w:xz", preset=9) as tar:
        for case in cases:
            for path in sorted(case.rglob("*")):
                if path.is_symlink() or not path.is_file():
                    continue
                add_file(tar, str(path.relative_to(SHARED)), path.read_bytes())
    print(f"{fmt}: {len(cases)} cases, {(HERE / f'{fmt}.tar.xz').stat().st_size} bytes")


if __name__ == "__main__":
    for name in sys.argv[1:] or ["tflite", "onnx", "pte", "xnnpack", "vulkan", "bundled"]:
        pack(name)
