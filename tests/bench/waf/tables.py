# SPDX-License-Identifier: GPL-2.0-only
"""The tables of README.md, and of Documentation results.md and results-clients.md, from Documentation/figures."""

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
        "STEADY": ["LB-Mixed", "LB-Update-Only", "LB-Update-Only-timed", "Y-Update-Only", "Many"], "GCS": ["greedy", "cost-benefit"],
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


def expect_both(found):
    """README's: the same with streams and discards."""
    rows = []
    for each in INTERVALS:
        w = "LB-Update-Only" + each
        rows.append([f"{100 * found['waf'][w]['interval_share']:.0f}"]
                    + [saved_round(cell(found, w + mode, FIRST + full, "auto+discard"))
                       for mode in ["", "-cached"] for full in ["", " 80"]])
    return table(["rewritten, %", "direct I/O", "drive 80 % full", "buffered I/O", "drive 80 % full"], rows)


def mongod(found):
    """What was recorded below a real mongod."""
    kinds = ["interval", "listed", "waf", "streams", "discards", "both", "at_80", "op_7", "op_28"]
    rows = [[name] + [f"{of['waf']:.2f}" if kind == "waf" else fixed(100 * of[kind + "_share"], 0) for kind in kinds]
            for name, of in found["mongod"].items()]
    return table(["workload", "rewritten, %", "avail list, %", "WAF without", "streams (`life`)", "discards", "both",
                  "discards, drive 80 % full", "discards, 7 % OP", "discards, 28 % OP"], rows)


def expect_workloads(found):
    """The same by workload."""
    rows = []
    for w in DIRECT + ["Many"]:
        row = [w]
        for mode in ["", "-cached"]:
            row += [saved_round(cell(found, w + mode, FIRST, p)) for p in ["auto", "none+discard", "auto+discard"]]
        rows.append(row)
    return table(["workload", "streams", "discards", "both", "buffered: streams", "discards", "both"], rows)


