#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""trial.py FOLDER TABLE: whether trials on the live drive found the saving that is known. FOLDER has
on-SEED and off-SEED, runs of their own, and trial-SEED."""

import json
import statistics
import sys
from pathlib import Path

folder, table = map(Path, sys.argv[1:])


def waf(which):
    found = {p.name.split("-")[1]: json.loads((p / "result").read_text()) for p in folder.glob(f"{which}-*")}
    for seed, values in found.items():
        if "error" in values:
            sys.exit(f"the run {which}-{seed}: {values['error']}")
    return {seed: values["waf"] for seed, values in found.items()}


on, off = waf("on"), waf("off")
each = [1 - on[seed] / off[seed] for seed in off]
truth = 1 - statistics.mean(on.values()) / statistics.mean(off.values())
lines = [f"Known: discards save {100 * truth:.1f} % ({', '.join(f'{100 * s:.1f}' for s in each)} by seed).", "",
         "| seed | saved, % | 95 % interval | holds it |", "| --- | --- | --- | --- |"]
held, found = 0, []
trials = sorted(folder.glob("trial-*"), key=lambda p: int(p.name.split("-")[1]))
for path in trials:
    flash = json.loads((path / "trial.json").read_text())["flash"]
    holds = flash["low"] <= truth <= flash["high"]
    held += holds
    found.append(flash["saved"])
    lines.append(f"| {path.name.split('-')[1]} | {100 * flash['saved']:.1f} | {100 * flash['low']:.1f} to {100 * flash['high']:.1f} "
                 f"| {'yes' if holds else 'no'} |")
lines += ["", f"{held} of {len(trials)} intervals hold it; {100 * statistics.mean(found):.1f} % were found on average."]
table.write_text("\n".join(lines) + "\n")
print("\n".join(lines))
