# SPDX-License-Identifier: GPL-2.0-only
"""Counterparts of the DSM paper's Figs. 3, 5 and 8."""

import json
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))
import look  # noqa: E402
import papers  # noqa: E402
from look import matplotlib, plt  # noqa: E402

MIB = 1 << 20
# Checkpoints that are in view, and how many go before them
VIEW, SKIPPED = 6, 20
FIGURE_5 = ["boundary", "dsm"]


def title(idents, name):
    ident = idents.get(name.removesuffix(".wt"), {})
    return f"{ident.get('ns', name).split('.')[-1]} {ident.get('index', '')}".strip()[:28]


def in_view(trace):
    """From one checkpoint to the sixth after it: the writes with their windows, and the times."""
    window, writes, ends = 0, [], []
    for us, kind, rest in trace.run:
        if kind == "C":
            window += 1
            if SKIPPED <= window <= SKIPPED + VIEW:
                ends.append(us / 1e6)
        elif kind == "W" and SKIPPED <= window < SKIPPED + VIEW:
            writes.append((window, us / 1e6, rest[0], int(rest[1]), int(rest[2])))
    return writes, ends


def pattern(out, recording, trace, idents):
    """Figs. 3 and 8: offset against time."""
    writes, ends = in_view(trace)
    of = {}
    for _, seconds, name, offset, length in writes:
        of.setdefault("journal" if "WiredTigerLog" in name else name, []).append((seconds, offset, length))
    journal = 0
    for n, (seconds, _, length) in enumerate(of.get("journal", [])):
        of["journal"][n], journal = (seconds, journal, length), journal + length

    def busiest(test):
        names = [name for name in of if test(idents.get(name.removesuffix(".wt"), {}))]
        return sorted(names, key=lambda name: -sum(w[2] for w in of[name]))

    secondary = busiest(lambda i: i.get("type") == "index" and i.get("index") != "_id_")[:1]
    names = busiest(lambda i: i.get("type") == "collection")[:3] + secondary
    names += busiest(lambda i: i.get("index") == "_id_")[:1] + ["journal"]
    figure, axes = plt.subplots((len(names) + 1) // 2, 2, figsize=(11, 3 * ((len(names) + 1) // 2)), squeeze=False)
    for axis in axes.flat[len(names):]:
        axis.set_visible(False)
    for axis, name in zip(axes.flat, names):
        axis.scatter([w[0] for w in of[name]], [(w[1] + w[2] / 2) / MIB for w in of[name]], s=1.5, linewidths=0)
        if name in trace.boundary:
            axis.axhline(trace.boundary[name] / MIB, color="red", linestyle="--", linewidth=0.8)
        for at in ends:
            axis.axvline(at, color="gray", linewidth=0.8)
        axis.set_title(title(idents, name), fontsize=9)
        axis.set_xlabel("s", fontsize=8)
        axis.set_ylabel("offset, MiB", fontsize=8)
    figure.suptitle(f"{recording.workload}: writes as the device gets them; red: boundary, gray: checkpoints")
    figure.tight_layout()
    look.save(figure, out / "papers-pattern.png")


def streams(dsmctl, out, recording, trace, idents):
    """Fig. 5: collections and indexes one above the other, coloured by their streams, and the
    stream that most is written to, coloured by file."""
    run = recording.simulate(dsmctl, ["none"] + FIGURE_5)
    writes, ends = in_view(trace)
    files = sorted({w[2] for w in writes if w[2] in trace.boundary and w[2].startswith(("collection", "index"))})
    base, at = {}, 0
    for name in files:
        base[name], at = at, at + max(w[3] + w[4] for w in writes if w[2] == name)
    figure, axes = plt.subplots(len(FIGURE_5), 2, figsize=(12, 4 * len(FIGURE_5)), squeeze=False, sharex=True, sharey=True)
    for row, policy in zip(axes, FIGURE_5):
        sides = {(r["file"], r["side"] == "top"): r for r in run[policy]["regions"]}
        by_stream, by_file = {}, {}
        for window, seconds, name, offset, length in writes:
            side = sides.get((name, offset >= trace.boundary.get(name, 0)))
            if name not in base or side is None or window - 1 < side["from"]:
                continue
            stream = side["streams"][window - 1 - side["from"]]
            point = seconds, (base[name] + offset + length / 2) / MIB, length
            by_stream.setdefault(stream, []).append(point)
            by_file.setdefault((stream, name), []).append(point)
        most = max(by_stream, key=lambda s: sum(p[2] for p in by_stream[s]))
        for axis, groups, label in [
            (row[0], sorted(by_stream.items()), lambda s: f"stream {s}"),
            (row[1], [(name, points) for (s, name), points in sorted(by_file.items()) if s == most],
             lambda name: title(idents, name)),
        ]:
            for n, (key, points) in enumerate(groups):
                axis.scatter([p[0] for p in points], [p[1] for p in points], s=1.5, linewidths=0, label=label(key),
                             color=matplotlib.colormaps["tab10"](n % 10))
            for end in ends:
                axis.axvline(end, color="gray", linewidth=0.8)
            axis.legend(fontsize=7, markerscale=6, loc="upper right")
            axis.set_xlabel("s", fontsize=8)
        row[0].set_ylabel("offset, files one above the other, MiB", fontsize=8)
        row[0].set_title(f"{policy}: all streams", fontsize=9)
        row[1].set_title(f"{policy}: stream {most}, by file", fontsize=9)
    figure.suptitle(f"{recording.workload}; gray: checkpoints")
    figure.tight_layout()
    look.save(figure, out / "papers-streams.png")


def draw(dsmctl, out, recordings):
    for workload, how in [("LB-Mixed", pattern), ("LB-Update-Only", lambda *a: streams(dsmctl, *a))]:
        if workload in recordings:
            recording = recordings[workload][0]
            idents = {i["ident"]: i for i in json.loads(recording.path.with_suffix(".idents").read_text())}
            how(out, recording, papers.Trace(dsmctl, recording.path), idents)
