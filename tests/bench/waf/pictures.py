# SPDX-License-Identifier: GPL-2.0-only
"""The pictures of Documentation/results.md."""

import json
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))
import look  # noqa: E402
import tables  # noqa: E402
import waf  # noqa: E402
from look import matplotlib, plt  # noqa: E402

SHOWN = ["none", "file", "boundary", "dsm", "life", "autostream-sfr", "filestream", "per-object", "oracle"]
MIB = 1 << 20


def save(figure, out, name):
    figure.tight_layout()
    look.save(figure, out / f"{name}.png")


def bars(axis, rows, policies, workloads, height, spread, bottom=0.0):
    """A group of bars, one for each policy, at each workload; "+discard": with it."""
    width = 0.8 / len(policies)
    for n, policy in enumerate(policies):
        name, _, discard = policy.partition("+")
        cells = [next(row for row in rows if (row["workload"], row["policy"], row["discard"])
                      == (w, name, bool(discard))) for w in workloads]
        axis.bar([at + n * width for at in range(len(workloads))], [height(c) for c in cells], width,
                 bottom=bottom, yerr=[spread(c) for c in cells], capsize=2, label=policy, **look.style(policy))
    axis.set_xticks([at + 0.4 - width / 2 for at in range(len(workloads))], workloads, rotation=15,
                    ha="right", fontsize=8)


def of_drive(rows, gc):
    """The rows of the drive that most is said of, or with other collection."""
    drive = waf.Drive(gc=gc)
    return [row for row in rows if waf.on(row, drive)], [tables.DIRECT + ["Many"], tables.CACHED + ["Many-cached"]]


def waf_bars(out, rows, gc):
    rows, parts = of_drive(rows, gc)
    figure, axes = plt.subplots(2, 1, figsize=(12, 8), sharey=True)
    for axis, workloads, what in zip(axes, parts, ["direct I/O", "buffered I/O"]):
        bars(axis, rows, SHOWN, workloads, lambda c: c["waf"] - 1, lambda c: c["spread"], bottom=1)
        axis.set_ylabel(look.lower(f"write amplification, {what}"))
    axes[0].set_ylim(top=axes[0].get_ylim()[1] + 0.3)
    axes[0].set_title(f"Over-provisioning 15 %, {gc} garbage collection; bars begin at 1, whiskers are the seeds")
    axes[0].legend(ncols=4, fontsize=8)
    save(figure, out, f"waf-{gc}")


def discards(out, rows, gc):
    """What a checkpoint's freed blocks are worth, alone and with streams."""
    rows, parts = of_drive(rows, gc)
    shown = ["none", "dsm", "life", "none+discard", "dsm+discard", "life+discard"]
    figure, axes = plt.subplots(2, 1, figsize=(12, 8), sharey=True)
    for axis, workloads, what in zip(axes, parts, ["direct I/O", "buffered I/O"]):
        bars(axis, rows, shown, workloads, lambda c: c["waf"] - 1, lambda c: c["spread"], bottom=1)
        axis.set_ylabel(look.lower(f"write amplification, {what}"))
    axes[0].set_title(f"Over-provisioning 15 %, {gc} garbage collection; bars begin at 1")
    axes[0].legend(ncols=4, fontsize=8)
    save(figure, out, "waf-discard")


def waf_over_time(dsmctl, out, recording):
    run = recording.simulate(dsmctl, SHOWN)
    figure, axis = plt.subplots(figsize=(9, 4))
    for policy in SHOWN:
        series = run[policy]["series"]
        # Means of ten samples: a sample is a few erase units.
        chunks = [series[n:n + 10] for n in range(0, len(series) - 9, 10)]
        axis.plot([c[-1][0] * 4096 / MIB for c in chunks],
                  [sum(s[1] for s in c) / len(c) for c in chunks], label=policy, color=look.COLOURS[policy])
    axis.axvline(run[None]["load_pages"] * 4096 / MIB, color="gray", linestyle=":")
    axis.set_xlabel("MiB written by the host (dotted: end of the load)")
    axis.set_ylabel(look.lower("write amplification"))
    axis.set_title(f"{recording.workload}, over-provisioning 0.15, greedy")
    axis.legend(ncols=2, fontsize=8)
    save(figure, out, "waf-time")


