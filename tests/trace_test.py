#!/usr/bin/env python3
"""What Perfetto asks of a trace of `smelt bench --trace`.

    trace_test.py SMELT DIGITS_FOLDER

Slices of one thread nest: within nanoseconds, which Perfetto counts in, one ends before the next begins or holds it
whole. Every measured run is a slice that holds its nodes, whose durations add up to no more than its own. With PyPI's
package `perfetto`, its trace processor loads the traces and finds these slices; without it, or without the program that
the package fetches, that part is left out with a word.
"""

import json
import pathlib
import subprocess
import sys
import tempfile

RUNS = 4


def check_nesting(events):
    """Fails when two slices of one thread overlap in part."""
    threads = {}
    for e in events:
        if e["ph"] == "X":
            begin, end = round(e["ts"] * 1000), round((e["ts"] + e["dur"]) * 1000)
            threads.setdefault((e["pid"], e["tid"]), []).append((begin, -end, e["name"]))
    for slices in threads.values():
        open_ends = []
        for begin, minus_end, name in sorted(slices):
            while open_ends and open_ends[-1] <= begin:
                open_ends.pop()
            assert not open_ends or -minus_end <= open_ends[-1] + 1, f"{name} at {begin} ns outlasts its parent"
            open_ends.append(-minus_end)


def check_runs(events, runs):
    """Each run holds nodes, which take no longer than it."""
    whole = [e for e in events if e["ph"] == "X" and e["name"].startswith("run ")]
    assert len(whole) == runs, f"{len(whole)} runs, {runs} expected"
    for run in whole:
        begin, end = run["ts"], run["ts"] + run["dur"]
        nodes = [
            e
            for e in events
            if e["ph"] == "X" and "kernel" in e["args"] and e["tid"] == run["tid"] and begin <= e["ts"] < end
        ]
        assert nodes, f"{run['name']} has no nodes"
        total = sum(e["dur"] for e in nodes)
        assert total <= run["dur"] + 0.001 * len(nodes), f"{run['name']}: nodes take {total} of {run['dur']} us"


def check_profile(smelt, model, folder):
    """The nodes' times of a profile add up to no more than the mean run."""
    profile = folder / "profile.json"
    command = [smelt, "bench", model, "--runs", "50", "--json", "--profile", str(profile)]
    figures = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    total = sum(node["micros_per_run"] for node in json.loads(profile.read_text()))
    mean = 1000 * sum(figures["samples_ms"]) / len(figures["samples_ms"])
    assert 0 < total <= mean, f"{model}: nodes take {total} of {mean} us"


def check_in_perfetto(path, events):
    """The slices that Perfetto's trace processor finds; False: it cannot be had here."""
    try:
        from perfetto.trace_processor import TraceProcessor

        processor = TraceProcessor(trace=str(path))
    except Exception as e:  # not installed, or its program cannot be fetched
        print(f"Perfetto's trace processor is left out: {type(e).__name__}")
        return False
    with processor:
        found = next(iter(processor.query("select count(*) n, sum(dur) d from slice")))
        wrong = list(processor.query("select name from stats where severity = 'error' and value > 0"))
    slices = [e for e in events if e["ph"] == "X"]
    assert found.n == len(slices), f"{found.n} slices, {len(slices)} written"
    assert abs(found.d - sum(e["dur"] for e in slices) * 1000) <= len(slices), "durations differ"
    assert not wrong, [row.name for row in wrong]
    return True


def main():
    smelt, digits = sys.argv[1:3]
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "trace.json"
        for model, options, runs in (
            ("digits.onnx", ["--runs", str(RUNS)], RUNS),
            ("digits_int8.tflite", ["--runs", str(RUNS), "-t", "2"], RUNS),
            ("digits_xnnpack.pte", ["--runs", str(RUNS), "--streams", "2"], None),
        ):
            command = [smelt, "bench", f"{digits}/{model}", *options, "--trace", str(path)]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            events = json.loads(path.read_text())["traceEvents"]
            check_nesting(events)
            if runs:
                check_runs(events, runs)
            check_in_perfetto(path, events)
            check_profile(smelt, f"{digits}/{model}", path.parent)


if __name__ == "__main__":
    main()
