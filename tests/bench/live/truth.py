#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""truth.py trial|bench FOLDER TABLE: whether trials or runs of bench-drive on the live drive found
the saving that is known.  In FOLDER, of trials: on-SEED, off-SEED and late-SEED, runs of their own, and trial-SEED; of the
bench: long-SEED and run-N."""

import json
import statistics
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "drive"))
from report import saving  # noqa: E402


def by_number(folder, name):
    return sorted(folder.glob(f"{name}-*"), key=number)


def number(path):
    return int(path.name.split("-")[1])


def trials(folder):
    """What is known, by seed, and what each trial found."""
    def waf(which):
        for path in by_number(folder, which):
            values = json.loads((path / "result").read_text())
            if "error" in values:
                sys.exit(f"the run {path.name}: {values['error']}")
            yield values["waf"]

    known = [1 - on / off for on, off in zip(waf("on"), waf("off"), strict=True)]
    return known, {number(path): json.loads((path / "trial.json").read_text())["flash"] for path in by_number(folder, "trial")}


def remembers(folder):
    """Write amplification in each of the sizes of the drive that are written after discards
    were switched off, which is when it was written 20 times, as the mean of the runs late-SEED"""
    runs = []
    for path in by_number(folder, "late"):
        pages = int((path / "pages").read_text())
        series = [tuple(map(int, line.split())) for line in (path / "series").read_text().splitlines()]
        ends = [next((s for s in series if s[1] >= (20 + size) * pages), None) for size in range(1, 17)]
        runs.append([1 + (b[2] - a[2]) / (b[1] - a[1]) for a, b in zip(ends, ends[1:])])
    return [statistics.mean(of) for of in zip(*runs, strict=True)]


def bench(folder):
    def ratios(path):
        cells = [json.loads(p.read_text()) for p in (path / "drive/cells").glob("*.json")]
        waf = {(c["arm"], c["seed"]): c["waf"] for c in cells}
        return [waf["none+discard", seed] / waf["none", seed] for arm, seed in sorted(waf) if arm == "none"]

    known = [1 - ratio for path in by_number(folder, "long") for ratio in ratios(path)]
    return known, {number(path): saving(ratios(path)) for path in by_number(folder, "run")}


def percent(*shares):
    return ", ".join(f"{100 * share:.1f}" for share in shares)


def table(known, found):
    truth = statistics.mean(known)
    holds = {n: f["low"] <= truth <= f["high"] for n, f in found.items()}
    return [f"Known: discards save {percent(truth)} % ({percent(*known)} by seed).", "",
            "| | saved, % | 95 % interval | holds it |", "| --- | --- | --- | --- |",
            *(f"| {n} | {percent(f['saved'])} | {percent(f['low'])} to {percent(f['high'])} | {'yes' if holds[n] else 'no'} |"
              for n, f in found.items()),
            "", f"{sum(holds.values())} of {len(found)} intervals hold it; "
                f"{percent(statistics.mean(f['saved'] for f in found.values()))} % were found on average."]


def main():
    kind, folder = sys.argv[1], Path(sys.argv[2])
    lines = table(*{"trial": trials, "bench": bench}[kind](folder))
    if kind == "trial":
        lines += ["", "Write amplification since discards were switched off, from the second size of the drive on: "
                  + ", ".join(f"{waf:.2f}" for waf in remembers(folder)) + "."]
    Path(sys.argv[3]).write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