def streams(dsmctl, out, recording):
    counts = [2, 4, 6, 8, 10, 12]
    policies = ["dsm", "life", "per-file", "filestream", "autostream-sfr", "per-object", "oracle"]
    figure, axis = plt.subplots(figsize=(8, 4))
    points = {policy: [] for policy in policies}
    for count in counts:
        run = recording.simulate(dsmctl, ["none"] + policies, streams=count, op=0.28)
        for policy in policies:
            mine = run[policy]["waf"]
            points[policy].append(100 * (1 - mine / run["none"]["waf"]) if mine else float("nan"))
    for policy in policies:
        axis.plot(counts, points[policy], marker="o", label=policy, color=look.style(policy)["color"])
    axis.axhline(0, color="gray", linewidth=0.8)
    axis.set_xlabel("streams of the drive")
    axis.set_ylabel(look.higher("flash writes saved, %"))
    axis.set_title(f"{recording.workload}, over-provisioning 0.28, greedy")
    axis.legend(fontsize=8)
    save(figure, out, "streams")


def pattern(dsmctl, out, recording):
    """The papers' Figs. 3 and 8: offset against time, by kind of file."""
    idents = {i["ident"]: i for i in json.loads(recording.path.with_suffix(".idents").read_text())}
    boundary, writes, checkpoints, loaded, start = {}, {}, [], False, 0
    journal = 0
    for us, kind, rest in waf.events(dsmctl, recording.path):
        seconds = us / 1e6
        if kind == "L":
            loaded, start = True, seconds
        elif kind == "C":
            checkpoints.append(seconds - start)
        elif kind == "W":
            name, offset, length = rest[0], int(rest[1]), int(rest[2])
            if not loaded:
                boundary[name] = max(boundary.get(name, 0), offset + length)
                continue
            if "WiredTigerLog" in name:
                name, offset, journal = "journal", journal, journal + length
            writes.setdefault(name, []).append((seconds - start, (offset + length / 2) / MIB, length))

    def title(name):
        ident = idents.get(name.removesuffix(".wt"), {})
        return f"{ident.get('ns', name)} {ident.get('index', '')}".strip()

    def busiest(test):
        names = [n for n in writes if test(idents.get(n.removesuffix(".wt"), {}))]
        return sorted(names, key=lambda n: -sum(w[2] for w in writes[n]))

    collections = busiest(lambda i: i.get("type") == "collection")[:2]
    secondary = busiest(lambda i: i.get("type") == "index" and i.get("index") != "_id_")[:2]
    primary = busiest(lambda i: i.get("index") == "_id_")[:1]
    names = collections + secondary + primary + ["journal"]
    figure, axes = plt.subplots((len(names) + 1) // 2, 2, figsize=(11, 3 * ((len(names) + 1) // 2)),
                                squeeze=False)
    for axis in axes.flat[len(names):]:
        axis.set_visible(False)
    for axis, name in zip(axes.flat, names):
        points = writes.get(name, [])
        axis.scatter([p[0] for p in points], [p[1] for p in points], s=0.5, linewidths=0)
        if name in boundary:
            axis.axhline(boundary[name] / MIB, color="red", linestyle="--", linewidth=0.8)
        for at in checkpoints[::10]:
            axis.axvline(at, color="gray", linewidth=0.3)
        axis.set_title(title(name), fontsize=9)
        axis.set_xlabel("s", fontsize=8)
        axis.set_ylabel("offset, MiB", fontsize=8)
    figure.suptitle(f"{recording.workload}: writes as the device gets them; red: boundary, gray: each tenth checkpoint")
    save(figure, out, "pattern")


def groups(dsmctl, out, recording):
    """Which group each checkpoint gave to each region of collections and indexes."""
    idents = {i["ident"]: i for i in json.loads(recording.path.with_suffix(".idents").read_text())}
    policies = ["dsm", "dsm:prediction=off"]
    run = recording.simulate(dsmctl, policies)
    figure, axes = plt.subplots(1, len(policies), figsize=(13, 5), sharey=True)
    colours = matplotlib.colors.ListedColormap(["#0072b2", "#f0e442", "#d55e00", "#999999"])
    for axis, policy in zip(axes, policies):
        regions = sorted((r for r in run[policy]["regions"] if r["class"] in ["collection", "index"]),
                         key=lambda r: (r["class"], r["file"], r["side"]))
        width = max(r["from"] + len(r["groups"]) for r in regions)
        cells = [[float("nan")] * r["from"] + [4 if g == 255 else g for g in r["groups"]]
                 for r in regions]
        image = axis.imshow([row + [float("nan")] * (width - len(row)) for row in cells], aspect="auto",
                            interpolation="nearest", cmap=colours, vmin=0.5, vmax=4.5)
        labels = []
        for region in regions:
            ident = idents.get(region["file"].removesuffix(".wt"), {})
            name = ident.get("ns", region["file"]).split(".")[-1]
            index = ident.get("index", "")
            index = index if len(index) < 24 else index[:20] + "..."
            labels.append(f"{name} {index} {region['side']}".replace("  ", " "))
        axis.set_yticks(range(len(labels)), labels, fontsize=7)
        axis.set_title(policy, fontsize=9)
        axis.set_xlabel("checkpoint")
    bar = figure.colorbar(image, ax=axes, ticks=[1, 2, 3, 4], shrink=0.6)
    bar.ax.set_yticklabels(["1, coldest", "2", "3, hottest", "primary"])
    figure.suptitle(f"{recording.workload}: the group of each region after each checkpoint", fontsize=10)
    look.save(figure, out / "groups.png", bbox_inches="tight")


