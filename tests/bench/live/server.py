#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""server.py FOLDER OUT: what the runs of tests/bench/live/server in FOLDER came to: median, least
and most over the seeds, and NAND writes for each operation in relation to those of MongoDB's own
settings with the same I/O and seed."""

import json
import statistics
import sys
from pathlib import Path

from reduce import read_latencies

VALUES = {"ops_per_second": 1, "p50_us": 0, "p95_us": 0, "p99_us": 0, "p999_us": 0, "waf": 2, "nand": 3, "host": 3,
          "nand_kib_per_op": 2, "checkpoint_seconds": 2, "journal_mib": 2, "recovery_seconds": 2}


def recovery_seconds(folder):
    """From the start of the program to its first operation"""
    return read_latencies(folder / "first")[0][0] / 1e9 - float((folder / "recovery").read_text())


def read(folder):
    values = json.loads((folder / "result").read_text())
    if "error" in values:
        sys.exit(f"the run {folder.name}: {values['error']}")
    kib = values["media_bytes_per_op"] / 1024
    return values | {
        "nand_kib_per_op": kib, "host_kib_per_op": kib / values["waf"],
        "checkpoint_seconds": json.loads((folder / "wtload.json").read_text())["longest_checkpoint_seconds"],
        "journal_mib": int((folder / "journal").read_text().split()[0]) / 1024,
        "recovery_seconds": recovery_seconds(folder),
    }


def rounded(values, digits):
    return [round(v, digits) if digits else round(v) for v in (statistics.median(values), min(values), max(values))]


def main():
    runs = {tuple(folder.name.split(":")): read(folder) for folder in Path(sys.argv[1]).glob("*:*")}
    cells = {}
    for (*kind, seed), values in sorted(runs.items()):
        base = runs.get((*kind[:2], "60", "3000", "none", seed))
        if base:
            values |= {what: values[f"{what}_kib_per_op"] / base[f"{what}_kib_per_op"] for what in ["nand", "host"]}
        cells.setdefault(":".join(kind), []).append(values)
    found = {kind: {"seeds": len(seeds)} | {name: rounded([s[name] for s in seeds], digits) for name, digits in VALUES.items()
                                            if all(name in s for s in seeds)} for kind, seeds in cells.items()}
    Path(sys.argv[2]).write_text("{\n" + ",\n".join(f" {json.dumps(k)}: {json.dumps(v)}" for k, v in found.items()) + "\n}\n")
    for kind, values in found.items():
        print(f"{kind:28}" + "".join(f" {name} {of[0]}" for name, of in values.items() if name != "seeds"))


if __name__ == "__main__":
    main()
