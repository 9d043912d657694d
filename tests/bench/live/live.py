#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""What all cells of "make bench-live" came to. CELLS has a line "NAME RESULT" for each.
Leaves in OUT live.json, a row for each cell; live-figures.json, what Documentation/figures
keeps: by kind and policy, for all seeds of a cell the figures as they are printed; live.md,
tables of these; and the pictures. With --into FILE, live-figures.json is FILE with these
cells added, or in place of those that it has; one that has more seeds there stays."""

import argparse
import json
import statistics
import sys
from pathlib import Path

import live_pictures

# What a cell is called by, beside its seed
NAMES = ["workload", "policy", "discard", "cache", "op", "clients", "think_us", "drive", "cache_mb", "leaf_page", "interval"]
KIND = ["workload", "cache", "op", "clients", "think_us", "drive", "cache_mb", "leaf_page", "interval"]

# Of what is shown: name, title, the digits after the point
VALUES = [("ops_per_second", "operations/s", 0), ("p50_us", "p50 us", 0), ("p95_us", "p95 us", 0),
          ("p99_us", "p99 us", 0), ("p999_us", "p99.9 us", 0), ("waf", "WAF", 2),
          ("media_kib_per_op", "KiB of flash/operation", 1), ("stall_us_per_op", "stall us/operation", 0),
          ("discards_per_1000_ops", "discards/1,000 operations", 0), ("discard_kib", "KiB/discard", 0),
          ("busy", "dies busy", 2), ("waf_drift_percent", "WAF, halves, %", 0)]
# Of these, what they are against "none" with the same seed
AGAINST = {"ops_per_second": "ops_against_none_percent", "p99_us": "p99_against_none_percent",
           "media_kib_per_op": "media_against_none_percent"}


def usual_cache(clients):
    """WiredTiger's, in MB"""
    return 20 if clients == 8 else 80


def key(name):
    workload, policy, cache, op, clients, think, drive, seed = name.split("/")
    discard = policy.endswith("+discard")
    policy = policy.removesuffix("+discard")
    workload, _, interval = workload.partition("~")
    workload, _, leaf = workload.partition("@")
    cache, _, cache_mb = cache.partition("-")
    return {"workload": workload, "policy": policy, "discard": discard, "cache": cache, "op": int(op) / 1000,
            "clients": int(clients), "think_us": int(think), "drive": drive,
            "cache_mb": int(cache_mb or usual_cache(int(clients))), "leaf_page": int(leaf or 32),
            "interval": int(interval or 1), "seed": int(seed)}


def read_rows(path):
    rows, failed = [], []
    for line in path.read_text().splitlines():
        name, result = line.split()
        values = json.loads(Path(result).read_text())
        if "error" in values:
            failed.append((name, values["error"]))
            continue
        first, second = values["waf_halves"]
        rows.append(key(name) | values | {"media_kib_per_op": values["media_bytes_per_op"] / 1024,
                                          "waf_drift_percent": 100 * (second / first - 1)})
    return rows, failed


def named(row, names):
    return tuple(row[n] for n in names)


def rounded(values, digits):
    """The median, the least and the most, as they are printed."""
    return [round(v, digits) if digits else round(v)
            for v in (statistics.median(values), min(values), max(values))]


def is_base(row):
    """That others are compared with"""
    return (row["policy"], row["discard"], row["leaf_page"], row["interval"]) == ("none", False, 32, 1)


def base_of(row):
    """Where the one that it is compared with is; without discards it does not matter how long they take."""
    return named(row | {"drive": row["drive"][:3]}, KIND[:-2])


def figures_of(seeds, base):
    """One row for all SEEDS of a cell; BASE has "none" of the same kind by seed, with MongoDB's leaf pages and interval."""
    row = {n: seeds[0][n] for n in NAMES} | {"seeds": sorted(s["seed"] for s in seeds)}
    row |= {name: rounded([s[name] for s in seeds], digits) for name, _, digits in VALUES}
    if not is_base(row):
        for name, against in AGAINST.items():
            shares = [100 * (s[name] / base[s["seed"]][name] - 1) for s in seeds if s["seed"] in base]
            if shares:
                row[against] = rounded(shares, 0)
    return row