def granularity(found):
    """By what discards are multiples of: what they save alone."""
    ways = {"": "", " at 4K": ", from any 4 KiB on"}
    workloads = [w + cached for w in ["LB-Update-Only", "LB-Mixed", "Y-Update-Only"] for cached in ["", "-cached"]]
    rows = [[f"{n} KiB{said}"] + [saved_round(cell(found, w, f"{FIRST} in {n}K{way}", "none+discard")) for w in workloads]
            for n in [4, 16, 32, 64, 128] for way, said in ways.items() if n > 16 or not way]
    return table(["discards in"] + [title(w) + ", cached" * w.endswith("-cached") for w in workloads], rows)


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
    return table(["database", "unit", "OP, %", "units", "WAF, `none`", "`file`, 2 streams", "`file`", "`boundary`", "`dsm`", "`life`, K = 2", "`life`",
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


# Papers' Figs. 10 and 11: at most, in per cent of what there is without: throughput and 99th
# percentile of `boundary` and `dsm`, which they have for LinkBench only. The last has two seeds here.
PAPERS = {"LB-Original": ((23, 37), (-24, -28)), "LB-Mixed": ((28, 51), (-17, -32)),
          "LB-Update-Only": ((44, 65), (-25, -46)), "Y-Update-Heavy": ((23, None), (-29, None)),
          "Y-Update-Only": ((44, None), (-29, None))}
LIVE_CORE = [f"{workload} direct 15%" for workload in DIRECT] + [f"{workload} cached 15%" for workload in DIRECT[:4]]
LIVE_ARMS = ["LB-Update-Only direct 7%", "LB-Mixed direct 7%"] + [
    "LB-Update-Only direct 15%" + arm for arm in [" 40 clients", " 2 ms", " 40 clients 2 ms", " SLC"]]
LIVE_CACHES = {f"{mb} MB": "LB-Update-Only direct 15%" + f" {mb} MB" * (mb != 20) for mb in [20, 40, 80]}
AGAINST = {"operations/s": "ops_against_none_percent", "99th percentile": "p99_against_none_percent",
           "flash/operation": "media_against_none_percent"}
LIVE_POLICIES = ["file", "boundary", "dsm", "per-object", "none+discard", "dsm+discard"]


def live_policy(policy):
    return f"`{policy.partition('+')[0]}`" + " with discards" * policy.endswith("+discard")


def live_kind(kind):
    workload, cache, op, *arm = kind.split()
    return ", ".join([workload] + ["cached"] * (cache == "cached") + [f"{op[:-1]} % OP"] * (op != "15%")
                     + [" ".join(arm).replace(" 2 ms", ", 2 ms").replace("SLC", "SLC drive")] * bool(arm))


def live(kind):
    """What came to the clients, on the live drive: a row for each policy"""
    def rows(found):
        for policy, cells in found["live"][kind].items():
            yield [live_policy(policy)] + [spread(cells[name], form) if name in cells else "" for name, _, form in LIVE]
    return lambda found: table([""] + [title for _, title, _ in LIVE], list(rows(found)))


def live_all(name, form, against, title):
    """One figure everywhere: what it is without streams and discards, and what it is against that"""
    def rows(found):
        for kind in LIVE_CORE + LIVE_ARMS:
            cells = found["live"][kind]
            yield [live_kind(kind), spread(cells["none"][name], form)] + [
                spread(cells[policy][against], "+d") if policy in cells else "" for policy in LIVE_POLICIES]
    return lambda found: table(["", f"`none`: {title}"] + [live_policy(p) + ", %" for p in LIVE_POLICIES], list(rows(found)))


def live_life(found):
    """Policy life beside the others"""
    policies = ["file", "dsm", "life", "none+discard", "dsm+discard", "life+discard"]
    rows = [[workload, title] + [spread(found["live"][f"{workload} direct 15%"][p][name], "+d") for p in policies]
            for workload in ["LB-Mixed", "LB-Update-Only"]
            for title, name in [("operations/s", "ops_against_none_percent"), ("p99", "p99_against_none_percent"),
                                ("flash/operation", "media_against_none_percent")]]
    return table(["", ""] + [live_policy(p) for p in policies], rows)


def live_caches(found):
    """Caches of several sizes: throughput, and what policies change"""
    policies = ["boundary", "dsm", "none+discard", "dsm+discard"]
    rows = []
    for what, name in list(AGAINST.items())[:2]:
        of = {"operations/s": "ops_per_second", "99th percentile": "p99_us"}[what]
        for mb, kind in LIVE_CACHES.items():
            cells = found["live"][kind]
            rows.append([what, mb, spread(cells["none"][of], ",")] + [spread(cells[p][name], "+d") for p in policies])
    return table(["", "cache", "`none`: operations/s, or us"] + [live_policy(p) + ", %" for p in policies], rows)


def live_beside(policy):
    """One policy beside none, with its seeds"""
    def rows(found):
        for workload in ["LB-Update-Only", "Y-Update-Heavy"]:
            of = found["live"][f"{workload} direct 15%"][policy]
            yield [workload, str(len(of["seeds"]))] + [spread(of[name], "+d") for name in AGAINST.values()]
    return lambda found: table(["against `none`", "seeds"] + [f"{what}, %" for what in AGAINST], list(rows(found)))


def live_slow(found):
    """Drives that take some time for each discard"""
    values = [("ops_per_second", ",d"), ("p99_us", ",d"), ("p999_us", ",d"), ("discards_per_1000_ops", ",d"), ("discard_kib", ",d")]
    kind, rows = "LB-Update-Only direct 15%", []
    for leaf, of in [("32", lambda k: found["live"][k]), ("8", lambda k: found["live"]["leaf_page"][k]["8"])]:
        rows.append([leaf, "no discards"] + [spread(of(kind)["none"][name], form) if name in of(kind)["none"] else "" for name, form in values])
        for time in ["0us", "100us", "1ms", "10ms"]:
            cells = of(f"{kind} {time} discards")["none+discard"]
            rows.append([leaf, time.replace("us", " us").replace("ms", " ms")] + [spread(cells[name], form) for name, form in values])
    return table(["leaf KiB", "a discard takes", "operations/s", "p99 us", "p99.9 us", "discards/1,000 operations", "KiB/discard"], rows)


def live_papers(found):
    """Beside what the papers have at most"""
    rows = []
    for at, (what, name) in enumerate([("throughput", "ops_against_none_percent"), ("99th percentile", "p99_against_none_percent")]):
        for workload, papers in PAPERS.items():
            here = {p: spread(found["live"][f"{workload} direct 15%"][p][name], "+d") for p in LIVE_POLICIES}
            boundary, dsm = (f"{n:+d}" if n else "" for n in papers[at])
            rows.append([f"{what}, {workload}", boundary, here["boundary"], dsm, here["dsm"], here["none+discard"], here["dsm+discard"]])
    return table(["", "papers: `boundary`", "here", "papers: `dsm`", "here", "here: `none` with discards", "here: `dsm` with discards"], rows)


STOCK = "32:16:snappy:60"
# Pages of the drives of tests/bench/waf/settings.py
ONE_DRIVE, LARGER = "41100", "57344"
# With discards in pieces of 4 KiB, and of 16
ARMS = {"none": "no dsm", "none+discard": "discards", "auto": "streams", "auto+discard": "both",
        "none+discard 16K": "discards in 16 KiB", "auto+discard 16K": "both in 16 KiB"}


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


def settings(workload):
    """NAND writes of each setting against MongoDB's own, on one drive"""
    def made(found):
        rows = [setting_title(setting) + [str(of["seeds"])] +
                [ranged(of["against_stock"].get(ONE_DRIVE, {}).get(arm), ".2f", of["seeds"] > 1) for arm in ARMS]
                for setting, of in settings_of(found, workload)]
        return table(["leaf KiB", "checkpoints", "seeds", *ARMS.values()], rows)
    return made


def settings_costs(workload):
    """What each setting costs beside NAND writes"""
    def made(found):
        head = ["leaf KiB", "checkpoints", "files MiB", "host KiB/operation", "journal MiB", "mean checkpoint s", "longest s",
                "cold read KiB", "scan MiB"]
        rows = []
        for setting, of in settings_of(found, workload):
            several = of["seeds"] > 1
            rows.append(setting_title(setting) + [ranged(of[name], form, several) for name, form in [
                ("files_mib", ".0f"), ("host_kib", ".1f"), ("journal_mib", ".1f"), ("checkpoint_s", ".2f"),
                ("longest_checkpoint_s", ".2f"), ("cold_read_kib", ".1f"), ("scan_mib", ".0f")]])
        return table(head, rows)
    return made


def settings_larger(found):
    """Against MongoDB's own on a drive that has room for the smallest pages"""
    rows = []
    for workload in found["waf"]["settings"]:
        for setting, of in settings_of(found, workload):
            cells = of["against_stock"].get(LARGER, {})
            if "8" not in setting.split(":")[1] and "zstd" not in setting:
                rows.append([workload, *setting_title(setting)] + [ranged(cells.get(arm), ".2f", of["seeds"] > 1)
                                                                   for arm in ["none", "none+discard", "auto+discard"]])
    return table(["workload", "leaf KiB", "checkpoints", "no dsm", "discards", "both"], rows)


def operator(found):
    """README's: what an operator does, one after the other"""
    steps = [("MongoDB's own settings", STOCK, "none"),
             ("discards and streams", STOCK, "auto+discard"),
             ("8 KiB leaf pages, no dsm", "8:16:snappy:60", "none"),
             ("8 KiB leaf pages, discards and streams", "8:16:snappy:60", "auto+discard"),
             ("8 KiB leaf pages, three times the interval, no dsm", "8:16:snappy:20", "none"),
             ("8 KiB leaf pages, three times the interval, discards and streams", "8:16:snappy:20", "auto+discard"),
             ("the same, with 8 KiB leaf pages of the indexes, too", "8:8:snappy:20", "auto+discard")]
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
    values = ["ops_against_none_percent", "p99_against_none_percent", "media_against_none_percent"]
    rows = []
    for kind, sizes in found["live"]["leaf_page"].items():
        if kind.endswith(" discards"):
            continue
        for setting, cells in sorted(sizes.items(), key=lambda of: [int(n) for n in of[0].split(" x")]):
            kib, _, longer = setting.partition(" x")
            for policy, of in cells.items():
                rows.append([kind.split()[0], kib, longer or "1", live_policy(policy)] + [spread(of[name], "+d") for name in values])
    return table(["workload", "leaf KiB", "interval, times", "", "operations/s, %", "99th percentile, %", "NAND writes/operation, %"], rows)


PLAYED = ["LB-Mixed", "LB-Update-Only", "Y-Update-Only", "Many"]
PACED = PLAYED + ["LB-Update-Only-paced", "LB-Update-Only-timed"]


def percent(value, digits=1):
    """Mean and half the range"""
    return f"{fixed(100 * value[0], digits)} ±{fixed(100 * value[1], digits)}"


def papers_blocks(found):
    """The boundary paper's Table 2: writes by the types of pages, of all to collections and indexes"""
    kinds = [f"{of} {kind}" for of in ["collection", "index"] for kind in ["root", "internal", "leaf", "extent"]]
    paper = {"Y-Update-Only": ["YCSB", 5e-5, 0.27, 99.72, 9.3e-5, 0, 0, 0, 0],
             "LB-Update-Only": ["LinkBench", 7e-5, 0.61, 39.86, 14e-5, 13e-5, 0.28, 59.23, 26e-5]}
    rows = []
    for w, (name, *shares) in paper.items():
        blocks = found["papers"][w]["blocks"]
        rows.append([name + ", paper"] + [f"{n:.5f}".rstrip("0").rstrip(".") for n in shares])
        rows.append([w] + [f"{100 * blocks[kind] / sum(blocks.values()):.2f}" for kind in kinds])
    return table(["%", "collections: root", "internal", "leaf", "extent list", "indexes: root", "internal", "leaf", "extent list"], rows)


def papers_when(found):
    """Savings where streams are computed at the end of a checkpoint, and at its beginning"""
    policies = ["dsm", "dsm:prediction=off", "life"]
    rows = [[w, gc] + [percent(found["papers"][w]["saved"][gc][f"{p}{at}{discard}"])
                       for discard in ["", "+discard"] for p in (policies if not discard else ["dsm", "life"])
                       for at in ["", f"{',' if ':' in p else ':'}when=begin"]]
            for w in PACED for gc in SETS["GCS"]]
    return table(["", "GC"] + [head for p in ["`dsm`", "prediction off", "`life`", "discards, `dsm`", "discards, `life`"]
                               for head in [f"{p}: end", "begin"]], rows)


def papers_predictions(found):
    """How often the group that a region was given was the one that the window has shown"""
    rows = []
    for p, what in {"dsm": "Fig. A.5", "dsm:prediction=computed": "against the computed stream",
                    "dsm:prediction=off": "none: the group of the window before", "dsm:when=begin": "Fig. A.5, from the beginning",
                    "life": "`life`: the group of the window before"}.items():
        cells = [found["papers"][w]["predictions"][p] for w in PLAYED]
        rows.append([what] + [f"{100 * c[f'right_{n}'] / c[n]:.0f}" for c in cells for n in ["regions", "pages"]])
    return table(["prediction"] + [head for w in PLAYED for head in [f"{w}: regions", "pages"]], rows)


def papers_filter(found):
    arms = {"boundary": "`boundary`", "dsm": "`dsm`", "dsm:primary_filter=off": "`dsm`, no primary filter"}
    rows = [[what, gc] + [percent(found["papers"][w]["filter"][gc][p]) for w in PLAYED] for gc in SETS["GCS"] for p, what in arms.items()]
    return table(["", "GC"] + PLAYED, rows)


def papers_periods(found):
    rows = [[w, gc] + [percent(value) for value in found["papers"][w]["period"][gc].values()] for w in PLAYED for gc in SETS["GCS"]]
    return table(["", "GC"] + [f"T = {n}" for n in found["papers"][PLAYED[0]]["period"]["greedy"]], rows)


def papers_counts(found):
    rows = [[gc, what] + [percent(found["papers"][w]["count"][gc][what]) for w in PACED] for gc in SETS["GCS"] for what in ["requests", "pages"]]
    return table(["GC", "a modification is one of"] + PACED, rows)


def papers_mixed(found):
    rows = [[gc] + [fixed(100 * value, 1) for value in found["papers"]["mixed"][gc].values()] for gc in SETS["GCS"]]
    return table(["GC"] + [f"`{p}`".replace(":streams=2`", "`, 2 streams") for p in found["papers"]["mixed"]["greedy"]], rows)


def papers_deleted(found):
    """Where a drive keeps the pages of deleted files, and where they are discarded at once"""
    rows = []
    for w in PACED:
        of = found["papers"][w]["deleted"]
        waf_of = {files: {p: mean[0] for p, mean in wafs.items()} for files, wafs in of.items()}
        row = [f"{waf_of[files]['none']:.2f}" for files in of]
        for policy in ["none+discard", "life", "life+discard"]:
            row += [fixed(100 * (1 - waf_of[files][policy] / waf_of[files]["none"]), 1) for files in of]
        journal = [1 - waf_of[files]["file:streams=2+discard"] / waf_of[files]["none"] for files in of]
        more = [1 - waf_of[files]["life+discard"] / waf_of[files]["none"] for files in of]
        rows.append([w] + row + [fixed(100 * (m - j), 1) for m, j in zip(more, journal)])
    return table(["", "WAF without: kept", "discarded", "discards, %: kept", "discarded", "streams, %: kept", "discarded",
                  "both, %: kept", "discarded", "both, beyond a separate journal, points: kept", "discarded"], rows)


def papers_hot(found):
    hot = found["papers"]["hot"]
    rows = [[gc] + [fixed(100 * value, 1) for value in hot[gc].values()] for gc in SETS["GCS"]]
    return table(["GC"] + [f"`{p}`".replace(":streams=2`", "`, 2 streams").replace(":groups=2`", "`, 2 groups") for p in hot["greedy"]], rows)


def papers_premises(found):
    rows = []
    for w in PACED:
        of = found["papers"][w]
        usm = [f"{of['usm']['files'][0]:.0f}", f"{of['usm']['rank_correlation'][0]:.2f}"] if of["usm"] else ["-", "-"]
        inside = [f"{100 * of['checkpoint'][what][0]:.0f}" for what in ["bytes_share", "time_share"]]
        rows.append([w, f"{of['swaps']['windows']}", f"{100 * of['swaps']['swap_share'][0]:.0f}"] + usm + inside)
    return table(["", "pairs of windows", "the hotter side changes, %", "files", "USM: rank correlation",
                  "written during checkpoints, %", "time in checkpoints, %"], rows)


TABLES = {
    "papers-blocks": papers_blocks, "papers-when": papers_when, "papers-predictions": papers_predictions,
    "papers-filter": papers_filter, "papers-periods": papers_periods, "papers-mixed": papers_mixed,
    "papers-hot": papers_hot, "papers-deleted": papers_deleted,
    "papers-premises": papers_premises, "papers-counts": papers_counts,
    "leaf-page-live": leaf_page_live, "live-caches": live_caches, "live-slow": live_slow, "live-audit": live_beside("none+audit"),
    "live-filestream": live_beside("filestream"),
    "settings-larger": settings_larger, "interval": interval, "server": server, "operator": operator, "pace": pace,
    "live-papers": live_papers, "live-life": live_life,
    "live-ops": live_all("ops_per_second", ",d", "ops_against_none_percent", "operations/s"),
    "live-p99": live_all("p99_us", ",d", "p99_against_none_percent", "p99 us"),
    "live-media": live_all("media_kib_per_op", ".1f", "media_against_none_percent", "KiB of flash/operation"),
    "expect": expect, "expect-both": expect_both, "mongod": mongod, "expect-workloads": expect_workloads,
    "granularity": granularity, "shares": shares, "waf-direct": wafs(DIRECT),
    "waf-cached": wafs(CACHED), "drives-direct": drives(DIRECT), "drives-cached": drives(CACHED), "units": units,
    "others": others, "variants": variants, "life": life, "leaves": leaves,
}
TABLES |= {"live-" + kind.replace(" ", "-"): live(kind) for kind in LIVE_CORE + LIVE_ARMS}
SETTINGS = {"lb": "LB-Update-Only", "lb-cached": "LB-Update-Only-cached", "y": "Y-Update-Only", "y-cached": "Y-Update-Only-cached"}
TABLES |= {f"settings-{name}": settings(SETTINGS[name]) for name in ["lb", "lb-cached"]}
TABLES |= {f"settings-{name}-costs": settings_costs(workload) for name, workload in SETTINGS.items()}
