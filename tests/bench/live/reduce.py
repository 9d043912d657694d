#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""reduce.py FOLDER [DRIVE-WRITES]: what a run on the live drive in FOLDER came to, as JSON.
Nothing is counted before the host has written the drive so many times, 10 if not said.
Results are cached by what this file says, too."""

import json
import struct
import sys
from pathlib import Path

# Nothing is counted before the host has written the drive so many times.
DRIVE_WRITES = 10
# Less is not a measurement.
LEAST_OPS = 2000
LEAST_WRITES = 0.75


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


def reduce(folder, drive_writes):
    """Counts from when the drive was written so many times to the last operation."""
    pages = int((folder / "pages").read_text())
    ops = read_latencies(folder / "latencies")
    start, end = min(o[0] for o in ops), max(o[0] + o[1] for o in ops)
    series = [tuple(map(int, line.split())) for line in (folder / "series").read_text().splitlines()]
    series = [s for s in series if s[0] >= start and s[1] >= drive_writes * pages and s[0] <= end]
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
    discard = json.loads((folder / "status.json").read_text())["devices"][0]["kernel"]["status"]["discard"]
    busy = sum(v for k, v in counts.items() if k.startswith("busy_"))
    return {
        "ops_per_second": ended / seconds,
        "p50_us": percentile(counted, 0.5) / 1e3, "p95_us": percentile(counted, 0.95) / 1e3,
        "p99_us": percentile(counted, 0.99) / 1e3, "p999_us": percentile(counted, 0.999) / 1e3,
        "waf": waf, "media_bytes_per_op": waf * (last[1] - first[1]) * 4096 / len(counted),
        "stall_us_per_op": (last[3] - first[3]) / 1e3 / len(counted),
        "busy": busy / (series[-1][0] * int((folder / "dies").read_text())),
        "discards_per_1000_ops": 1000 * discard["discarded"] / len(ops),
        "discard_kib": discard["discarded_sectors"] / 2 / discard["discarded"] if discard["discarded"] else 0,
        "ops": len(counted), "seconds": seconds, "drive_writes": writes,
        "waf_halves": [waf_between(first, middle), waf_between(middle, last)],
    }


if __name__ == "__main__":
    print(json.dumps(reduce(Path(sys.argv[1]), float(sys.argv[2]) if len(sys.argv) > 2 else DRIVE_WRITES)))
