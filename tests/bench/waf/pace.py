#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""One line, recorded at a stated pace and as fast as the machine can, on a machine of two speeds: what
streams and discards save in each recording, beside three seeds of that line at its pace."""

import json
import statistics
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import waf

POLICIES = ["none", "auto"]


def figures(dsmctl, recording):
    """Of one recording, on a drive that it fills."""
    wtload = json.loads(recording.path.with_suffix(".json").read_text())
    rows = recording.simulate(dsmctl, POLICIES, discard="both")
    details = rows.pop(None)
    none = rows["none"]["waf"]
    return {"ops_per_second": wtload["ops_per_second"], "run_seconds": wtload["run_seconds"],
            "journal_mib": details["shares"]["journal"] * details["run_pages"] / 256,
            "run_mib": details["run_pages"] / 256, "waf": none,
            "saved": {name: 100 * (1 - row["waf"] / none) for name, row in rows.items() if name != "none"}}


def merged(values):
    """Mean and half the range"""
    if isinstance(values[0], dict):
        return {key: merged([v[key] for v in values]) for key in values[0]}
    return [round(statistics.mean(values), 4), round(waf.half_range(values), 4)]


def main():
    dsmctl, out = sys.argv[1], Path(sys.argv[2])
    recordings = waf.read_recordings(out / "recordings-pace")
    with ThreadPoolExecutor() as pool:
        found = {w: {"seeds": len(rs)} | merged(list(pool.map(lambda r: figures(dsmctl, r), rs))) for w, rs in recordings.items()}
    text = json.dumps({"pace": found}, indent=1)
    (out / "pace.json").write_text(text + "\n")
    print(text)


if __name__ == "__main__":
    main()
