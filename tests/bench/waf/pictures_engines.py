# SPDX-License-Identifier: GPL-2.0-only
"""The pictures of Documentation/results.md: other engines."""

from pictures import look, plt, save


def panels(found, height):
    figure, axes = plt.subplots(1, len(found), figsize=(5 * len(found), height), squeeze=False)
    return figure, zip(axes.flat, found.items())


def waf_bars(out, found, op, gc):
    """One panel an engine: every policy against none."""
    figure, each = panels(found, 5)
    for axis, (engine, of) in each:
        cells = dict(reversed(of["drives"][f"{op} {gc}"].items()))
        wafs = [waf for waf, *_ in cells.values()]
        axis.barh(list(cells), [waf - 1 for waf in wafs], left=1, xerr=[spread for _, spread, *_ in cells.values()],
                  color=[look.style(policy)["color"] for policy in cells], capsize=2)
        axis.axvline(cells["none"][0], color="gray", linestyle=":", linewidth=0.8)
        axis.tick_params(axis="y", labelsize=8)
        axis.set_xlabel(look.lower("write amplification"))
        axis.set_title(engine)
    figure.suptitle(f"Over-provisioning {op} %, {gc} collection; brown: variants, and combinations of objects; dotted: no streams")
    save(figure, out, f"engines-waf-{gc}")


def objects(out, found):
    """Share against update interval, the paper's Table 1 as a picture."""
    figure, each = panels(found, 3.8)
    for axis, (engine, of) in each:
        mine = {name: o for name, o in of["objects"].get("combined", of["objects"]["shipped"]).items() if o["pages"]}
        for n, (name, o) in enumerate(mine.items()):
            axis.scatter(o["interval"], 100 * o["share"], s=30)
            axis.annotate(name.split(".")[-1], (o["interval"], 100 * o["share"]), fontsize=8,
                          xytext=(4, 4 + 6 * (n % 2)), textcoords="offset points")
        axis.set_xscale("log")
        axis.set_xlabel("update interval, pages written")
        axis.set_ylabel("share of writes, %")
        axis.set_title(engine)
        axis.margins(0.2)
    save(figure, out, "engines-objects")


def draw(out, found):
    for gc in ["greedy", "cost-benefit"]:
        waf_bars(out, found, 15, gc)
    objects(out, found)
