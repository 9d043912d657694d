#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""Plays the recordings of engines that tests/bench/waf/run lists: objects by rules,
in the combinations of the EDBT paper's tables, beside FileStream and AutoStream."""

import argparse
import json
import statistics
import subprocess
from pathlib import Path

import waf

OPS = [0.15, 0.28]
GCS = ["greedy", "cost-benefit"]
UNIT = waf.UNIT
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
        self.workload, self.seed, self.engine, path = line.split()
        self.path = Path(path)
        self.primary = []

    def play(self, dsmctl, out, policies, rules, **options):
        self.primary = ["--rules", str(rules)]
        return self.simulate(dsmctl, policies, **options)

    def shipped(self):
        return RULES / f"{SHIPPED[self.engine]}.toml"

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


def mean(values):
    return {"waf": statistics.mean(values), "spread": waf.half_range(values), "seeds": len(values)}


def table(dsmctl, out, recordings):
    rows = []
    for workload, seeds in recordings.items():
        for op in OPS:
            for gc in GCS:
                def row(policy, runs, name, workload=workload, op=op, gc=gc):
                    wafs = [run[name]["waf"] for run in runs]
                    rows.append({"workload": workload, "policy": policy, "op": op, "gc": gc, "unit": UNIT,
                                 "streams_used": max(run[name]["streams_used"] for run in runs)} | mean(wafs))

                runs = [r.play(dsmctl, out, POLICIES, r.shipped(), op=op, gc=gc) for r in seeds]
                for policy in POLICIES:
                    row(policy, runs, policy)
                combined = [COMBINED.get(r.engine, lambda _: ([], {}))(r) for r in seeds]
                for combination in [APART] + combined[0][0]:
                    runs = []
                    for r, (_, files) in zip(seeds, combined):
                        rules = out / "combination.toml"
                        write_rules(rules, combination, files | {APART: ["**"]})
                        runs.append(r.play(dsmctl, out, ["rules"], rules, op=op, gc=gc))
                    row(APART if combination == APART else f"objects ({combination}, else)", runs, "rules")
    return rows


def measure(dsmctl, out, recordings):
    """The paper's Tables 1 and 2 for each engine: shipped objects, and those of the
    combinations."""
    found = []
    for workload, seeds in recordings.items():
        kinds = [("shipped", seeds[0].shipped())]
        if seeds[0].engine in COMBINED:
            combinations, files = COMBINED[seeds[0].engine](seeds[0])
            write_rules(out / "objects.toml", ", ".join(files), files)
            kinds.append(("combined", out / "objects.toml"))
        for kind, rules in kinds:
            data = seeds[0].objects(dsmctl, rules)
            print(f"\n{workload}, {kind} objects: share of {data['pages'] // 256} MiB, update interval in pages")
            for o in sorted(data["objects"], key=lambda o: o["interval"]):
                print(f"  {o['name']:28} {100 * o['share']:5.1f} %  {o['interval']:12.0f}")
                found.append({"workload": workload, "rules": kind} | {k: o[k] for k in ["name", "share", "interval", "pages"]})
    return found


def show(rows):
    for workload in dict.fromkeys(row["workload"] for row in rows):
        mine = [row for row in rows if row["workload"] == workload]
        columns = [(op, gc) for op in OPS for gc in GCS]
        print(f"\n{workload}: WAF (streams used)")
        print(f"{'policy':32}" + "".join(f"{gc + ' ' + str(op):>22}" for op, gc in columns))
        for policy in dict.fromkeys(row["policy"] for row in mine):
            cells = {(r["op"], r["gc"]): r for r in mine if r["policy"] == policy}
            print(f"{policy:32}" + "".join(f"{cells[c]['waf']:12.3f} ±{cells[c]['spread']:5.3f} ({cells[c]['streams_used']})"
                                           for c in columns))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dsmctl")
    parser.add_argument("out", type=Path)
    args = parser.parse_args()
    recordings = {}
    for line in (args.out / "recordings-engines").read_text().splitlines():
        recording = Recording(line)
        recordings.setdefault(recording.workload, []).append(recording)
    rows = table(args.dsmctl, args.out, recordings)
    objects = measure(args.dsmctl, args.out, recordings)
    data = {"rows": rows, "objects": objects}
    (args.out / "engines.json").write_text(json.dumps(data, indent=1) + "\n")
    show(rows)
    import pictures_engines
    pictures_engines.draw(args.out, rows, objects)


if __name__ == "__main__":
    main()
