#!/usr/bin/env python3
"""Makes the tables of docs/benchmarks.md from what compare.py wrote with --json.

    python3 report.py bench/results/PROCESSOR                               # prints sets, families, ratios above 0.95
    python3 report.py --networks bench/results/PROCESSOR                    # prints all networks, set by set
    python3 report.py --write docs/benchmarks.md bench/results/PROCESSOR    # replaces the part of that processor

A folder holds a .json file a set, and causes.txt: lines `NETWORK: why its ratio is above 0.95`. The part of a processor
in a document lies between the lines `<!-- race: PROCESSOR -->` and `<!-- end of race -->`.
"""

import argparse
import json
import pathlib
import re

from families import geomean, summary

LIMIT = 0.95
NEAR = 0.8  # of the peer's time: what the products alone take is then a cause by itself
OURS = ("smelt", "base")


def table(head, rows):
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def two(value):
    return "" if value is None else f"{value:.2f}"


def ms(figures):
    return f"{figures['ms']:.3f}" if figures and figures["ms"] < 1 else f"{figures['ms']:.1f}" if figures else "-"


def best_peer(network):
    """(milliseconds, name) of the fastest peer."""
    return min((f["ms"], engine) for engine, f in network["figures"].items() if engine not in OURS)


def above(networks):
    return [n for n in networks if (n["ratio"] or 0) > LIMIT]


def set_rows(races):
    for race in races:
        networks = [n for n in race["networks"] if n["ratio"] is not None]
        means = [two(geomean(n[key] for n in networks)) for key in ("ratio", "first", "memory")]
        yield [race["set"], race["threads"], len(networks), means[0], len(above(networks)), *means[1:], race["date"]]


def sets(races):
    head = ["set", "threads", "networks", "ratio, geometric mean", f"above {LIMIT}", "first", "memory", "date"]
    return table(head, set_rows(races))


def families(races):
    """Of the sets of one thread, all together."""
    networks = [n for race in races if race["threads"] == 1 and not race["bf16"] for n in race["networks"]]
    networks = [n for n in networks if n["ratio"] is not None]
    rows = [[title, count, *map(two, means[:3])] for title, count, means in summary(networks)]
    return table(["family", "networks", "ratio", "first", "memory"], rows)


def outliers(races, causes):
    rows = []
    for race in races:
        for n in above(race["networks"]):
            time, peer = best_peer(n)
            smelt, place = n["figures"]["smelt"], f"{race['set']}, {race['threads']}"
            peer = f"{peer} {ms({'ms': time})}"
            rows.append([n["ratio"], [n["name"], place, ms(smelt), peer, two(n["ratio"])]])
            products = f"products alone take {two(n['bound'])}" if (n.get("bound") or 0) >= NEAR else ""
            rows[-1][1].append(causes.get(n["name"], products))
    rows.sort(key=lambda row: -row[0])
    head = ["network", "set, threads", "smelt, ms", "best peer, ms", "ratio", "cause"]
    return table(head, [row for _, row in rows]) if rows else f"No network is above {LIMIT}."


def networks_of(race):
    engines = [e for e in race["engines"] if any(e in n["figures"] for n in race["networks"])]
    rows = []
    for n in race["networks"]:
        times = [ms(n["figures"].get(e)) for e in engines]
        rows.append([n["name"], *times, *(two(n.get(key)) for key in ("ratio", "first", "memory", "bound"))])
    head = ["network", *(f"{e}, ms" for e in engines), "ratio", "first", "memory", "bound"]
    return f"### {race['set']}, {race['threads']} thread(s), {race['date']}\n\n" + table(head, rows)


def speed_ups(races):
    """How much faster two threads are than one, where both were measured."""
    times = {}
    for race in races:
        for n in race["networks"]:
            times.setdefault((race["set"], n["name"]), {})[race["threads"]] = n["figures"]["smelt"]["ms"]
    gains = sorted((t[1] / t[2], name) for (_, name), t in times.items() if {1, 2} <= set(t))
    if not gains:
        return "No network was measured with two threads too."
    low, high = (f"{name} {gain:.2f}" for gain, name in (gains[0], gains[-1]))
    mean = geomean(gain for gain, _ in gains)
    return f"Two threads against one, {len(gains)} networks: {mean:.2f} times as fast ({low} to {high})."


def left_out(races):
    """How many networks each peer was left out of, among those of the formats that it takes."""
    lines = []
    for engine in sorted({e for race in races for e in race["engines"]} - set(OURS)):
        networks = [n for race in races if engine in race["engines"] and race["threads"] == 1 for n in race["networks"]]
        out = sum(engine in n["left_out"] for n in networks)
        lines.append(f"{engine} {len(networks) - out} of {len(networks)}")
    return "; ".join(lines)


def causes_of(folder):
    file = folder / "causes.txt"
    lines = file.read_text().splitlines() if file.exists() else []
    return dict(line.split(": ", 1) for line in lines if ": " in line)


def part(folder, races):
    """The Markdown of one processor."""
    versions = {}
    for race in races:
        versions |= race["engines"]
    commands = sorted(
        {
            f"`--threads {race['threads']} --cpus {','.join(map(str, race['cpus']))} --rounds {race['rounds']} "
            f"--seconds {race['seconds']}`"
            for race in races
        }
    )
    said = ", ".join(f"{engine} {version}" for engine, version in versions.items() if engine not in OURS)
    lines = [
        f"{races[0]['processor']}; `bench/compare/compare.py FOLDER` with {', '.join(commands)}; {said}.",
        sets(races),
        f"Networks that a peer runs, of those in its formats, one thread: {left_out(races)}.",
        speed_ups(races),
        "By family, all sets of one thread:",
        families(races),
        f"Above {LIMIT}:",
        outliers(races, causes_of(folder)),
    ]
    return "\n\n".join(wrapped(line) for line in lines)


def wrapped(text, width=120):
    """Prose in lines of the document's width; tables stay."""
    if text.startswith("|"):
        return text
    lines = [""]
    for word in text.split(" "):
        if lines[-1] and len(lines[-1]) + 1 + len(word) > width:
            lines.append(word)
        else:
            lines[-1] += (" " if lines[-1] else "") + word
    return "\n".join(lines)


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("folder", type=pathlib.Path)
    ap.add_argument("--networks", action="store_true", help="print the figures of all networks")
    ap.add_argument("--write", type=pathlib.Path, metavar="DOCUMENT", help="replace the processor's part of a document")
    args = ap.parse_args()
    races = [json.loads(file.read_text()) for file in sorted(args.folder.glob("*.json"))]
    races.sort(key=lambda race: (race["threads"], race["set"]))
    if not races:
        ap.error(f"{args.folder} holds no .json file")
    if args.networks:
        print("\n\n".join(networks_of(race) for race in races))
    elif args.write:
        marks = f"<!-- race: {args.folder.name} -->", "<!-- end of race -->"
        text, count = re.subn(
            rf"({marks[0]}\n).*?(\n{marks[1]})",
            lambda m: f"{m[1]}\n{part(args.folder, races)}\n{m[2]}",
            args.write.read_text(),
            flags=re.S,
        )
        if count != 1:
            ap.error(f"{args.write} has no part {marks[0]}")
        args.write.write_text(text)
    else:
        print(part(args.folder, races))


if __name__ == "__main__":
    main()
