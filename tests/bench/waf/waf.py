#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""Plays the recordings that tests/bench/waf/run lists under all policies."""

import argparse
import json
import statistics
import subprocess
import sys
from itertools import product
from pathlib import Path

PLAIN = ["none", "file", "boundary", "dsm", "per-file", "f2fs", "autostream-sfr",
         "autostream-mq", "filestream", "per-object", "oracle"]
VARIANTS = ["dsm:prediction=off", "dsm:prediction=computed", "dsm:range=region",
            "dsm:primary_filter=off", "dsm:groups=2", "dsm:alpha=6"]
# Less leaves a drive of this size too few spare units for 8 streams.
OPS = [0.15, 0.28]
GCS = ["greedy", "cost-benefit"]
UNIT = "256K"
# What the drive writes before it has no free units is not counted.
WARMUP = 0.3
STREAMS = 8
# What dsm with discards may write at most, as a share of what none writes without, at
# an over-provisioning of 0.15 and with greedy collection.
GOALS = {"LB-Update-Only": 0.66, "LB-Update-Only-cached": 0.78, "LB-Mixed": 0.66,
         "LB-Mixed-cached": 0.80, "Y-Update-Only": 0.84, "Y-Update-Only-cached": 0.86}


def key(policy, discard):
    return policy + "+discard" * discard


class Recording:
    def __init__(self, line):
        self.workload, self.seed, path = line.split()
        self.path = Path(path)
        self.primary = []
        for ident in json.loads(self.path.with_suffix(".idents").read_text()):
            if ident.get("index") == "_id_":
                self.primary += ["--primary", f"*{ident['ident']}.wt"]

    def simulate(self, dsmctl, out, policies, **options):
        """The rows of dsmctl with their details, by policy, or with discards by policy and
        "+discard"; the details of the run as None."""
        options = {"op": 0.15, "gc": "greedy", "unit": UNIT, "warmup": WARMUP,
                   "streams": STREAMS, "discard": "off"} | options
        details = out / "details.json"
        command = [dsmctl, "simulate", str(self.path), "-o", "json", "--details", str(details)]
        for name, value in options.items():
            command += ["--" + name.replace("_", "-"), str(value)]
        for policy in policies:
            command += ["--policy", policy]
        done = subprocess.run(command + self.primary, check=True, stdout=subprocess.PIPE)
        more = json.loads(details.read_text())
        rows = zip(json.loads(done.stdout), more.pop("policies"))
        return {key(row["policy"], row["discard"]): row | detail for row, detail in rows} | {None: more}


def read_recordings(out):
    by_workload = {}
    for line in (out / "recordings").read_text().splitlines():
        recording = Recording(line)
        by_workload.setdefault(recording.workload, []).append(recording)
    return by_workload


def half_range(values):
    return (max(values) - min(values)) / 2


def relative(name, values):
    """Against the same seed without streams and discards."""
    return {name: statistics.mean(values), name + "_spread": half_range(values)}


def table(dsmctl, out, recordings):
    """The rows of waf.json: mean and half the range over the seeds."""
    rows = []
    for workload, seeds in recordings.items():
        for op in OPS:
            for gc in GCS:
                runs = [r.simulate(dsmctl, out, PLAIN + VARIANTS, op=op, gc=gc, discard="both")
                        for r in seeds]
                for policy, discard in product(PLAIN + VARIANTS, [False, True]):
                    cells = [(run[key(policy, discard)], run["none"]) for run in runs]
                    wafs = [mine["waf"] for mine, _ in cells]
                    rows.append({
                        "workload": workload, "policy": policy, "discard": discard,
                        "streams_used": max(mine["streams_used"] for mine, _ in cells),
                        "op": op, "unit": UNIT, "gc": gc,
                        "waf": statistics.mean(wafs), "spread": half_range(wafs),
                        "seeds": len(seeds),
                    } | relative("gain", [1 - mine["waf"] / none["waf"] for mine, none in cells]))
    return rows