def figures(rows):
    cells, bases = {}, {}
    for row in rows:
        cells.setdefault(named(row, NAMES), []).append(row)
        if is_base(row):
            bases.setdefault(base_of(row), {})[row["seed"]] = row
    return [figures_of(seeds, bases.get(base_of(seeds[0]), {})) for seeds in cells.values()]


def text(value, digits, sign=""):
    middle, least, most = (f"{v:{sign},.{digits}f}" for v in value)
    return middle if least == most else f"{middle} ({least} to {most})"


def title(kind):
    workload, cache, op, clients, think, drive, cache_mb, leaf, interval = kind
    return (f"{workload}, {'direct' if cache == 'direct' else 'buffered'} I/O, {op:.0%} over-provisioning, "
            f"{clients} clients" + f" with {think / 1000:g} ms between operations" * bool(think)
            + ", the SLC drive" * (drive == "slc") + f", discards of {drive[3:]}" * (len(drive) > 3)
            + f", a cache of {cache_mb} MB" * (cache_mb != usual_cache(clients))
            + f", leaf pages of {leaf} KiB" * (leaf != 32) + f", {interval} times the interval" * (interval != 1))


def short(kind):
    """As Documentation/figures has it"""
    workload, cache, op, clients, think, drive, cache_mb, _, _ = kind
    return (f"{workload} {cache} {op:.0%}" + f" {clients} clients" * (clients != 8)
            + f" {think / 1000:g} ms" * bool(think) + " SLC" * (drive == "slc") + f" {drive[3:]} discards" * (len(drive) > 3)
            + f" {cache_mb} MB" * (cache_mb != usual_cache(clients)))


def keep(kinds, into):
    """Adds by kind and policy to INTO; kinds with other leaf pages or another interval together, as they are called
    with MongoDB's, and by these, as "8" for pages of 8 KiB or "8 x3" for three times the interval as well"""
    leaves = into.pop("leaf_page", {})
    for kind, rows in kinds.items():
        leaf, interval = kind[-2:]
        cells = (into.setdefault(short(kind), {}) if (leaf, interval) == (32, 1)
                 else leaves.setdefault(short(kind), {}).setdefault(f"{leaf}" + f" x{interval}" * (interval != 1), {}))
        for row in rows:
            name = row["policy"] + "+discard" * row["discard"]
            if len(row["seeds"]) >= len(cells.get(name, row)["seeds"]):
                cells[name] = {k: v for k, v in row.items() if k not in NAMES}
    return into | ({"leaf_page": leaves} if leaves else {})


def written(figures, indent=""):
    """A line for each cell"""
    if "seeds" in figures:
        return json.dumps(figures)
    lines = [f"{indent} {json.dumps(name)}: {written(value, indent + ' ')}" for name, value in figures.items()]
    return "{\n" + ",\n".join(lines) + f"\n{indent}}}"


def table(kind, rows):
    count = sorted({len(r["seeds"]) for r in rows})
    yield f"{title(kind)}; seeds: {' to '.join(map(str, dict.fromkeys((count[0], count[-1]))))}"
    yield ""
    heads = [v[1] for v in VALUES]
    heads.insert(1, "against `none`")
    yield "| | " + " | ".join(heads) + " |"
    yield "|---" * (len(heads) + 1) + "|"
    for row in rows:
        texts = [text(row[name], digits, "+" * (name == "waf_drift_percent")) for name, _, digits in VALUES]
        against = row.get("ops_against_none_percent")
        texts.insert(1, text(against, 0, "+") + " %" if against else "")
        yield f"| `{row['policy']}`{' with discards' * row['discard']} | " + " | ".join(texts) + " |"
    yield ""


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cells", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--into", type=Path)
    args = parser.parse_args()
    rows, failed = read_rows(args.cells)
    (args.out / "live.json").write_text(json.dumps(rows, indent=1) + "\n")
    shown = figures(rows)
    kinds = {}
    for row in shown:
        kinds.setdefault(named(row, KIND), []).append(row)
    (args.out / "live-figures.json").write_text(
        written(keep(kinds, json.loads(args.into.read_text()) if args.into else {})) + "\n")
    lines = [line for kind, cells in kinds.items() for line in table(kind, cells)]
    (args.out / "live.md").write_text("\n".join(lines))
    print("\n".join(lines))
    for name, error in failed:
        print(f"{name}: not counted: {error}")
    live_pictures.draw(args.out, rows)
    sys.exit(not rows)


if __name__ == "__main__":
    main()
