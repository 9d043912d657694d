#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""Plays the recordings of engines that tests/bench/waf/run lists: objects by rules,
in the combinations of the EDBT paper's tables, beside FileStream and AutoStream."""

import argparse
import json
import statistics
import subprocess
from itertools import product
from pathlib import Path

import waf

OPS = [0.15, 0.28]
GCS = ["greedy", "cost-benefit"]
RULES = Path(__file__).parents[3] / "userspace" / "rules"
SHIPPED = {"mariadb": "innodb", "postgresql": "postgresql", "rocksdb": "rocksdb"}
POLICIES = ["none", "per-file", "rules", "per-object", "filestream:modules=mapper", "filestream:modules=remapper",
            "filestream:modules=halves", "filestream", "autostream-sfr", "autostream-mq", "oracle"]
# Combinations of objects: "A+B, C" gives A and B a stream, and C another one. All else
# is in stream 1, where the load is.
TABLE_3 = ["H1, H2, C1, C2", "H1", "C1", "H1+H2", "H1+C1"]
TABLE_4 = ["H, C, W1, W2", "W1+W2, H, C", "H+C, W1, W2", "H", "C", "W1", "W2"]
# A control: one stream for all, and another for the load, which other policies too may
# keep apart from what follows.
APART = "load-apart"


def innodb(_recording):
    """The paper's Table 1; W is all else."""
    return TABLE_3, {
        "H1": ["ibdata1", "1M-3M"], "H2": ["tpcc/new_orders.ibd"], "C1": ["tpcc/order_line.ibd"],
        "C2": ["tpcc/customer.ibd"],
    }


def pgbench(recording):
    """Table 4 is of ForestDB, which Debian does not have.  Of pgbench's objects H is
    extremely hot, W1 and W2 are warm, and C is cold and most of the writes."""
    files = {}
    for line in recording.path.with_suffix(".written").read_text().splitlines():
        name, value = line.split()
        if name.startswith("pgbench_"):
            files[name] = value
    return TABLE_4, {
        "H": ["pg_xact/*", files["pgbench_branches"] + "*", files["pgbench_tellers"] + "*"],
        "W1": ["pg_wal/**"],
        "W2": [files["pgbench_accounts_pkey"] + "*", files["pgbench_history"] + "*"],
        "C": [files["pgbench_accounts"] + "*"],
    }


COMBINED = {"mariadb": innodb, "postgresql": pgbench}


class Recording(waf.Recording):
    """Of an engine: it has rules, and no list of indexes."""

    def __init__(self, line):
        self.workload, self.seed, self.program, path = line.split()
        self.path = Path(path)
        self.primary = []

    def play(self, dsmctl, policies, rules, **options):
        self.primary = ["--rules", str(rules)]
        return self.simulate(dsmctl, policies, **options)

    def shipped(self):
        return RULES / f"{SHIPPED[self.program]}.toml"

    def objects(self, dsmctl, rules):
        """How often each is updated"""
        done = subprocess.run([Path(dsmctl).with_name("trace"), "objects", str(self.path), str(rules)],
                              check=True, stdout=subprocess.PIPE)
        return json.loads(done.stdout)


def write_rules(path, combination, files):
    """A combination as rules."""
    text = []
    for stream, group in enumerate(combination.split(","), 2):
        for name in group.strip().split("+"):
            part = [p for p in files[name] if p[0].isdigit() and p[-1] == "M"]
            text.append(f'[[object]]\nname = "{name}"\nstream = {stream}\n'
                        f'files = {json.dumps([p for p in files[name] if p not in part])}\n')
            text.extend(f'bytes = "{p}"\n' for p in part)
    path.write_text("".join(text))


def cell(runs, nones, policy):
    """As of waf.json: mean and spread of WAF, and of what is saved; and streams used."""
    wafs = [run[policy]["waf"] for run in runs]
    gains = [1 - waf / none for waf, none in zip(wafs, nones)]
    numbers = [of(values) for values in [wafs, gains] for of in [statistics.mean, waf.half_range]]
    return [round(n, 4) for n in numbers] + [max(run[policy]["streams_used"] for run in runs)]


def play(dsmctl, out, seeds):
    """The cells of one engine, by drive and policy"""
    drives = {}
    for op, gc in product(OPS, GCS):
        runs = [r.play(dsmctl, POLICIES, r.shipped(), op=op, gc=gc) for r in seeds]
        nones = [run["none"]["waf"] for run in runs]
        cells = {policy: cell(runs, nones, policy) for policy in POLICIES}
        combined = [COMBINED.get(r.program, lambda _: ([], {}))(r) for r in seeds]
        for combination in [APART] + combined[0][0]:
            runs = []
            for r, (_, files) in zip(seeds, combined):
                rules = out / "combination.toml"
                write_rules(rules, combination, files | {APART: ["**"]})
                runs.append(r.play(dsmctl, ["rules"], rules, op=op, gc=gc))
            cells[combination] = cell(runs, nones, "rules")
        drives[f"{round(100 * op)} {gc}"] = cells
    return drives


def measure(dsmctl, out, seeds):
    """The paper's Tables 1 and 2 for one engine: shipped objects, and those of the combinations."""
    rules = {"shipped": seeds[0].shipped()}
    if seeds[0].program in COMBINED:
        combinations, files = COMBINED[seeds[0].program](seeds[0])
        rules["combined"] = out / "objects.toml"
        write_rules(rules["combined"], ", ".join(files), files)
    found = {}
    for kind, path in rules.items():
        data = seeds[0].objects(dsmctl, path)
        print(f"\n{seeds[0].workload}, {kind} objects: share of {data['pages'] // 256} MiB, update interval in pages")
        found[kind] = {}
        for o in sorted(data["objects"], key=lambda o: o["interval"]):
            print(f"  {o['name']:28} {100 * o['share']:5.1f} %  {o['interval']:12.0f}")
            found[kind][o["name"]] = {"pages": o["pages"], "share": round(o["share"], 4), "interval": round(o["interval"])}
    return found


def show(engine, drives):
    print(f"\n{engine}: WAF (streams used)")
    print(f"{'policy':32}" + "".join(f"{drive:>22}" for drive in drives))
    for policy in drives[next(iter(drives))]:
        cells = [drives[drive][policy] for drive in drives]
        print(f"{policy:32}" + "".join(f"{waf:12.3f} ±{spread:5.3f} ({streams})" for waf, spread, _, _, streams in cells))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dsmctl")
    parser.add_argument("out", type=Path)
    args = parser.parse_args()
    recordings = {}
    for line in (args.out / "recordings-engines").read_text().splitlines():
        recording = Recording(line)
        recordings.setdefault(recording.workload, []).append(recording)
    found = {}
    for engine, seeds in recordings.items():
        found[engine] = {"seeds": len(seeds), "drives": play(args.dsmctl, args.out, seeds),
                         "objects": measure(args.dsmctl, args.out, seeds)}
        show(engine, found[engine]["drives"])
    text = ",\n".join(f'"{engine}": {json.dumps(of, separators=(",", ":"))}' for engine, of in found.items())
    (args.out / "engines.json").write_text("{\n" + text + "\n}\n")
    import pictures_engines
    pictures_engines.draw(args.out, found)


if __name__ == "__main__":
    main()
