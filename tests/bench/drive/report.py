#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""usage: report.py OUT: what bench-drive has measured, as OUT/drive.json, a table, and a picture.

What an arm saves is the mean over the seeds of the logarithm of its write amplification against
none's of the same seed, with Student's t interval of 95 %: dsmctl trial's own."""

import json
import statistics
import subprocess
import sys
from pathlib import Path

SAVING = Path(__file__).resolve().parents[3] / "build/userspace/release/saving"


def saving(ratios):
    """One alone has no interval."""
    found = subprocess.run([SAVING, *map(str, ratios)], check=True, stdout=subprocess.PIPE)
    return json.loads(found.stdout) or {"saved": 1 - ratios[0], "low": None, "high": None, "pairs": 1}


def main():
    out = Path(sys.argv[1])
    cells = [json.loads(path.read_text()) for path in sorted((out / "cells").glob("*.json"))]
    none = {(c["workload"], c["seed"]): c["waf"] for c in cells if c["arm"] == "none"}
    by_arm = {}
    for cell in cells:
        by_arm.setdefault((cell["workload"], cell["arm"]), []).append(cell)
    rows = []
    for (workload, arm), mine in sorted(by_arm.items(), key=lambda item: (item[0][0], item[0][1] != "none", item[0][1])):
        ratios = [c["waf"] / none[workload, c["seed"]] for c in mine if (workload, c["seed"]) in none]
        rows.append({"workload": workload, "arm": arm, "waf": statistics.mean(c["waf"] for c in mine), "waf_of_seeds": [c["waf"] for c in mine]}
                    | ({"saving": saving(ratios)} if arm != "none" and ratios else {}))
    found = {"machine": json.loads((out / "machine.json").read_text()), "source": cells[0]["to"]["source"], "rows": rows}
    (out / "drive.json").write_text(json.dumps(found, indent=1) + "\n")

    lines = ["| workload | arm | WAF | saved, % | 95 % interval |", "| --- | --- | --- | --- | --- |"]
    for row in rows:
        s = row.get("saving")
        interval = f"{100 * s['low']:.1f} to {100 * s['high']:.1f}" if s and s["low"] is not None else "-"
        lines.append(f"| {row['workload']} | {row['arm']} | {row['waf']:.3f} | {100 * s['saved']:.1f} | {interval} |" if s else
                     f"| {row['workload']} | {row['arm']} | {row['waf']:.3f} | | |")
    (out / "drive.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))
    draw(out, rows)


def draw(out, rows):
    import matplotlib
    matplotlib.use("Agg")
    from matplotlib import pyplot

    workloads = list(dict.fromkeys(row["workload"] for row in rows))
    figure, axes = pyplot.subplots(1, len(workloads), figsize=(5 * len(workloads), 4), squeeze=False, layout="constrained")
    for axis, workload in zip(axes[0], workloads):
        mine = [row for row in rows if row["workload"] == workload]
        spread = [[row["waf"] - min(row["waf_of_seeds"]) for row in mine], [max(row["waf_of_seeds"]) - row["waf"] for row in mine]]
        axis.bar([row["arm"] for row in mine], [row["waf"] for row in mine], yerr=spread, color="#2a7f62", capsize=4)
        axis.set_title(workload)
        axis.set_ylabel("write amplification")
        axis.tick_params(axis="x", rotation=20)
    figure.savefig(out / "drive.png", dpi=120)


if __name__ == "__main__":
    main()
