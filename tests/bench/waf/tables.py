# SPDX-License-Identifier: GPL-2.0-only
"""The tables of README.md and Documentation/results.md, from Documentation/figures."""

import json

FIRST = "15 greedy 256K"
FULL = [FIRST, "28 greedy 256K", "7 greedy 256K", "15 cost-benefit 256K", "28 cost-benefit 256K"]
DIRECT = ["LB-Original", "LB-Mixed", "LB-Update-Only", "Y-Update-Heavy", "Y-Update-Only"]
CACHED = [w + "-cached" for w in DIRECT]
INTERVALS = ["-each-55", "-each-170", "-each-450", "", "-each-4000"]
OTHERS = ["Many", "Many-cached", "LB-Update-Only-xfs", "LB-Update-Only-4K", "Y-Update-Only-4K", "LB-Update-Only-3.2.1"]
VARIANTS = {"dsm": "as the paper has it", "dsm:prediction=off": "prediction off", "dsm:prediction=computed": "prediction computed",
            "dsm:primary_filter=off": "no primary filter", "dsm:range=region": "range of the region",
            "dsm:groups=2": "K = 2", "dsm:alpha=6": "α = 6"}
WAF, SPREAD, GAIN, GAIN_SPREAD = range(4)


def read(folder):
    """The figures, by the name of their file; those of one size follow another."""
    return {path.stem: json.loads(path.read_text()) for path in folder.glob("*.json") if path.stem != "claims"}


def cell(found, workload, drive, policy, source="waf"):
    """Mean and spread of WAF, and of what is saved; None where it does not fit."""
    return found[source][workload]["drives"].get(drive, {}).get(policy)


SETS = {"DIRECT": DIRECT, "CACHED": CACHED, "LB": DIRECT[:3], "LB-CACHED": CACHED[:3],
        "FULL": [drive + discard for drive in FULL for discard in ["", "+discard"]]}


def paths(path):
    """A path with a name of SETS in it stands for one with each of its members."""
    found = [[]]
    for key in path.split("/"):
        found = [f + [k] for f in found for k in SETS.get(key, [key])]
    return found


def number(found, keys):
    """What [FILE, WORKLOAD, DRIVE, POLICY, KIND] names, in per cent but for KIND waf. KIND
    saved: against none without discards; cost: the same with its sign turned; added: what is
    saved on top of discards without streams; lost: the same with its sign turned; beside-dsm: what is written more than with dsm,
    where DRIVE may have +discard; below-dsm: less. Or [FILE, KEY, ...], of which shares are in per cent."""
    kind = keys[-1]
    if kind in ["saved", "cost", "added", "lost", "waf", "beside-dsm", "below-dsm"]:
        source, workload, drive, policy, _ = keys
        drive, _, discard = drive.partition("+")
        cells = cell(found, workload, drive, policy + "+discard" * bool(discard), source)
        if kind == "waf":
            return cells[WAF]
        if kind.endswith("-dsm"):
            return (-100 if kind == "below-dsm" else 100) * (cells[WAF] / cell(found, workload, drive, "dsm" + "+discard" * bool(discard), source)[WAF] - 1)
        less = cell(found, workload, drive, "none+discard", source)[GAIN] if kind in ["added", "lost"] else 0
        return (-100 if kind in ["cost", "lost"] else 100) * (cells[GAIN] - less)
    value = found
    for key in keys:
        value = value[int(key) if isinstance(value, list) else key]
    return 100 * value if kind.endswith("_share") or "shares" in keys else value


def title(workload):
    return workload.removesuffix("-cached")


def table(head, rows):
    return [f"| {' | '.join(line)} |" for line in [head, ["---"] * len(head)] + rows]


def waf(cells):
    return "-" if cells is None else f"{cells[WAF]:.3f} ±{cells[SPREAD]:.3f}"


def fixed(number, digits):
    """Without a sign before zero."""
    return f"{round(number, digits) + 0.0:.{digits}f}"


def saved(cells, digits=1):
    """In per cent of what none writes without discards."""
    return "-" if cells is None else fixed(100 * cells[GAIN], digits)


def saved_spread(cells):
    return "-" if cells is None else f"{saved(cells)} ±{fixed(100 * cells[GAIN_SPREAD], 1)}"


def saved_round(cells):
    return saved(cells, 0)


