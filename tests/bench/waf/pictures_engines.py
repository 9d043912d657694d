# SPDX-License-Identifier: GPL-2.0-only
"""The pictures of Documentation/results.md: other engines."""

from pictures import look, plt, save


def waf_bars(out, rows, op, gc):
    """One panel an engine: every policy against none."""
    workloads = list(dict.fromkeys(row["workload"] for row in rows))
    figure, axes = plt.subplots(1, len(workloads), figsize=(5 * len(workloads), 5), squeeze=False)
    for axis, workload in zip(axes.flat, workloads):
        mine = [row for row in rows if (row["workload"], row["op"], row["gc"]) == (workload, op, gc)]
        mine.reverse()
        colors = [look.style(r["policy"])["color"] for r in mine]
        axis.barh([r["policy"].removeprefix("objects ") for r in mine], [r["waf"] - 1 for r in mine], left=1,
                  xerr=[r["spread"] for r in mine], color=colors, capsize=2)
        none = next(r["waf"] for r in mine if r["policy"] == "none")
        axis.axvline(none, color="gray", linestyle=":", linewidth=0.8)
        axis.tick_params(axis="y", labelsize=8)
        axis.set_xlabel(look.lower("write amplification"))
        axis.set_title(workload)
    figure.suptitle(f"Over-provisioning {op}, {gc} collection; brown: combinations of objects; dotted: no streams")
    save(figure, out, f"engines-waf-{gc}")


def objects(out, found):
    """Share against update interval, the paper's Table 1 as a picture."""
    workloads = list(dict.fromkeys(o["workload"] for o in found))
    figure, axes = plt.subplots(1, len(workloads), figsize=(5 * len(workloads), 3.8), squeeze=False)
    for axis, workload in zip(axes.flat, workloads):
        kinds = {o["rules"] for o in found if o["workload"] == workload}
        kind = "combined" if "combined" in kinds else "shipped"
        mine = [o for o in found if o["workload"] == workload and o["rules"] == kind and o["pages"]]
        for n, o in enumerate(sorted(mine, key=lambda o: o["interval"])):
            axis.scatter(o["interval"], 100 * o["share"], s=30)
            axis.annotate(o["name"].split(".")[-1], (o["interval"], 100 * o["share"]), fontsize=8,
                          xytext=(4, 4 + 6 * (n % 2)), textcoords="offset points")
        axis.set_xscale("log")
        axis.set_xlabel("update interval, pages written")
        axis.set_ylabel("share of writes, %")
        axis.set_title(workload)
        axis.margins(0.2)
    save(figure, out, "engines-objects")


def draw(out, rows, found):
    for gc in ["greedy", "cost-benefit"]:
        waf_bars(out, rows, 0.15, gc)
    objects(out, found)
