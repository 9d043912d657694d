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


def name_of(policy, discard):
    return policy + "+discard" * discard


def draw_kind(out, rows, op, clients, think):
    rows = [r for r in rows if (r["op"], r["clients"], r["think_us"]) == (op, clients, think)]
    groups = list(dict.fromkeys((r["workload"], r["cache"]) for r in rows))
    policies = sorted({(r["policy"], r["discard"]) for r in rows}, key=lambda p: (p[1], list(look.COLOURS).index(p[0])))
    figure, axes = plt.subplots(len(SHOWN), 1, figsize=(2 + 2.5 * len(groups), 10), sharex=True, squeeze=False)
    width = 0.8 / len(policies)
    for axis, (value, title, more) in zip(axes.flat, SHOWN):
        for n, (policy, discard) in enumerate(policies):
            for at, group in enumerate(groups):
                seeds = [r[value] for r in rows if (r["workload"], r["cache"], r["policy"], r["discard"])
                         == (*group, policy, discard)]
                if not seeds:
                    continue
                middle = statistics.median(seeds)
                axis.bar(at + n * width, middle, width, **look.style(name_of(policy, discard)),
                         yerr=[[middle - min(seeds)], [max(seeds) - middle]], capsize=3,
                         label=name_of(policy, discard) if not at else None)
        if value == "p999_us":
            axis.set_yscale("log")
        axis.set_ylabel((look.higher if more else look.lower)(title), fontsize=9)
    axes.flat[-1].set_xticks([at + 0.4 - width / 2 for at in range(len(groups))],
                             [f"{w}\n{'past' if c == 'direct' else 'through'} the page cache" for w, c in groups],
                             fontsize=8)
    count = max(sum(1 for r in rows if (r["workload"], r["cache"], r["policy"], r["discard"]) == (*g, *p))
                for g in groups for p in policies)
    axes.flat[0].set_title(f"{clients} clients{f', {think} us between operations' if think else ''}, over-provisioning "
                           f"{op}; medians of up to {count} seeds, whiskers from the least to the most", fontsize=9)
    axes.flat[0].legend(ncols=len(policies), fontsize=8, loc="lower center", bbox_to_anchor=(0.5, 1.12))
    figure.tight_layout()
    look.save(figure, out / f"live-{op}-{clients}-{think}.png")


def draw(out, rows):
    for kind in dict.fromkeys((r["op"], r["clients"], r["think_us"]) for r in rows):
        draw_kind(out, rows, *kind)
