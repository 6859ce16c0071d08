#!/usr/bin/env python3
"""Runs bench/compare on a small network without peers, and checks the tables of docs/benchmarks.md against the results
that they are made of.

    race_report_test.py SMELT
"""

import json
import math
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).parent.parent
COMPARE = ROOT / "bench/compare"
sys.path.insert(0, str(COMPARE))

from engines import difference  # noqa: E402
from families import geomean, kind_of, precision_of, summary, worst  # noqa: E402
from report import part  # noqa: E402

NAMES = [
    ("resnet50_qdq", "convolutional", "int8"),
    ("mobilenet_v2_f32", "convolutional", "float"),
    ("bert_base_4_dynamic", "transformer", "dynamic"),
    ("bert_base_4_q4", "transformer", "4-bit weights"),
    ("llama_step", "decoder step", "float"),
    ("llama_prefill", "transformer", "float"),
    ("ssd_mobilenet_v2_int8", "detection", "int8"),
    ("deeplabv3_mobilenet", "segmentation", "float"),
    ("edsr_dynamic", "super-resolution", "dynamic"),
    ("lstm", "recurrent", "float"),
    ("tcn_int8", "temporal", "int8"),
    ("whisper_encoder", "speech", "float"),
    ("boosted_trees_256", "trees", "float"),
]


def network(name, ratio):
    return {"name": name, "kind": kind_of(name), "precision": precision_of(name), "ratio": ratio}


class Families(unittest.TestCase):
    def test_names(self):
        for name, kind, precision in NAMES:
            self.assertEqual((name, kind_of(name), precision_of(name)), (name, kind, precision))

    def test_summary(self):
        rows = summary(
            [network("resnet18", 0.5), network("resnet50", 2.0), network("lstm", 0.25), network("gru", None)]
        )
        means = {title: (count, values[0]) for title, count, values in rows}
        self.assertEqual(set(means), {"convolutional", "recurrent", "all"})
        self.assertEqual(means["recurrent"], (2, 0.25))
        self.assertAlmostEqual(means["convolutional"][1], 1)
        self.assertAlmostEqual(means["all"][1], 0.25 ** (1 / 3))

    def test_worst(self):
        networks = [network(f"n{i}", i / 10) for i in range(20)] + [network("none", None)]
        self.assertEqual([n["name"] for n in worst(networks)], [f"n{i}" for i in range(19, 9, -1)])
        self.assertIsNone(geomean([None]))


class Outputs(unittest.TestCase):
    def test_difference(self):
        self.assertEqual(difference([[1.0, 2.0]], [[1.0, 2.0]]), 0)
        self.assertAlmostEqual(difference([[3.0, 4.0]], [[3.0], [3.0, 3.0], [0.0, 0.0]]), 0.2)
        self.assertEqual(difference([[1.0, 2.0]], []), math.inf)
        self.assertEqual(difference([[1.0, 2.0]], [[1.0, math.nan]]), math.inf)


class Document(unittest.TestCase):
    def test_tables_are_those_of_the_results(self):
        text = (ROOT / "docs/benchmarks.md").read_text()
        for folder in sorted(p for p in (ROOT / "bench/results").iterdir() if p.is_dir()):
            races = [json.loads(file.read_text()) for file in sorted(folder.glob("*.json"))]
            races.sort(key=lambda race: (race["threads"], race["set"]))
            begin = f"<!-- race: {folder.name} -->\n\n"
            self.assertIn(f"{begin}{part(folder, races)}\n\n<!-- end of race -->", text, "run report.py --write")
            for n in (n for race in races for n in race["networks"]):
                self.assertEqual((n["kind"], n["precision"]), (kind_of(n["name"]), precision_of(n["name"])))


class Race(unittest.TestCase):
    def race(self, *options):
        command = [sys.executable, COMPARE / "compare.py", "--smelt", SMELT, "--rounds", "1", "--seconds", "0.01"]
        return subprocess.run([*command, *options], capture_output=True, text=True, check=False)

    def test_two_commands(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "new/race.json"
            options = ["--base", SMELT, "--peers", "", "--json", file, "--set", "small", "--add"]
            for name in ("digits.onnx", "digits.tflite", "digits.onnx"):
                done = self.race(*options, ROOT / "examples/digits" / name)
                self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("geometric means", done.stdout)
            race = json.loads(file.read_text())
        self.assertEqual((race["set"], race["threads"]), ("small", 1))
        self.assertTrue(race["processor"] and race["engines"]["smelt"])
        self.assertEqual([n["file"] for n in race["networks"]], ["digits.onnx", "digits.tflite"])
        for n in race["networks"]:
            self.assertIsNone(n["ratio"])
            self.assertGreater(n["base"], 0)
            self.assertGreater(n["figures"]["smelt"]["first"], 0)

    def test_a_file_that_does_not_load_is_left_out_with_the_reason(self):
        with tempfile.TemporaryDirectory() as folder:
            broken = pathlib.Path(folder) / "broken.onnx"
            broken.write_bytes(b"\xff" * 64)
            done = self.race("--peers", "", broken)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("smelt left out: ", done.stdout)

    def test_an_unknown_peer_is_refused(self):
        done = self.race("--peers", "foo", ROOT / "examples/digits/digits.onnx")
        self.assertEqual(done.returncode, 2)
        self.assertIn("no peer foo", done.stderr)


if __name__ == "__main__":
    SMELT = sys.argv.pop(1)
    unittest.main()
