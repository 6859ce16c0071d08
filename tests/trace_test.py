#!/usr/bin/env python3
"""What Perfetto asks of the traces of `smelt bench` and `smelt explain`.

    trace_test.py SMELT DIGITS_FOLDER

Slices of one thread nest: in nanoseconds, which Perfetto counts in, one ends before the next begins or holds it
whole. Every measured run is a slice that holds its nodes, whose durations add up to no more than its own. Where Perfetto's
trace processor can be had (trace_processor.py), it loads the traces and finds these slices, their kernels and the bytes
of the arena, without an error; elsewhere that part is left out with a word.
"""

import collections
import json
import pathlib
import subprocess
import sys
import tempfile

from trace_processor import TraceProcessors, Unavailable

RUNS = 4


def check_nesting(events):
    """Fails when two slices of one thread overlap in part."""
    threads = {}
    for e in events:
        if e["ph"] == "X":
            begin = int(e["ts"] * 1000)  # as Perfetto cuts them
            end = begin + int(e["dur"] * 1000)
            threads.setdefault((e["pid"], e["tid"]), []).append((begin, -end, e["name"]))
    for slices in threads.values():
        open_ends = []
        for begin, minus_end, name in sorted(slices):
            while open_ends and open_ends[-1] <= begin:
                open_ends.pop()
            assert not open_ends or -minus_end <= open_ends[-1], f"{name} at {begin} ns outlasts its parent"
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


def check_in_perfetto(trace, events):
    """What Perfetto's trace processor finds in a trace is what was written; the number of slices."""
    slices = [e for e in events if e["ph"] == "X"]
    found = trace.query("select count(*) n, sum(dur) d from slice")[0]
    assert found["n"] == len(slices), f"{found['n']} slices, {len(slices)} written"
    assert found["d"] == sum(int(e["dur"] * 1000) for e in slices), "durations differ"
    named = {row["name"]: row["n"] for row in trace.query("select name, count(*) n from slice group by name")}
    assert named == collections.Counter(e["name"] for e in slices), named
    kernels = trace.query("select count(*) n from slice join args using (arg_set_id) where key = 'args.kernel'")[0]["n"]
    assert kernels == sum("kernel" in e["args"] for e in slices), f"{kernels} kernels"
    counts = trace.query("select name, value from counter join counter_track t on track_id = t.id order by ts")
    written = [e for e in events if e["ph"] == "C"]
    assert [c["value"] for c in counts] == [e["args"]["bytes"] for e in written], counts
    assert all(c["name"].startswith("arena bytes") for c in counts), counts
    wrong = trace.query("select name, value from stats where severity in ('error', 'data_loss') and value > 0")
    assert not wrong, wrong
    return len(slices), len(written)


def traces(smelt, digits, folder):
    """Checks the traces of both commands; their paths."""
    for model, options, runs in (
        ("digits.onnx", ["--runs", str(RUNS)], RUNS),
        ("digits_int8.tflite", ["--runs", str(RUNS), "-t", "2"], RUNS),
        ("digits_xnnpack.pte", ["--runs", str(RUNS), "--streams", "2"], None),
    ):
        path = folder / f"bench_{model}.json"
        command = [smelt, "bench", f"{digits}/{model}", *options, "--trace", str(path)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        events = json.loads(path.read_text())["traceEvents"]
        check_nesting(events)
        if runs:
            check_runs(events, runs)
        check_profile(smelt, f"{digits}/{model}", folder)
        yield path
    for options in ([], ["--time"]):
        path = folder / f"explain{''.join(options)}.json"
        command = [smelt, "explain", f"{digits}/digits.onnx", *options, "--trace", str(path)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        events = json.loads(path.read_text())["traceEvents"]
        check_nesting(events)
        assert any(e["ph"] == "C" and e["args"]["bytes"] > 0 for e in events), "no bytes of the arena"
        yield path


def main():
    smelt, digits = sys.argv[1:3]
    with tempfile.TemporaryDirectory() as folder:
        paths = list(traces(smelt, digits, pathlib.Path(folder)))
        try:
            with TraceProcessors() as processors:
                for path in paths:
                    trace = processors.open(path)
                    slices, counts = check_in_perfetto(trace, json.loads(path.read_text())["traceEvents"])
                    trace.close()
                    print(f"{path.stem}: {slices} slices and {counts} counts in {processors.name}")
        except Unavailable as e:
            print(f"Perfetto's trace processor is left out: {e}")


if __name__ == "__main__":
    main()