def expect(found):
    """README's: what to expect, by how much is written from checkpoint to checkpoint."""
    rows = []
    for each in INTERVALS:
        row = []
        for mode in ["", "-cached"]:
            w = "LB-Update-Only" + each + mode
            of = found["waf"][w]
            row += [f"{100 * of['interval_share']:.0f}", f"{100 * of['listed_share']:.0f}"] * (mode == "")
            row += [saved_round(cell(found, w, FIRST, p)) for p in ["auto", "none+discard", "auto+discard"]]
            row += [saved_round(cell(found, w, FIRST + " 80", "auto+discard"))]
        rows.append(row)
    return table(["written, %", "listed free, %", "streams", "discards", "both", "both, drive 80 % full",
                  "page cache: streams", "discards", "both", "both, drive 80 % full"], rows)


def expect_workloads(found):
    """The same by workload."""
    rows = []
    for w in DIRECT + ["Many"]:
        row = [w]
        for mode in ["", "-cached"]:
            row += [saved_round(cell(found, w + mode, FIRST, p)) for p in ["auto", "none+discard", "auto+discard"]]
        rows.append(row)
    return table(["workload", "streams", "discards", "both", "page cache: streams", "discards", "both"], rows)


def granularity(found):
    """By what discards are multiples of: what they save alone."""
    rows = [[f"{n} KiB"] + [saved_round(cell(found, w, FIRST if n == 4 else f"{FIRST} in {n}K", "none+discard"))
                            for w in DIRECT + CACHED] for n in [4, 16, 32, 64, 128]]
    return table(["discards in"] + DIRECT + [title(w) + ", cached" for w in CACHED], rows)


def shares(found):
    classes = ["collection", "primary", "index", "journal", "other"]
    paper = {"LB-Original": [58.6, 3.1, 37.2, 1.1, None], "LB-Mixed": [66.1, 0.5, 31.1, 2.3, None],
             "LB-Update-Only": [67.6, 0.02, 30.2, 2.2, None], "Y-Update-Heavy": [93.6, None, None, 6.4, None],
             "Y-Update-Only": [89.6, None, None, 10.4, None]}
    rows = []
    for w in DIRECT:
        rows.append([w + ", paper"] + ["" if n is None else f"{n}" for n in paper[w]])
        rows.append(["here"] + [f"{100 * found['waf'][w]['shares'][c]:.1f}" for c in classes])
    return table(["workload", "collections", "primary", "secondary", "journal", "other"], rows)


def wafs(workloads):
    policies = ["none", "file", "boundary", "dsm", "life", "autostream-sfr", "filestream", "per-object", "oracle",
                "none+discard", "file+discard", "dsm+discard", "life+discard", "oracle+discard"]

    def made(found):
        rows = [[p.replace("+discard", ", discards")] + [waf(cell(found, w, FIRST, p)) for w in workloads] for p in policies]
        return table(["policy"] + [title(w) for w in workloads], rows)
    return made


def drives(workloads):
    policies = ["file", "dsm", "life", "none+discard", "life+discard"]

    def made(found):
        rows = [[d, p.replace("none+discard", "discards").replace("+discard", " and discards")] +
                [saved_spread(cell(found, w, d, p)) for w in workloads]
                for d in FULL + [FIRST + " 80", FIRST + " mixed"] for p in policies]
        return table(["drive", ""] + [title(w) for w in workloads], rows)
    return made


def units(found):
    """Databases of one workload on drives with more and with fewer units."""
    policies = ["file:streams=2", "file", "boundary", "dsm", "life:groups=2", "life", "auto", "none+discard", "auto+discard"]
    lines = []
    for source in [s for s in ["waf", "waf-4G"] if s in found]:
        for w in ["LB-Update-Only", "LB-Update-Only-cached"]:
            of = found[source].get(w)
            for name, cells in sorted(of["drives"].items(), key=lambda d: d[1]["units"]) if of else []:
                if name.split()[1:2] == ["greedy"] and name.split()[0] in ["15", "28"] and len(name.split()) == 3:
                    lines.append([f"{of['size_mib'] / 1024:.1f} GiB{', cached' if 'cached' in w else ''}",
                                  name.split()[2], name.split()[0], f"{cells['units']}", f"{cells['none'][WAF]:.2f}"] +
                                 [saved(cells.get(p)) for p in policies])
    return table(["database", "unit", "spare, %", "units", "WAF, `none`", "`file`, 2 streams", "`file`", "`boundary`", "`dsm`", "`life`, K = 2", "`life`",
                  "`auto`", "discards", "`auto` and discards"], lines)


