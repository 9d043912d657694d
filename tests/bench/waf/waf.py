#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""Plays the recordings that tests/bench/waf/run lists under all policies."""

import argparse
import concurrent.futures
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, fields
from itertools import product
from pathlib import Path

# What auto chooses from.
LADDER = ["file:streams=2", "life:groups=2", "life"]
MAIN = ["none", "file", "boundary", "dsm", *LADDER, "per-object", "auto", "oracle"]
PLAIN = ["none", "file", "boundary", "dsm", "per-file", "f2fs", "autostream-sfr",
         "autostream-mq", "filestream", "per-object", *LADDER, "auto", "oracle"]
VARIANTS = ["dsm:prediction=off", "dsm:prediction=computed", "dsm:range=region",
            "dsm:primary_filter=off", "dsm:groups=2", "dsm:alpha=6", "dsm:when=begin", "life:when=begin"]
UNIT = 256 << 10
# NAND writes before it has no free units is not counted.
WARMUP = 0.3
STREAMS = 8
# What dsm with discards may write at most, as a share of what none writes without, at
# an over-provisioning of 0.15 and with greedy garbage collection.
GOALS = {"LB-Update-Only": 0.66, "LB-Update-Only-cached": 0.78, "LB-Mixed": 0.66,
         "LB-Mixed-cached": 0.80, "Y-Update-Only": 0.84, "Y-Update-Only-cached": 0.86}
# auto may cost that much more than none where a drive has fewer units than these.
FEW, AUTO_COSTS = 500, 1.01
# What discards in pieces of 128 KiB save at least under LB-Update-Only-cached.
LARGE = 0.09


@dataclass(frozen=True)
class Drive:
    """copies: whether garbage collection keeps pages in their stream, or is mixed ("shared");
    granularity: what the length of discards is a multiple of; alignment: and their start."""
    op: float = 0.15
    gc: str = "greedy"
    unit: int = UNIT
    fill: float = 1.0
    copies: str = "stream"
    granularity: int | None = None
    alignment: int | None = None

    def options(self):
        found = {"op": self.op, "gc": self.gc, "unit": self.unit, "fill": self.fill, "gc_destination": self.copies,
                 "discard_granularity": self.granularity or 4096}
        return found if self.alignment is None else found | {"discard_alignment": self.alignment}

    def name(self):
        """Of Documentation/figures, as "15 greedy 256K", with "80", "mixed" or "in 128K" behind it, and
        "at 4K" behind that."""
        unit = f"{self.unit >> 10}K" if self.unit < 1 << 20 else f"{self.unit >> 20}M"
        fill = [] if self.fill == 1 else [f"{100 * self.fill:.0f}"]
        mixed = ["mixed"] if self.copies == "shared" else []
        grain = [] if self.granularity is None else [f"in {self.granularity >> 10}K"]
        at = [] if self.alignment is None else [f"at {self.alignment >> 10}K"]
        return " ".join([f"{100 * self.op:.0f}", self.gc, unit] + fill + mixed + grain + at)

    def __str__(self):
        fill = "" if self.fill == 1 else f", {100 * self.fill:.0f} % full"
        mixed = ", copies mixed" if self.copies == "shared" else ""
        grain = "" if self.granularity is None else f", discards in {self.granularity >> 10} KiB"
        at = "" if self.alignment is None else f" from any {self.alignment >> 10} KiB on"
        return (f"over-provisioning {100 * self.op:.0f} %, {self.gc}, units of {self.unit >> 10} KiB"
                f"{fill}{mixed}{grain}{at}")