def show_shares(dsmctl, out, recordings):
    """The counterpart of the papers' Table 1."""
    print("shares of what is written after the load, %")
    for workload, seeds in recordings.items():
        run = seeds[0].simulate(dsmctl, out, ["none"])[None]
        shares = " ".join(f"{name} {100 * share:.1f}" for name, share in run["shares"].items() if share)
        print(f"{workload:20} {run['load_pages'] // 256:6} MiB loaded, {run['run_pages'] // 256:6} MiB written: {shares}")


def show(rows):
    workloads = list(dict.fromkeys(row["workload"] for row in rows))
    for op in OPS:
        for gc in GCS:
            print(f"\nWAF, over-provisioning {op}, {gc} collection, units of {UNIT}, {STREAMS} streams")
            print(f"{'policy':34}" + "".join(f"{w:>20}" for w in workloads))
            for policy, discard in product(PLAIN + VARIANTS, [False, True]):
                cells = [row for row in rows if (row["op"], row["gc"], row["policy"], row["discard"])
                         == (op, gc, policy, discard)]
                print(f"{key(policy, discard):34}" + "".join(f"{c['waf']:12.3f} ±{c['spread']:5.3f} " for c in cells))


def verdict(good, what):
    print(f"{'' if good else 'not '}ok - bench-waf: {what}")
    return good


def by_drive(rows, workload):
    return {(row["op"], row["gc"], key(row["policy"], row["discard"])): row["waf"]
            for row in rows if row["workload"] == workload}


def check(rows):
    """What must hold whatever the workload; prints a test's line for each."""
    good = True
    for workload in dict.fromkeys(row["workload"] for row in rows):
        mine = [row for row in rows if row["workload"] == workload]
        cells = by_drive(rows, workload)
        good &= verdict(all(row["waf"] >= 1 for row in mine), f"{workload}: WAF is at least 1")
        good &= verdict(all(row["streams_used"] <= STREAMS for row in mine),
                        f"{workload}: no policy uses more than {STREAMS} streams")
        good &= verdict(all(cells[op, gc, key("oracle", d)] <= cells[op, gc, key(p, d)]
                            for op in OPS for gc in GCS for p in PLAIN for d in [False, True]),
                        f"{workload}: nothing is better than the oracle")
        good &= verdict(all(cells[0.15, gc, p] >= cells[0.28, gc, p] - 0.01
                            for gc in GCS for p in ["none", "dsm", "none+discard", "dsm+discard"]),
                        f"{workload}: more over-provisioning amplifies less")
        good &= verdict(all(cells[op, gc, key(p, True)] < cells[op, gc, p]
                            for op in OPS for gc in GCS for p in ["none", "file", "dsm"]),
                        f"{workload}: discards save something under every policy")
    return good


def check_goals(rows):
    good = True
    for workload, most in GOALS.items():
        cells = by_drive(rows, workload)
        if cells:
            share = cells[0.15, "greedy", "dsm+discard"] / cells[0.15, "greedy", "none"]
            good &= verdict(share <= most, f"{workload}: dsm with discards writes {share:.3f} of what none "
                                           f"writes without, and {most} is allowed")
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dsmctl")
    parser.add_argument("out", type=Path)
    parser.add_argument("--small", action="store_true", help="checks in place of pictures")
    args = parser.parse_args()
    recordings = read_recordings(args.out)
    rows = table(args.dsmctl, args.out, recordings)
    (args.out / "waf.json").write_text(json.dumps(rows, indent=1) + "\n")
    show_shares(args.dsmctl, args.out, recordings)
    show(rows)
    if args.small:
        sys.exit(not check(rows))
    good = check_goals(rows)
    import pictures
    pictures.draw(args.dsmctl, args.out, recordings, rows)
    sys.exit(not good)


if __name__ == "__main__":
    main()