def others(found):
    policies = ["none", "file", "boundary", "dsm", "oracle", "none+discard", "dsm+discard"]
    rows = [[w, f"{found['waf'][w]['size_mib']}"] + ["-" if (c := cell(found, w, FIRST, p)) is None else f"{c[WAF]:.3f}"
                                                    for p in policies] for w in ["LB-Update-Only"] + OTHERS]
    return table(["workload", "MiB"] + [p.replace("none+discard", "discards").replace("+discard", ", discards")
                                       for p in policies], rows)


def variants(found):
    rows = [[what] + [saved_spread(cell(found, w, FIRST, p)) for w in DIRECT + ["Many"]] for p, what in VARIANTS.items()]
    return table([""] + DIRECT + ["Many"], rows)


def life(found):
    """What life writes more (+) or less than dsm, in per cent, on each drive."""
    def against(w, drive, discard):
        mine, dsm = (cell(found, w, drive, p + discard) for p in ["life", "dsm"])
        return "-" if mine is None or dsm is None else f"{100 * (mine[WAF] / dsm[WAF] - 1):+.1f}"

    rows = [[drive, "with" if d else "without"] + [against(w, drive, d) for w in DIRECT + ["Many"] + CACHED]
            for drive in FULL for d in ["", "+discard"]]
    return table(["drive", "discards"] + DIRECT + ["Many"] + [title(w) + ", cached" for w in CACHED], rows)


def leaves(found):
    """The papers' Fig. 13: KiB written to flash by an operation, without streams."""
    rows = []
    for w in ["LB-Update-Only", "Y-Update-Only"]:
        large, small = ({p: cell(found, x, FIRST, p)[WAF] * found["waf"][x]["run_mib"] * 1024 / found["waf"][x]["operations"]
                         for p in ["none", "none+discard"]} for x in [w, w + "-4K"])
        rows.append([w] + [f"{n:.1f}" for p in large for n in [large[p], small[p], large[p] / small[p]]])
    return table(["", "32 KiB", "4 KiB", "times less", "discards, 32 KiB", "4 KiB", "times less"], rows)


LIVE = [("ops_per_second", "operations/s", ",d"), ("ops_against_none_percent", "against `none`, %", "+d"),
        ("p50_us", "p50 us", ",d"), ("p95_us", "p95 us", ",d"), ("p99_us", "p99 us", ",d"),
        ("p99_against_none_percent", "against `none`, %", "+d"), ("p999_us", "p99.9 us", ",d"), ("waf", "WAF", ".2f"),
        ("waf_drift_percent", "from half to half, %", "+d"), ("media_kib_per_op", "KiB of flash/operation", ".1f"),
        ("media_against_none_percent", "against `none`, %", "+d"), ("stall_us_per_op", "stall us/operation", ",d")]


def spread(value, form):
    """The median, and the range if there is one"""
    middle, least, most = (format(v, form) for v in value)
    return middle if least == most else f"{middle} ({least} to {most})"


def live(kind):
    """What came to the clients, on the live drive: a row for each policy"""
    def rows(found):
        for policy, cells in found["live"][kind].items():
            yield [f"`{policy.partition('+')[0]}`" + " with discards" * policy.endswith("+discard")] + [
                spread(cells[name], form) if name in cells else "" for name, _, form in LIVE]
    return lambda found: table([""] + [title for _, title, _ in LIVE], list(rows(found)))


def live_papers(found):
    """Beside what the papers have at most"""
    shown = ["file", "dsm", "none+discard", "dsm+discard"]
    rows = [[f"{what}, {workload}", paper] + [spread(found["live"][f"{workload} direct 15%"][policy][name], "+d") for policy in shown]
            for what, paper, name in [("throughput", "up to +65", "ops_against_none_percent"),
                                      ("99th percentile", "up to -46", "p99_against_none_percent")]
            for workload in ["LB-Update-Only", "LB-Mixed"]]
    return table(["", "papers", "`file`", "`dsm`", "`none` with discards", "`dsm` with discards"], rows)


TABLES = {
    "live-papers": live_papers, "live-update": live("LB-Update-Only direct 15%"), "live-mixed": live("LB-Mixed direct 15%"),
    "expect": expect, "expect-workloads": expect_workloads,
    "granularity": granularity, "shares": shares, "waf-direct": wafs(DIRECT),
    "waf-cached": wafs(CACHED), "drives-direct": drives(DIRECT), "drives-cached": drives(CACHED), "units": units,
    "others": others, "variants": variants, "life": life, "leaves": leaves,
}