def drives(size):
    """Drives, and what is played on each; the first is the one that most is said of.
    size: of the databases, in bytes, which says what units there are enough of."""
    unit = max(UNIT, 1 << (size // 4096 - 1).bit_length())
    found = {Drive(unit=unit): PLAIN + VARIANTS}
    found |= {Drive(op, gc, unit): PLAIN for op, gc in
              [(0.07, "greedy"), (0.28, "greedy"), (0.15, "cost-benefit"), (0.28, "cost-benefit")]}
    found |= {Drive(unit=unit, fill=0.8): MAIN, Drive(unit=unit, copies="shared"): MAIN}
    larger = [4] if size <= 1 << 28 else [4, 16]
    found |= {Drive(op, unit=unit * n): MAIN for n, op in product(larger, [0.15, 0.28])}
    # 4 KiB once more: these may be played of other recordings than the rest.
    found |= {Drive(unit=unit, granularity=n << 10): ["none", "dsm"] for n in [4, 16, 32, 64, 128]}
    found |= {Drive(unit=unit, granularity=n << 10, alignment=4096): ["none"] for n in [32, 64, 128]}
    return found


def small_drives():
    return {Drive(op, gc): PLAIN + VARIANTS for op, gc in product([0.15, 0.28], ["greedy", "cost-benefit"])}


def key(policy, discard):
    return policy + "+discard" * discard


def events(dsmctl, path):
    """Those of a recording: microseconds, kind, and what program trace of userspace prints of it"""
    command = [Path(dsmctl).with_name("trace"), "events", str(path)]
    for line in subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines():
        us, kind, *rest = line.split(",")
        yield int(us), kind, rest


class Recording:
    def __init__(self, line):
        self.workload, self.seed, self.program, path = line.split()
        self.path = Path(path)
        self.primary = []
        for ident in json.loads(self.path.with_suffix(".idents").read_text()):
            if ident.get("index") == "_id_":
                self.primary += ["--primary", f"*{ident['ident']}.wt"]

    @property
    def engine(self):
        return {"wtload": "11.3.1", "wtload-3.2.1": "3.2.1"}[self.program]

    def simulate(self, dsmctl, policies, **options):
        """The rows of dsmctl with their details, by policy, or with discards by policy and
        "+discard"; the details of the run as None."""
        options = {"op": 0.15, "gc": "greedy", "unit": UNIT, "warmup": WARMUP,
                   "streams": STREAMS, "discard": "off", "deleted_files": "discarded"} | options
        with tempfile.NamedTemporaryFile() as details:
            command = [dsmctl, "simulate", str(self.path), "-o", "json", "--details", details.name]
            for name, value in options.items():
                command += ["--" + name.replace("_", "-"), str(value)]
            for policy in policies:
                command += ["--policy", policy]
            done = subprocess.run(command + self.primary, check=True, stdout=subprocess.PIPE)
            more = json.loads(Path(details.name).read_text())
        rows = zip(json.loads(done.stdout), more.pop("policies"))
        return {key(row["policy"], row["discard"]): row | detail for row, detail in rows} | {None: more}

    def figures(self, dsmctl, by_drive):
        """The figures on each drive, without the long ones."""
        found = {}
        for drive, policies in by_drive.items():
            run = self.simulate(dsmctl, policies, discard="both", **drive.options())
            for name, row in run.items():
                for long in ["series", "regions", "policies"]:
                    row.pop(long, None)
            found[drive] = run
        return found


def read_recordings(path):
    by_workload = {}
    for line in path.read_text().splitlines():
        recording = Recording(line)
        by_workload.setdefault(recording.workload, []).append(recording)
    return by_workload


def half_range(values):
    return (max(values) - min(values)) / 2


def play(dsmctl, recordings, by_drive):
    """The figures of each recording, by workload; as many at a time as there are processors."""
    start = time.monotonic()
    total = sum(len(seeds) for seeds in recordings.values())
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        jobs = {w: [pool.submit(r.figures, dsmctl, by_drive) for r in seeds] for w, seeds in recordings.items()}
        for done, _ in enumerate(concurrent.futures.as_completed(j for js in jobs.values() for j in js), 1):
            minutes = (time.monotonic() - start) / 60
            print(f"bench-waf: {done} of {total} played, about {minutes * (total - done) / done:.0f} min left",
                  file=sys.stderr)
        return {workload: [job.result() for job in js] for workload, js in jobs.items()}


def mean_of(runs, name):
    return statistics.mean(run[None][name] for run in runs)


def rows_of(workload, engine, drive, runs, policies):
    """The rows of a workload on a drive: mean and half the range over the seeds; null
    where the drive has too few units for the policy."""
    common = {
        "workload": workload, "engine": engine, "size_mib": round(mean_of(runs, "drive_pages") / 256),
        "op": drive.op, "unit": drive.unit, "gc": drive.gc, "fill": drive.fill, "copies": drive.copies,
        "granularity": drive.granularity, "alignment": drive.alignment,
        "units": round(mean_of(runs, "drive_pages") * 4096 / drive.fill / drive.unit),
        "interval_share": mean_of(runs, "interval_share"), "listed_share": mean_of(runs, "listed_share"),
        "seeds": len(runs),
    }
    for policy, discard in product(policies, [False, True]):
        if key(policy, discard) not in runs[0]:
            continue	# that WiredTiger's lists cannot be read
        cells = [run[key(policy, discard)] for run in runs]
        row = common | {"policy": policy, "discard": discard, "streams_used": None, "waf": None, "spread": None,
                        "gain": None, "gain_spread": None}
        if all(cell["waf"] for cell in cells):
            wafs = [cell["waf"] for cell in cells]
            gains = [1 - cell["waf"] / run["none"]["waf"] for cell, run in zip(cells, runs)]
            row |= {"streams_used": max(cell["streams_used"] for cell in cells),
                    "waf": statistics.mean(wafs), "spread": half_range(wafs),
                    "gain": statistics.mean(gains), "gain_spread": half_range(gains)}
        yield row


def figures(rows, recordings, played, drive):
    """What Documentation/figures keeps: by workload, drive and policy the mean of WAF, its
    spread, the mean of what is saved against none without discards, and its spread."""
    found = {}
    for workload, runs in played.items():
        mine = [row for row in rows if row["workload"] == workload]
        first = [run[drive][None] for run in runs]
        found[workload] = {name: mine[0][name] for name in ["engine", "size_mib", "seeds"]} | {
            "interval_share": round(mine[0]["interval_share"], 4), "listed_share": round(mine[0]["listed_share"], 4),
            "load_mib": round(statistics.mean(f["load_pages"] for f in first) / 256),
            "run_mib": round(statistics.mean(f["run_pages"] for f in first) / 256),
            "operations": [json.loads(r.path.with_suffix(".json").read_text())["ops"] for r in recordings[workload]][0],
            "shares": {name: round(statistics.mean(f["shares"][name] for f in first), 4) for name in first[0]["shares"]},
            "drives": {},
        }
        for row in mine:
            name = drive_of(row).name()
            cell = found[workload]["drives"].setdefault(name, {"units": row["units"], "seeds": row["seeds"]})
            cell[key(row["policy"], row["discard"])] = row["waf"] and [
                round(row[name], 4) for name in ["waf", "spread", "gain", "gain_spread"]]
    return found


def show_shares(recordings, played, drive):
    """The counterpart of the papers' Table 1."""
    print("shares of what is written after the load, %; from checkpoint to checkpoint is written, and listed as free, %")
    for workload in recordings:
        run = played[workload][0][drive][None]
        shares = " ".join(f"{name} {100 * share:.1f}" for name, share in run["shares"].items() if share)
        print(f"{workload:30} {run['load_pages'] // 256:6} MiB loaded, {run['run_pages'] // 256:6} MiB written: {shares}; "
              f"{100 * run['interval_share']:.1f} {100 * run['listed_share']:.1f}")


def number(value, spread):
    return "          -" if value is None else f"{value:6.3f} ±{spread:.3f}"


def show(rows, by_drive):
    workloads = list(dict.fromkeys(row["workload"] for row in rows))
    for drive, policies in by_drive.items():
        mine = {(row["workload"], row["policy"], row["discard"]): row for row in rows if on(row, drive)}
        print(f"\nWAF, {drive}, {STREAMS} streams")
        for workload in workloads:
            print(f"  {workload}")
            for policy in policies:
                cells = [mine.get((workload, policy, discard)) for discard in [False, True]]
                print(f"    {policy:28}" + "  ".join(number(c["waf"], c["spread"]) for c in cells if c))


DRIVE = [field.name for field in fields(Drive)]


def drive_of(row):
    return Drive(**{name: row[name] for name in DRIVE})


def on(row, drive):
    return all(row[name] == getattr(drive, name) for name in DRIVE)


def verdict(good, what):
    print(f"{'' if good else 'not '}ok - bench-waf: {what}")
    return good


def cells_of(rows, workload):
    """What fits, by drive and policy."""
    return {(drive_of(row), key(row["policy"], row["discard"])):
            row["waf"] for row in rows if row["workload"] == workload and row["waf"]}


def check(rows, by_drive):
    """What must hold whatever the workload; prints a test's line for each."""
    good = True
    first = next(iter(by_drive))
    full = [drive for drive in by_drive if drive == Drive(drive.op, drive.gc, first.unit)]
    for workload in dict.fromkeys(row["workload"] for row in rows):
        mine = [row for row in rows if row["workload"] == workload and row["waf"]]
        cells = cells_of(rows, workload)
        good &= verdict(all(row["waf"] >= 1 for row in mine), f"{workload}: WAF is at least 1")
        good &= verdict(all(row["streams_used"] <= STREAMS for row in mine),
                        f"{workload}: no policy uses more than {STREAMS} streams")
        good &= verdict(all(cells.get((drive, "oracle" + d), 0) <= cells[drive, p + d]
                            for drive in full for p in PLAIN for d in ["", "+discard"] if (drive, p + d) in cells),
                        f"{workload}: nothing is better than the oracle")
        good &= verdict(all(cells[Drive(0.15, gc, first.unit), p] >= cells[Drive(0.28, gc, first.unit), p] - 0.01
                            for gc in ["greedy", "cost-benefit"] for p in ["none", "dsm", "none+discard", "dsm+discard"]
                            if (first, p) in cells),
                        f"{workload}: more over-provisioning amplifies less")
        good &= verdict(all(cells[drive, p + "+discard"] < cells[drive, p]
                            for drive in full for p in ["none", "file", "dsm"] if (drive, p + "+discard") in cells),
                        f"{workload}: discards save something under every policy")
    few = [row for row in rows if row["policy"] == "auto" and row["units"] < FEW]
    none = {(row["workload"], row["discard"], drive): row["waf"] for row in rows for drive in by_drive
            if row["policy"] == "none" and on(row, drive)}
    good &= verdict(all(row["waf"] <= AUTO_COSTS * none[row["workload"], row["discard"], drive]
                        for row in few for drive in by_drive if on(row, drive)),
                    f"auto costs at most {AUTO_COSTS - 1:.0%} on drives of less than {FEW} units")
    return good


def check_goals(rows, drive):
    good = True
    for workload, most in GOALS.items():
        cells = cells_of(rows, workload)
        if cells:
            share = cells[drive, "dsm+discard"] / cells[drive, "none"]
            good &= verdict(share <= most, f"{workload}: dsm with discards writes {share:.3f} of what none "
                                           f"writes without, and {most} is allowed")
    large, cells = Drive(unit=drive.unit, granularity=128 << 10), cells_of(rows, "LB-Update-Only-cached")
    if cells:
        saved = 1 - cells[large, "none+discard"] / cells[large, "none"]
        good &= verdict(saved >= LARGE, f"LB-Update-Only-cached: discards in 128 KiB save {saved:.3f}, and {LARGE} is wanted")
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dsmctl")
    parser.add_argument("out", type=Path)
    parser.add_argument("--small", action="store_true", help="checks in place of pictures")
    parser.add_argument("--size", default="256M", help="of the databases, with M or G")
    parser.add_argument("--drives", metavar="REGEX", help="only those whose name it matches, without checks and pictures")
    args = parser.parse_args()
    size = int(args.size[:-1]) << {"M": 20, "G": 30}[args.size[-1]]
    by_drive = small_drives() if args.small else drives(size)
    if args.drives:
        by_drive = {drive: policies for drive, policies in by_drive.items() if re.search(args.drives, drive.name())}
    recordings = read_recordings(args.out / f"recordings-{'small' if args.small else 'workloads'}")

    played = play(args.dsmctl, recordings, by_drive)
    rows = [row for workload, seeds in recordings.items() for drive, policies in by_drive.items()
            for row in rows_of(workload, seeds[0].engine, drive, [run[drive] for run in played[workload]], policies)]
    name = "waf-small" if args.small else "waf" if args.size == "256M" else f"waf-{args.size}"
    name += "-part" * bool(args.drives)
    (args.out / f"{name}.json").write_text(json.dumps(rows, indent=1) + "\n")
    first = next(iter(by_drive))
    kept = figures(rows, recordings, played, first)
    lines = [f"{json.dumps(w)}: {json.dumps(kept[w], separators=(',', ':'))}" for w in kept]
    (args.out / f"{name}-figures.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")
    show_shares(recordings, played, first)
    show(rows, by_drive)
    if args.drives:
        return

    good = check(rows, by_drive)
    if name == "waf":
        good &= check_goals(rows, first)
        import pictures
        pictures.draw(args.dsmctl, args.out, recordings, rows)
    sys.exit(not good)


if __name__ == "__main__":
    main()
