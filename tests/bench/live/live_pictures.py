# SPDX-License-Identifier: GPL-2.0-only
"""The pictures of the live drive."""

import statistics
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))
import look  # noqa: E402
from look import plt  # noqa: E402

SHOWN = [("ops_per_second", "operations a second", True), ("p99_us", "99th percentile, us", False),
         ("p999_us", "99.9th percentile, us", False), ("waf", "write amplification", False)]
# In this order, then the same with discards
POLICIES = [(policy, discard) for discard in (False, True)
            for policy in ("none", "file", "boundary", "dsm", "per-object")]
WORKLOADS = ["LB-Original", "LB-Mixed", "LB-Update-Only", "Y-Update-Heavy"]
# The core of the matrix, beside which the arms change one thing
CORE = {"op": 0.15, "clients": 8, "think_us": 0, "drive": "tlc", "cache_mb": 20, "leaf_page": 32, "interval": 1}
ARMS = [({}, "15 % OP\n8 clients"), ({"op": 0.07}, "7 % OP"), ({"clients": 40, "cache_mb": 80}, "40 clients"),
        ({"think_us": 2000}, "2 ms between\noperations"),
        ({"clients": 40, "cache_mb": 80, "think_us": 2000}, "40 clients, 2 ms\nbetween operations"),
        ({"drive": "slc"}, "the SLC drive")]


def name_of(policy, discard):
    return policy + "+discard" * discard


def of(rows, wanted):
    return [r for r in rows if all(r[k] == v for k, v in wanted.items())]


def bars(axis, groups, policies, value, labelled):
    """GROUPS are lists of rows; whiskers go from the least seed to the most."""
    width = 0.8 / len(policies)
    for n, (policy, discard) in enumerate(policies):
        for at, rows in enumerate(groups):
            seeds = [r[value] for r in of(rows, {"policy": policy, "discard": discard})]
            if not seeds:
                continue
            middle = statistics.median(seeds)
            label = name_of(policy, discard)
            axis.bar(at + n * width, middle, width, **look.style(label), label=None if label in labelled else label,
                     yerr=[[middle - min(seeds)], [max(seeds) - middle]], capsize=2, error_kw={"linewidth": 1})
            labelled.add(label)


def draw_groups(path, title, groups):
    """GROUPS: (label, rows) each"""
    groups = [(label, rows) for label, rows in groups if rows]
    present = {(r["policy"], r["discard"]) for _, rows in groups for r in rows}
    policies = [p for p in POLICIES if p in present]
    if not policies:
        return
    count = max(len(of(rows, {"policy": p, "discard": d})) for _, rows in groups for p, d in policies)
    figure, axes = plt.subplots(len(SHOWN), 1, figsize=(max(7, 1.5 + 2.2 * len(groups)), 11), sharex=True)
    for axis, (value, what, more) in zip(axes, SHOWN):
        bars(axis, [rows for _, rows in groups], policies, value, set())
        if value == "p999_us":
            axis.set_yscale("log")
            axis.set_ylim(bottom=1000)
        axis.set_ylabel((look.higher if more else look.lower)(what), fontsize=9)
        axis.spines[["top", "right"]].set_visible(False)
    axes[-1].set_xticks([at + 0.4 - 0.4 / len(policies) for at in range(len(groups))], [label for label, _ in groups],
                        fontsize=9)
    axes[0].set_title(f"{title}\nmedians of up to {count} seeds, whiskers from the least to the most", fontsize=9,
                      pad=34)
    axes[0].legend(ncols=len(policies), fontsize=8, loc="lower center", bbox_to_anchor=(0.5, 1.0), frameon=False,
                   columnspacing=1, handlelength=1.2)
    figure.tight_layout()
    look.save(figure, path)


def draw(out, rows):
    for cache, how in (("direct", "direct"), ("cached", "buffered")):
        core = of(rows, CORE | {"cache": cache})
        draw_groups(out / f"live-{cache}.png", f"{how.capitalize()} I/O, 15 % over-provisioning, 8 clients",
                    [(workload, of(core, {"workload": workload})) for workload in WORKLOADS])
    arms = of(rows, {"workload": "LB-Update-Only", "cache": "direct"})
    draw_groups(out / "live-arms.png", "LB-Update-Only, direct I/O",
                [(label, of(arms, CORE | change)) for change, label in ARMS])
