# SPDX-License-Identifier: GPL-2.0-only
"""The tables of README.md, and of Documentation results.md and before.md, from Documentation/figures."""

import json

import forecast

FIRST = "15 greedy 256K"
FULL = [FIRST, "28 greedy 256K", "7 greedy 256K", "15 cost-benefit 256K", "28 cost-benefit 256K"]
DIRECT = ["LB-Original", "LB-Mixed", "LB-Update-Only", "Y-Update-Heavy", "Y-Update-Only"]
CACHED = [w + "-cached" for w in DIRECT]
INTERVALS = ["-each-55", "-each-170", "-each-450", "", "-each-4000"]
WAF, SPREAD, GAIN, GAIN_SPREAD = range(4)


def read(folder):
    """The figures, by the name of their file; those of one size follow another."""
    return {path.stem: json.loads(path.read_text()) for path in folder.glob("*.json") if path.stem != "claims"}


def cell(found, workload, drive, policy, source="waf"):
    """Mean and spread of WAF, and of what is saved; None where it does not fit."""
    return found[source][workload]["drives"].get(drive, {}).get(policy)


SETS = {"DIRECT": DIRECT, "CACHED": CACHED, "LB": DIRECT[:3], "LB-CACHED": CACHED[:3],
        "PAPERS": ["LB-Mixed", "LB-Update-Only", "Y-Update-Only", "Many", "LB-Update-Only-paced", "LB-Update-Only-timed"],
        "GCS": ["greedy", "cost-benefit"],
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
    where DRIVE may have +discard; below-dsm: less. Or [FILE, KEY, ...], of which shares are in per cent; with KIND less what a ratio's mean is below 1."""
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
    less, keys = kind == "less", keys[:-1] if kind == "less" else keys
    value = found
    for key in keys:
        value = value[int(key) if isinstance(value, list) else key]
    if less:
        return 100 * (1 - value[0])
    return 100 * value if kind.endswith("_share") or {"shares", "rates", "moved", "hot"} & set(keys) else value


def title(workload):
    return workload.removesuffix("-cached")


def table(head, rows):
    return [f"| {' | '.join(line)} |" for line in [head, ["---"] * len(head)] + rows]


def fixed(number, digits):
    """Without a sign before zero."""
    return f"{round(number, digits) + 0.0:.{digits}f}"


def saved(cells, digits=1):
    """In per cent of what none writes without discards."""
    return "-" if cells is None else fixed(100 * cells[GAIN], digits)


def saved_round(cells):
    return saved(cells, 0)


def expect(found):
    """What to expect, by how much is rewritten from checkpoint to checkpoint."""
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
    return table(["rewritten, %", "avail list, %", "streams", "discards", "both", "both, drive 80 % full",
                  "buffered: streams", "discards", "both", "both, drive 80 % full"], rows)


def mongod(found):
    """What was recorded below a real mongod."""
    kinds = ["interval", "listed", "waf", "streams", "discards", "both", "at_80", "op_7", "op_28", "in_16k", "in_128k"]
    rows = [[name] + [f"{of['waf']:.2f}" if kind == "waf" else fixed(100 * of[kind + "_share"], 0) for kind in kinds]
            for name, of in found["mongod"].items()]
    return table(["workload", "rewritten, %", "avail list, %", "WAF without", "streams (`life`)", "discards", "both",
                  "discards, drive 80 % full", "discards, 7 % OP", "discards, 28 % OP", "discards in 16 KiB", "in 128 KiB"], rows)


def granularity(found):
    """By what discards are multiples of: what they save alone."""
    ways = {"": "", " at 4K": ", from any 4 KiB on"}
    workloads = [w + cached for w in ["LB-Update-Only", "LB-Mixed", "Y-Update-Only"] for cached in ["", "-cached"]]
    rows = [[f"{n} KiB{said}"] + [saved_round(cell(found, w, f"{FIRST} in {n}K{way}", "none+discard")) for w in workloads]
            for n in [4, 16, 32, 64, 128] for way, said in ways.items() if n > 16 or not way]
    return table(["discards in"] + [title(w) + ", cached" * w.endswith("-cached") for w in workloads], rows)


def policies(found):
    """What each policy saves, without discards and with them"""
    workloads = [w + mode for mode in ["", "-cached"] for w in DIRECT[:4] + ["Many"]]
    rows = [["WAF without"] + [f"{cell(found, w, FIRST, 'none')[WAF]:.2f}" for w in workloads]]
    for p in ["file", "boundary", "dsm", "life", "autostream-sfr", "filestream", "per-object", "oracle", "none+discard", "dsm+discard",
              "life+discard", "oracle+discard"]:
        rows.append([live_policy(p)] + [saved(cell(found, w, FIRST, p)) for w in workloads])
    return table(["saved, %"] + [title(w) + ", buffered" * w.endswith("-cached") for w in workloads], rows)


def drives(found):
    """Other drives: what streams, discards and both save"""
    workloads = ["LB-Update-Only", "LB-Update-Only-cached", "Y-Update-Only"]
    rows = [[drive] + [saved(cell(found, w, drive, p)) for w in workloads for p in ["life", "none+discard", "life+discard"]]
            for drive in FULL[:4] + [FIRST + " 80", FIRST + " mixed"]]
    return table(["drive"] + [f"{title(w)}{', buffered' * w.endswith('-cached')}: {what}" if what == "`life`" else what
                              for w in workloads for what in ["`life`", "discards", "both"]], rows)


def units(found):
    """Databases of one workload on drives with more and with fewer units."""
    columns = ["dsm", "life", "auto", "none+discard", "auto+discard"]
    rows = []
    for source in ["waf", "waf-4G"]:
        for w in ["LB-Update-Only", "LB-Update-Only-cached"]:
            of = found[source][w]
            for name, cells in sorted(of["drives"].items(), key=lambda d: d[1]["units"]):
                op, gc, unit, *more = name.split()
                if (op, gc, more) == ("15", "greedy", []):
                    rows.append([f"{of['size_mib'] / 1024:.1f} GiB{', buffered' * w.endswith('-cached')}", unit, f"{cells['units']}",
                                 f"{cells['none'][WAF]:.2f}"] + [saved(cells.get(p)) for p in columns])
    return table(["database", "unit", "units", "WAF without", "`dsm`", "`life`", "`auto`", "discards",
                  "`auto` and discards"], rows)


def spread(value, form):
    """The median, and the range if there is one"""
    middle, least, most = (format(v, form) for v in value)
    return middle if least == most else f"{middle} ({least} to {most})"


# Papers' Figs. 10 and 11: at most, in per cent of what there is without: throughput and 99th
# percentile of `boundary` and `dsm`, which they have for LinkBench only. The last has two seeds here.
PAPERS = {"LB-Original": ((23, 37), (-24, -28)), "LB-Mixed": ((28, 51), (-17, -32)),
          "LB-Update-Only": ((44, 65), (-25, -46)), "Y-Update-Heavy": ((23, None), (-29, None)),
          "Y-Update-Only": ((44, None), (-29, None))}
LIVE_OTHERS = [f"{workload} cached 15%" for workload in DIRECT[:4]] + ["LB-Update-Only direct 7%", "LB-Mixed direct 7%"] + [
    "LB-Update-Only direct 15%" + arm for arm in [" 40 MB", " 80 MB", " 40 clients", " 40 clients 2 ms"]]
AGAINST = {"operations/s": "ops_against_none_percent", "99th percentile": "p99_against_none_percent"}


def live_policy(policy):
    return f"`{policy.partition('+')[0]}`" + " with discards" * policy.endswith("+discard")


def live_kind(kind):
    workload, cache, op, *arm = kind.split()
    return ", ".join([workload] + ["cached"] * (cache == "cached") + [f"{op[:-1]} % OP"] * (op != "15%")
                     + [" ".join(arm).replace(" 2 ms", ", 2 ms").replace("MB", "MB of cache")] * bool(arm))


def live_others(found):
    """Buffered I/O, and with one thing changed"""
    policies = ["dsm", "none+discard", "dsm+discard"]
    rows = [[live_kind(kind), format(found["live"][kind]["none"]["ops_per_second"][0], ",d")] +
            [spread(found["live"][kind][p]["ops_against_none_percent"], "+d") for p in policies] for kind in LIVE_OTHERS]
    return table(["", "`none`: operations/s"] + [live_policy(p) + ", %" for p in policies], rows)


def live_beside(found):
    """What costs and saves little, beside none"""
    rows = []
    for policy, what in {"none+audit": "the audit", "filestream": "`filestream`"}.items():
        for workload in ["LB-Update-Only", "Y-Update-Heavy"]:
            of = found["live"][f"{workload} direct 15%"][policy]
            rows.append([what, workload, str(len(of["seeds"]))] + [spread(of[name], "+d") for name in AGAINST.values()])
    return table(["", "workload", "seeds"] + [f"{what}, %" for what in AGAINST], rows)


EDGE = [("15%", "none", "`none`"), ("60%", "none", "`none`, 60 % OP"), ("15%", "none+audit", "`none`, the audit"),
        ("15%", "none+discard", "`none` with discards")]


def live_edge(found):
    """How the tail moves when the drive has less to copy, and when dsmd reads the lists, in ms"""
    rows = [[what] + [spread([us / 1000 for us in found["live"][f"Y-Update-Heavy direct {op}"][policy][name]], ".1f")
                      for name in ["p95_us", "p99_us", "p999_us"]] for op, policy, what in EDGE]
    return table(["ms", "95 %", "99 %", "99.9 %"], rows)


def live_slow(found):
    """Drives that take some time for each discard"""
    values = ["ops_per_second", "p99_us", "p999_us", "discards_per_1000_ops"]
    kind, rows = "LB-Update-Only direct 15%", []
    for leaf, of in [("32", lambda k: found["live"][k]), ("8", lambda k: found["live"]["leaf_page"][k]["8"])]:
        rows.append([leaf, "no discards"] + [format(of(kind)["none"][name][0], ",d") if name in of(kind)["none"] else "" for name in values])
        for time in ["0us", "100us", "1ms", "10ms"]:
            cells = of(f"{kind} {time} discards")["none+discard"]
            rows.append([leaf, time.replace("us", " us").replace("ms", " ms")] + [format(cells[name][0], ",d") for name in values])
    return table(["leaf KiB", "a discard takes", "operations/s", "p99 us", "p99.9 us", "discards/1,000 operations"], rows)


def live_papers(found):
    """Beside what the papers have at most"""
    rows = []
    for at, (what, name) in enumerate([("throughput", "ops_against_none_percent"), ("99th percentile", "p99_against_none_percent")]):
        for workload, papers in PAPERS.items():
            here = {p: spread(found["live"][f"{workload} direct 15%"][p][name], "+d") for p in ["boundary", "dsm", "none+discard", "dsm+discard"]}
            boundary, dsm = (f"{n:+d}" if n else "" for n in papers[at])
            rows.append([f"{what}, {workload}", boundary, here["boundary"], dsm, here["dsm"], here["none+discard"], here["dsm+discard"]])
    return table(["", "papers: `boundary`", "here", "papers: `dsm`", "here", "here: `none` with discards", "here: `dsm` with discards"], rows)


STOCK = "32:16:snappy:60"
# Pages of the drives of tests/bench/waf/settings.py
ONE_DRIVE, LARGER = "41100", "57344"
ARMS = {"none": "no dsm", "none+discard": "discards", "auto+discard": "both"}


def ranged(value, form, several=True):
    """Mean and half the range"""
    return (f"{value[0]:{form}}" + f" ±{value[1]:{form}}" * several) if value else "-"


def settings_of(found, workload):
    """By leaf pages, the largest first, and number of checkpoints"""
    def order(setting):
        leaf, index, compressor, checkpoints = setting.split(":")
        return [-int(leaf), compressor, -int(index), -int(checkpoints)]
    return sorted(found["waf"]["settings"][workload].items(), key=lambda of: order(of[0]))


def setting_title(setting):
    leaf, index, compressor, checkpoints = setting.split(":")
    return [leaf + f", indexes {index}" * (index != "16") + f", {compressor}" * (compressor != "snappy"), checkpoints]


def settings(found):
    """Each setting on one drive: what it costs, and NAND writes against MongoDB's own"""
    direct, cached = (settings_of(found, "LB-Update-Only" + mode) for mode in ["", "-cached"])
    rows = [setting_title(setting) + [f"{of['files_mib'][0]:.0f}"] + [f"{o['host_kib'][0]:.1f}" for o in [of, buffered]]
            + [f"{of['cold_read_kib'][0]:.0f}"] + [ranged(o["against_stock"].get(ONE_DRIVE, {}).get(arm), ".2f", False)
                                                   for o in [of, buffered] for arm in ARMS]
            for (setting, of), (_, buffered) in zip(direct, cached) if ONE_DRIVE in of["against_stock"] and of["seeds"] > 1]
    return table(["leaf KiB", "checkpoints", "files MiB", "host KiB/operation", "buffered", "cold read KiB", *ARMS.values(),
                  *(f"buffered: {arm}" for arm in ARMS.values())], rows)


def settings_larger(found):
    """Against MongoDB's own on a drive that has room for the smallest pages"""
    rows = []
    for setting in ["32:16:snappy:60", "8:16:snappy:60", "8:16:snappy:20", "4:16:snappy:60"]:
        cells = [found["waf"]["settings"][w + mode][setting]["against_stock"][LARGER]
                 for w in ["LB-Update-Only", "Y-Update-Only"] for mode in ["", "-cached"]]
        rows.append(setting_title(setting) + [ranged(of[arm], ".2f", False) for of in cells for arm in ["none", "auto+discard"]])
    return table(["leaf KiB", "checkpoints"] + [f"{w}{mode}{arm}" for w in ["LB-Update-Only", "Y-Update-Only"]
                                                for mode in ["", ", buffered"] for arm in [": no dsm", ": both"]], rows)


def operator(found):
    """README's: what an operator does, one after the other"""
    steps = [("MongoDB's own settings", STOCK, "none"),
             ("8 KiB leaf pages instead of 32, no dm-dsm", "8:16:snappy:60", "none"),
             ("dm-dsm's discards", STOCK, "none+discard"),
             ("8 KiB leaf pages and discards", "8:16:snappy:60", "none+discard"),
             ("the same, and streams", "8:16:snappy:60", "auto+discard")]
    rows = [[what] + [ranged(found["waf"]["settings"][w][setting]["against_stock"][ONE_DRIVE][arm], ".2f", False)
                      for w in ["LB-Update-Only", "LB-Update-Only-cached"]] for what, setting, arm in steps]
    return table(["", "direct I/O", "buffered I/O"], rows)


SERVER_IO = {"direct:{}:{}:3000": "direct", "cached:{}:{}:3000": "buffered, 30 s", "cached:{}:{}:20000": "buffered, 200 s"}


def server(found):
    """The intervals of a server, in virtual time"""
    rows = []
    for io, what in SERVER_IO.items():
        for seconds in [60, 180]:
            none, dsm = (found["server"][f"{io.format(8, seconds)}:{arm}"] for arm in ["none", "dsm"])
            rows.append([what, str(seconds)] +
                        [spread(of[name], ".2f") for name in ["host", "waf", "nand"] for of in [none, dsm]] +
                        [spread(none[name], form) for name, form in
                         [("p99_us", ",d"), ("p999_us", ",d"), ("checkpoint_seconds", ".2f"), ("journal_mib", ".1f"), ("recovery_seconds", ".1f")]])
    return table(["I/O", "interval s", "host writes: no dsm", "with dsm", "write amplification: no dsm", "with dsm", "NAND writes: no dsm", "with dsm",
                  "p99 us", "p99.9 us", "longest checkpoint s", "journal MiB", "recovery s"], rows)


def interval(found):
    """before.md's: fewer checkpoints, with large pages and with small ones"""
    rows = []
    for leaf in ["32", "8"]:
        for checkpoints in ["60", "20", "7"]:
            cells = [found["waf"]["settings"][w].get(f"{leaf}:16:snappy:{checkpoints}") for w in ["LB-Update-Only", "LB-Update-Only-cached"]]
            rows.append([leaf, INTERVALS_OF[checkpoints]] + [ranged(of["against_stock"].get(ONE_DRIVE, {}).get(arm), ".2f", False)
                                                             for of in cells for arm in ["none", "auto+discard"]] +
                        [ranged(of[name], form, False) for of in cells for name, form in
                         [("journal_mib", ".1f"), ("longest_checkpoint_s", ".1f")]])
    return table(["leaf KiB", "interval", "direct I/O: no dsm", "with dsm", "buffered I/O: no dsm", "with dsm",
                  "direct: journal MiB", "longest checkpoint s", "buffered: journal MiB", "longest checkpoint s"], rows)


INTERVALS_OF = {"60": "1", "20": "3 times", "7": "8.6 times"}
PACES = {"paced:alone": "at a pace, alone", "paced:slowed": "at a pace, with half a core",
         "free:alone": "as fast as can be, alone", "free:slowed": "as fast as can be, with half a core"}


# What half the range of three is multiplied with for the interval that has a fourth in 95 % of the cases: the range
# is 1.693 standard deviations, and Student's t with two degrees of freedom 4.303.
ANOTHER = 2 / 1.693 * 4.303 * (1 + 1 / 3) ** 0.5


def with_another(value, form, seeds):
    """Mean, and the interval around it for another recording; of one seed, its value"""
    if seeds == 1:
        return f"{value[0]:{form}}"
    assert seeds == 3
    return f"{value[0]:{form}} ±{ANOTHER * value[1]:{form}}"


def pace(found):
    """One line, recorded on machines of different speed"""
    rows = []
    for name, of in found["waf"]["pace"].items():
        rows.append([PACES.get(name, "at a pace, beside others"), str(of["seeds"])] +
                    [with_another(of[key], form, of["seeds"]) for key, form in
                     [("ops_per_second", ".0f"), ("run_mib", ".0f"), ("journal_mib", ".0f"), ("waf", ".3f")]] +
                    [with_another(of["saved"][arm], ".1f", of["seeds"]) for arm in ["auto", "none+discard", "auto+discard"]])
    return table(["recorded", "seeds", "operations/s", "MiB written", "journal MiB", "WAF, no dsm", "streams", "discards", "both"], rows)


def leaf_page_live(found):
    """What clients see of leaf pages, against pages of 32 KiB without streams and discards"""
    rows = []
    for kind, sizes in found["live"]["leaf_page"].items():
        if kind.endswith(" discards"):
            continue
        for setting, cells in sorted(sizes.items(), key=lambda of: [int(n) for n in of[0].split(" x")]):
            kib, _, longer = setting.partition(" x")
            rows.append([kind.split()[0], kib, longer or "1"] + [
                form(cells[policy][name]) for policy in ["none", "dsm+discard"]
                for name, form in [("ops_against_none_percent", lambda of: spread(of, "+d")),
                                   ("p99_against_none_percent", lambda of: f"{of[0]:+d}"), ("media_against_none_percent", lambda of: f"{of[0]:+d}")]])
    return table(["workload", "leaf KiB", "interval, times", "no dsm: operations/s, %", "p99, %", "NAND writes/operation, %",
                  "`dsm` with discards: operations/s, %", "p99, %", "NAND writes/operation, %"], rows)


def papers_deleted(found):
    """Where a drive keeps the pages of deleted files, and where they are discarded at once"""
    rows = []
    for w in SETS["PAPERS"]:
        of = found["papers"][w]["deleted"]
        waf_of = {files: {p: mean[0] for p, mean in wafs.items()} for files, wafs in of.items()}
        row = []
        for policy in ["none+discard", "life+discard"]:
            row += [fixed(100 * (1 - waf_of[files][policy] / waf_of[files]["none"]), 1) for files in of]
        journal = [1 - waf_of[files]["file:streams=2+discard"] / waf_of[files]["none"] for files in of]
        more = [1 - waf_of[files]["life+discard"] / waf_of[files]["none"] for files in of]
        rows.append([w] + row + [fixed(100 * (m - j), 1) for m, j in zip(more, journal)])
    return table(["", "discards, %: kept", "discarded", "both, %: kept", "discarded", "both, beyond a separate journal, points: kept", "discarded"], rows)


def papers_hot(found):
    hot = found["papers"]["hot"]
    rows = [[gc] + [fixed(100 * value, 1) for value in hot[gc].values()] for gc in SETS["GCS"]]
    return table(["GC"] + [f"`{p}`".replace(":streams=2`", "`, 2 streams").replace(":groups=2`", "`, 2 groups") for p in hot["greedy"]], rows)


# A row is of one policy, or of a combination of objects for each engine that has one.
ENGINES = {
    "none": "none", "a stream for the log: doublewrite buffer, WAL": {"MariaDB": "H1", "PostgreSQL": "W1"},
    "the paper's best combination of objects": {"MariaDB": "H1, H2, C1, C2", "PostgreSQL": "W1+W2, H, C"},
    "`filestream`": "filestream", "autostream-sfr": "autostream-sfr", "per-file": "per-file",
    "the shipped rules": "rules", "oracle": "oracle",
}


def engines(found):
    """WAF of other engines"""
    def waf(engine, policy):
        cells = cell(found, engine, "15 greedy", policy, "engines")
        return f"{cells[WAF]:.3f} ±{cells[SPREAD]:.3f}" if cells else ""

    rows = [[name] + [waf(engine, of if isinstance(of, str) else of.get(engine)) for engine in found["engines"]]
            for name, of in ENGINES.items()]
    return table(["policy"] + list(found["engines"]), rows)


def forecasts(found):
    """What "dsmctl free" says where a fifth is listed as free."""
    measures = {"leaves": "leaf pages of 8 KiB for collections in larger ones", "index_leaves": "leaf pages of 8 KiB for indexes",
                "interval": "three times the interval, buffered", "spare": "a tenth of the drive left empty",
                "discards": "discards, buffered", "discards_at_80": "discards, buffered, drive 80 % full",
                "streams": "streams"}
    rows = []
    for measure, name in measures.items():
        of = found["forecast"][measure]
        saves = forecast.saved(measure, of["saved"], 0.2, of["wider"])
        least, most = (fixed(100 * share, 0) for share in saves)
        known = "" if forecast.is_known(of, *saves) else ", cannot be foretold"
        rows.append([name, f"{least} to {most} %{known}", "{} of {}".format(*of["held"])])
    return table(["measure", "forecast", "held"], rows)


TABLES = {
    "expect": expect, "mongod": mongod, "granularity": granularity,
    "settings": settings, "settings-larger": settings_larger, "operator": operator, "interval": interval, "forecast": forecasts, "server": server, "pace": pace,
    "leaf-page-live": leaf_page_live, "live-papers": live_papers, "live-others": live_others, "live-edge": live_edge, "live-slow": live_slow,
    "live-beside": live_beside, "policies": policies, "drives": drives, "units": units,
    "papers-deleted": papers_deleted, "papers-hot": papers_hot, "engines": engines,
}
