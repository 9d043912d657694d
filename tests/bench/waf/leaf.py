#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""Plays the recordings with leaf pages of several sizes on one drive, and says what each size
costs: of files, of what the host writes, and of reads from a cold cache."""

import json
import statistics
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import waf

# In MiB: full with the larger databases, and less so
DRIVES = [168, 192, 256]
POLICIES = ["none", "auto"]


def on_drive(dsmctl, recording, mib, size):
    """None where the database has no room, which it may have been larger than at its end."""
    try:
        return recording.simulate(dsmctl, POLICIES, discard="both", size=mib << 20)
    except subprocess.CalledProcessError:
        if 1.25 * size < mib << 20:
            raise
        return None


def figures(dsmctl, recording):
    """Of one recording; flash in KiB for an operation, by the drive's MiB where there is room."""
    wtload = json.loads(recording.path.with_suffix(".json").read_text())
    cold = json.loads(recording.path.with_suffix(".cold.json").read_text())
    played = {mib: rows for mib in DRIVES if (rows := on_drive(dsmctl, recording, mib, wtload["db_allocated_bytes"]))}
    details = [rows.pop(None) for rows in played.values()][-1]
    host = details["run_pages"] * 4 / wtload["ops"]
    flash = {str(mib): {name: row["waf"] and row["waf"] * host for name, row in rows.items()} for mib, rows in played.items()}
    return {
        "files_mib": wtload["db_allocated_bytes"] / 2**20, "host_kib": host,
        "flash_kib": flash,
        "cold_read_kib": cold["read_kib"] / cold["reads"], "scan_mib": cold["scan_kib"] / 1024,
        "longest_checkpoint_s": wtload["longest_checkpoint_seconds"], "listed_share": details["listed_share"],
    }


def merged(values):
    """Mean and half the range of figures of the same kind."""
    if isinstance(values[0], dict):
        return {key: merged([v[key] for v in values]) for key in values[0] if all(key in v for v in values)}
    if any(v is None for v in values):
        return None
    return [round(statistics.mean(values), 4), round(waf.half_range(values), 4)]


def main():
    dsmctl, out = sys.argv[1], Path(sys.argv[2])
    recordings = waf.read_recordings(out / "recordings-leaf")
    with ThreadPoolExecutor() as pool:
        played = {w: list(pool.map(lambda r: figures(dsmctl, r), seeds)) for w, seeds in recordings.items()}
    found = {}
    for workload, runs in played.items():
        name, _, kib = workload.partition(":")
        found.setdefault(name, {})[kib] = {"seeds": len(runs)} | merged(runs)
    (out / "leaf_page.json").write_text(json.dumps({"leaf_page": found}, indent=1))
    for name, sizes in found.items():
        for kib, of in sizes.items():
            flash = "; ".join(f"{mib} MiB " + " ".join(f"{key} {value[0]:.1f}" if value else f"{key} -" for key, value in arms.items())
                              for mib, arms in of["flash_kib"].items())
            print(f"{name} {kib} KiB: files {of['files_mib'][0]:.0f} MiB, host {of['host_kib'][0]:.1f} KiB/op, flash {flash}; "
                  f"cold read {of['cold_read_kib'][0]:.1f} KiB, scan {of['scan_mib'][0]:.0f} MiB")


if __name__ == "__main__":
    main()
