#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""Plays the recordings of tests/bench/waf/settings on one drive, and says what each setting of
MongoDB costs and saves there: NAND writes against the first setting (MongoDB's own) without streams
and discards, files, the journal, checkpoints, and reads from a cold cache."""

import json
import statistics
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import waf

# Pages of the drive that its host sees: full with pages of 8 KiB and a long interval; and of one
# on which those of 4 KiB have room.
DRIVES = [41100, 57344]
POLICIES = ["none", "auto"]
STOCK = "32:16:snappy:60"
# The smallest discard that a drive takes, in KiB; the first is not named, and the only one of larger
# drives.
GRANULARITIES = [4, 16, 128]


def on_drive(dsmctl, recording, pages, kib, size):
    """None where the database has no room, which it may have been larger than at its end."""
    try:
        return recording.simulate(dsmctl, POLICIES, discard="both", size=4096 * pages, discard_granularity=kib << 10)
    except subprocess.CalledProcessError:
        if 1.3 * size < 4096 * pages:
            raise
        return None


def saved(dsmctl, recording):
    """What measures save of NAND writes on a full drive of the recording's own size."""
    full, at_80, spare = (recording.simulate(dsmctl, POLICIES, discard="both", **drive)
                          for drive in [{}, {"fill": 0.8}, {"op": 0.28}])
    less = {"discards": (full, "none+discard"), "discards_at_80": (at_80, "none+discard"),
            "streams": (full, "auto"), "spare": (spare, "none")}
    return {measure: 1 - run[policy]["waf"] / (full if measure == "spare" else run)["none"]["waf"]
            for measure, (run, policy) in less.items()}


def figures(dsmctl, recording):
    """Of one recording; flash in KiB for an operation, by the drive's pages where there is room, and by
    policy, with discards in pieces of 4 KiB, and of more."""
    wtload = json.loads(recording.path.with_suffix(".json").read_text())
    cold = recording.path.with_suffix(".cold.json")
    cold = json.loads(cold.read_text()) if cold.exists() else None
    run = recording.simulate(dsmctl, ["none"])[None]
    host = run["run_pages"] * 4 / wtload["ops"]
    flash = {}
    for pages in DRIVES:
        cells = {}
        for kib in GRANULARITIES[:None if pages == DRIVES[0] else 1]:
            played = on_drive(dsmctl, recording, pages, kib, wtload["db_allocated_bytes"])
            if played is None:
                break
            played.pop(None)
            for name, row in played.items():
                if kib == GRANULARITIES[0]:
                    cells[name] = row["waf"] and row["waf"] * host
                elif row["discard"]:
                    cells[f"{name} {kib}K"] = row["waf"] and row["waf"] * host
        if cells:
            flash[str(pages)] = cells
    return {
        "files_mib": wtload["db_allocated_bytes"] / 2**20, "used_pages": run["drive_pages"],
        "host_kib": host, "flash_kib": flash,
        "journal_mib": run["shares"]["journal"] * run["run_pages"] / 256 / wtload["checkpoints"],
        "longest_checkpoint_s": wtload["longest_checkpoint_seconds"],
        "checkpoint_s": wtload["checkpoint_seconds"] / wtload["checkpoints"],
        "interval_s": wtload["run_seconds"] / wtload["checkpoints"],
        "longest_behind_s": wtload["longest_behind_seconds"],
        "cold_read_kib": cold and cold["read_kib"] / cold["reads"], "scan_mib": cold and cold["scan_kib"] / 1024,
        "listed_share": run["listed_share"], "saved": saved(dsmctl, recording),
    }


def merged(values):
    """Mean and half the range of figures of the same kind."""
    if isinstance(values[0], dict):
        return {key: merged([v[key] for v in values]) for key in values[0] if all(key in v for v in values)}
    if any(v is None for v in values):
        return None
    return [round(statistics.mean(values), 4), round(waf.half_range(values), 4)]


def against(stock, run):
    """NAND writes against the stock setting's on the same drive."""
    found = {}
    for pages, cells in run["flash_kib"].items():
        base = stock["flash_kib"].get(pages, {}).get("none")
        if base:
            found[pages] = {name: value and value / base for name, value in cells.items()}
    return found


def show(found):
    for name, settings in found.items():
        for setting, of in settings.items():
            cells = "; ".join(f"{pages} pages: " + " ".join(f"{key} {value[0]:.3f} ±{value[1]:.3f}" if value else f"{key} -" for key, value in arms.items())
                              for pages, arms in of["against_stock"].items())
            print(f"{name} {setting} ({of['seeds']}): files {of['files_mib'][0]:.0f} MiB, host {of['host_kib'][0]:.1f} KiB/op, "
                  f"journal {of['journal_mib'][0]:.1f} MiB, checkpoint {of['longest_checkpoint_s'][0]:.2f} s; {cells}")


def main():
    dsmctl, out = sys.argv[1], Path(sys.argv[2])
    recordings = waf.read_recordings(out / "recordings-settings")
    with ThreadPoolExecutor() as pool:
        played = {w: list(pool.map(lambda r: (r.seed, figures(dsmctl, r)), seeds)) for w, seeds in recordings.items()}
    found = {}
    for workload, runs in played.items():
        name, _, setting = workload.partition(":")
        stock = dict(played.get(f"{name}:{STOCK}", []))
        if not all(seed in stock for seed, _ in runs):
            print(f"{workload}: not recorded with {STOCK}", file=sys.stderr)
            continue
        for seed, run in runs:
            run["against_stock"] = against(stock[seed], run)
        found.setdefault(name, {})[setting] = {"seeds": len(runs)} | merged([run for _, run in runs])
    (out / "settings.json").write_text(json.dumps({"settings": found}, indent=1))
    show(found)


if __name__ == "__main__":
    main()
