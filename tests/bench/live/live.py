#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""What a run on the live drive came to: "reduce FOLDER" of one, and "table FILE OUT" of
all cells, a line "NAME RESULT" each."""

import argparse
import json
import statistics
import struct
import sys
from pathlib import Path

# Nothing is counted before the host has written the drive so many times.
DRIVE_WRITES = 4
# Less is not a measurement.
LEAST_OPS = 2000
LEAST_WRITES = 0.75
VALUES = ["ops_per_second", "p50_us", "p95_us", "p99_us", "p999_us", "waf", "media_bytes_per_op", "stall_us_per_op",
          "busy"]


def read_latencies(path):
    data = path.read_bytes()
    return list(struct.iter_unpack("<QQ", data[:len(data) // 16 * 16]))


def read_counts(path):
    return {name: int(value) for name, value in (line.split() for line in path.read_text().splitlines())}


def percentile(ordered, share):
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)]


def waf_between(first, last):
    host, copied = last[1] - first[1], last[2] - first[2]
    return (host + copied) / host if host else 1.0


def reduce(folder):
    """Counts from when the drive was written DRIVE_WRITES times to the last operation."""
    pages = int((folder / "pages").read_text())
    ops = read_latencies(folder / "latencies")
    start, end = min(o[0] for o in ops), max(o[0] + o[1] for o in ops)
    series = [tuple(map(int, line.split())) for line in (folder / "series").read_text().splitlines()]
    series = [s for s in series if s[0] >= start and s[1] >= DRIVE_WRITES * pages and s[0] <= end]
    if len(series) < 3:
        return {"error": "the drive was not written often enough before the run ended"}
    first, last = series[0], series[-1]
    middle = min(series, key=lambda s: abs(s[1] - (first[1] + last[1]) / 2))
    seconds = (end - first[0]) / 1e9
    counted = sorted(ns for begin, ns in ops if begin >= first[0])
    ended = sum(1 for begin, ns in ops if begin + ns > first[0])
    writes = (last[1] - first[1]) / pages
    if len(counted) < LEAST_OPS or writes < LEAST_WRITES:
        return {"error": f"only {len(counted)} operations and {writes:.2f} drive writes were left to be counted"}
    waf = waf_between(first, last)
    counts = read_counts(folder / "counts")
    busy = sum(v for k, v in counts.items() if k.startswith("busy_"))
    return {
        "ops_per_second": ended / seconds,
        "p50_us": percentile(counted, 0.5) / 1e3, "p95_us": percentile(counted, 0.95) / 1e3,
        "p99_us": percentile(counted, 0.99) / 1e3, "p999_us": percentile(counted, 0.999) / 1e3,
        "waf": waf, "media_bytes_per_op": waf * (last[1] - first[1]) * 4096 / len(counted),
        "stall_us_per_op": (last[3] - first[3]) / 1e3 / len(counted),
        "busy": busy / (series[-1][0] * int((folder / "dies").read_text())),
        "ops": len(counted), "seconds": seconds, "drive_writes": writes,
        "waf_halves": [waf_between(first, middle), waf_between(middle, last)],
    }


def key(name):
    workload, policy, cache, op, clients, think, seed = name.split("/")
    policy, _, discard = policy.partition("+")
    return {"workload": workload, "policy": policy, "discard": bool(discard), "cache": cache, "op": int(op) / 1000,
            "clients": int(clients), "think_us": int(think), "seed": int(seed)}


def without_seed(row):
    return tuple(row[k] for k in ["workload", "policy", "discard", "cache", "op", "clients", "think_us"])


def read_rows(path):
    rows, failed = [], []
    for line in path.read_text().splitlines():
        name, result = line.split()
        values = json.loads(Path(result).read_text())
        if "error" in values:
            failed.append((name, values["error"]))
        else:
            rows.append(key(name) | values)
    return rows, failed


def cells_of(rows):
    """The rows of all seeds, by all else."""
    cells = {}
    for row in rows:
        cells.setdefault(without_seed(row), []).append(row)
    return cells


def median_and_range(values):
    return statistics.median(values), min(values), max(values)


def show(rows):
    cells = cells_of(rows)
    kinds = dict.fromkeys((c[0], *c[3:]) for c in cells)
    for kind in kinds:
        print(f"\n{kind[0]}, {kind[1]}, over-provisioning {kind[2]}, {kind[3]} clients, think time {kind[4]} us: median (least - most)")
        print(f"{'policy':22}{'seeds':>6}" + "".join(f"{v:>28}" for v in VALUES))
        for cell, seeds in cells.items():
            if (cell[0], *cell[3:]) != kind:
                continue
            texts = []
            for value in VALUES:
                m, low, high = median_and_range([s[value] for s in seeds])
                texts.append(f"{m:10.4g} ({low:.4g} - {high:.4g})")
            print(f"{cell[1] + '+discard' * cell[2]:22}{len(seeds):>6}" + "".join(f"{t:>28}" for t in texts))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("command", choices=["reduce", "table"])
    parser.add_argument("path", type=Path)
    parser.add_argument("out", type=Path, nargs="?")
    args = parser.parse_args()
    if args.command == "reduce":
        print(json.dumps(reduce(args.path)))
        return
    rows, failed = read_rows(args.path)
    (args.out / "live.json").write_text(json.dumps(rows, indent=1) + "\n")
    show(rows)
    for name, error in failed:
        print(f"{name}: not counted: {error}")
    import live_pictures
    live_pictures.draw(args.out, rows)
    sys.exit(not rows)


if __name__ == "__main__":
    main()