def leaf_pages(dsmctl, out, recordings, names):
    """The papers' Fig. 13: what an operation makes the flash write."""
    figure, axes = plt.subplots(1, len(names), figsize=(5 * len(names), 4), squeeze=False)
    for axis, (large, small) in zip(axes.flat, names):
        for n, name in enumerate([large, small]):
            recording = recordings[name][0]
            ops = json.loads(recording.path.with_suffix(".json").read_text())["ops"]
            run = recording.simulate(dsmctl, SHOWN)
            written = run[None]["run_pages"] * 4096
            bars = [written * run[p]["waf"] / ops / 1024 for p in SHOWN]
            axis.bar([at + 0.4 * n for at in range(len(SHOWN))], bars, 0.4, label=["32 KiB", "4 KiB"][n],
                     color=["#555555", "#bbbbbb"][n])
        axis.set_xticks([at + 0.2 for at in range(len(SHOWN))], SHOWN, rotation=30, ha="right", fontsize=8)
        axis.set_title(large)
        axis.set_ylabel(look.lower("KiB written to flash an operation"))
        axis.set_ylim(top=1.3 * axis.get_ylim()[1])
        axis.legend(title="leaf pages", ncols=2)
    save(figure, out, "leaf-pages")


def intervals(out, rows):
    """What is saved by how much is written from checkpoint to checkpoint."""
    figure, axes = plt.subplots(1, 2, figsize=(12, 4.5), sharey=True)
    for axis, mode, what in zip(axes, ["", "-cached"], ["direct I/O", "buffered I/O"]):
        for policy, fill in [("none+discard", 1), ("life+discard", 1), ("life", 1), ("none+discard", 0.8)]:
            name, _, discard = policy.partition("+")
            mine = [row for row in rows if waf.on(row, waf.Drive(fill=fill)) and row["policy"] == name
                    and row["discard"] == bool(discard)]
            points = sorted((row["interval_share"], row["gain"]) for row in mine for each in tables.INTERVALS
                            if row["workload"] == "LB-Update-Only" + each + mode)
            axis.plot([100 * x for x, _ in points], [100 * y for _, y in points],
                      linestyle="-" if fill == 1 else ":", marker="s" if discard else "o",
                      label=policy.replace("none+discard", "discards").replace("+discard", " and discards")
                      + (", drive 80 % full" if fill < 1 else ""), color=look.COLOURS[name])
        axis.set_xscale("log")
        axis.set_xticks([1, 2, 5, 10, 20, 40], ["1", "2", "5", "10", "20", "40"])
        axis.minorticks_off()
        axis.axhline(0, color="gray", linewidth=0.8)
        axis.set_xlabel("written from checkpoint to checkpoint, % of the database")
        axis.set_title(f"LB-Update-Only, {what}")
    axes[0].set_ylabel(look.higher("flash writes saved, %"))
    axes[0].legend(fontsize=8)
    save(figure, out, "intervals")


def draw(dsmctl, out, recordings, rows):
    for gc in ["greedy", "cost-benefit"]:
        waf_bars(out, rows, gc)
    discards(out, rows, "greedy")
    intervals(out, rows)
    first = recordings.get("LB-Update-Only", next(iter(recordings.values())))[0]
    waf_over_time(dsmctl, out, first)
    streams(dsmctl, out, first)
    pattern(dsmctl, out, first)
    groups(dsmctl, out, first)
    pairs = [(name, f"{name}-4K") for name in recordings if f"{name}-4K" in recordings]
    if pairs:
        leaf_pages(dsmctl, out, recordings, pairs)
