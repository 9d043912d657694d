#!/usr/bin/python3 -B
# SPDX-License-Identifier: GPL-2.0-only
"""Makes Documentation/figures/forecast.json of the recordings in waf.json and mongod.json beside it:
what "dsmctl free" says that a measure saves. A forecast is the least and the most of what the
measure saved in recordings, or where the listed share says something, in those of the nearest shares. It is
widened until it holds in nine of ten cases, each of a workload that is left out of it."""

import json
import sys
from pathlib import Path

FIGURES = Path(__file__).parents[3] / "Documentation" / "figures"
# Those whose listed share is nearest, where it says something: discards save in proportion to it, small
# leaf pages the more the fewer pages are rewritten.
NEAREST = {"discards": 8, "discards_at_80": 8, "leaves": 12}
IN_PROPORTION = ["discards", "discards_at_80"]
# With direct I/O, which mongod does not use by itself, they save up to three times as much at the same share.
BUFFERED = IN_PROPORTION
# By a tenth at least: a thirteenth value is outside the range of a dozen in two of thirteen cases.
WIDER = [step / 20 for step in range(2, 7)]
HOLDS = 0.9
# Half a point, for what is rounded
CLOSE = 0.005
# A range whose most is more than so many times its least, and so far from it, helps nobody.
WIDE, FAR = 4, 0.1


def workload(name):
    program = {"LB": "LinkBench", "Y": "YCSB", "Many": "many collections"}[name.split("-")[0]]
    return f"{program}, {'buffered' if 'cached' in name else 'direct'}"


def of_recordings(waf):
    """Of each drive, of 15 % over-provisioning; a tenth of it left empty makes them 28 %."""
    for name, run in waf.items():
        if "drives" not in run:
            continue
        full, share = run["drives"]["15 greedy 256K"], run["listed_share"]
        saved = {"discards": full["none+discard"][2], "streams": full["auto"][2],
                 "spare": 1 - run["drives"]["28 greedy 256K"]["none"][0] / full["none"][0]}
        if at_80 := run["drives"].get("15 greedy 256K 80"):
            saved["discards_at_80"] = at_80["none+discard"][2]
        for measure, value in saved.items():
            yield measure, [workload(name), name, share, value]


def of_settings(settings):
    """On full drives, and one setting against another on the same drive."""
    longer = {"60": "20", "20": "7"}
    for name, runs in settings.items():
        for setting, run in runs.items():
            leaf, index, compressor, checkpoints = setting.split(":")
            if compressor != "snappy":
                continue
            for measure, value in run.get("saved", {}).items():
                yield measure, [workload(name), f"{name} {setting}", run["listed_share"][0], value[0]]
            others = {}
            if (leaf, index) == ("32", "16"):
                others["leaves"] = f"8:16:snappy:{checkpoints}"
            if (leaf, index) == ("8", "16"):
                others["index_leaves"] = f"8:8:snappy:{checkpoints}"
            if index == "16" and "cached" in name and checkpoints in longer:
                others["interval"] = f"{leaf}:16:snappy:{longer[checkpoints]}"
            for measure, other in others.items():
                for drive, before in run["flash_kib"].items():
                    after = runs.get(other, {"flash_kib": {}})["flash_kib"].get(drive)
                    if after and before["none"] and after["none"]:
                        yield measure, [workload(name), f"{name} {setting} {drive}", run["listed_share"][0],
                                        1 - after["none"][0] / before["none"][0]]


def of_mongod(mongod):
    names = {"discards_share": "discards", "at_80_share": "discards_at_80", "streams_share": "streams",
             "spare_share": "spare", "leaves_share": "leaves", "longer_share": "interval"}
    for name, run in mongod.items():
        for key in names.keys() & run.keys():
            io = "direct" if "direct" in name else "buffered"
            yield names[key], [f"mongod, {io}", name, run["listed_share"], run[key]]


def saved(measure, points, share, wider):
    """Widened: what is saved, or what is left, may differ by so much of it."""
    near = sorted(points, key=lambda point: abs(point[2] - share))[:NEAREST.get(measure)]
    values = [value * min(1, share / listed) if measure in IN_PROPORTION else value for _, _, listed, value in near]
    least, most = min(values), max(values)
    return least - wider * abs(least), min(most + wider * abs(most), 1 - (1 - most) * (1 - wider))


def held(measure, points, wider):
    """Of how many, where the workload of each is left out, and of how many that is."""
    cases = 0
    for left_out in {point[0] for point in points}:
        rest = [point for point in points if point[0] != left_out]
        for _, _, share, value in (point for point in points if point[0] == left_out):
            least, most = saved(measure, rest, share, wider)
            cases += least - CLOSE <= value <= most + CLOSE
    return [cases, len(points)]


def is_known(of, least, most):
    """Whether a range of it holds, and helps."""
    cases, all_cases = of["held"]
    return cases >= HOLDS * all_cases and (most - least <= FAR or most <= WIDE * least)


def make(found):
    points = {}
    for part in [of_recordings(found["waf"]), of_settings(found["waf"]["settings"]), of_mongod(found["mongod"])]:
        for measure, point in part:
            if measure in BUFFERED and point[0].endswith("direct"):
                continue
            points.setdefault(measure, []).append(point[:2] + [round(value, 4) for value in point[2:]])
    made = {}
    for measure, its in sorted(points.items()):
        its.sort()
        tried = [(wider, held(measure, its, wider)) for wider in WIDER]
        wider, held_then = next((of for of in tried if of[1][0] >= HOLDS * of[1][1]), tried[-1])
        made[measure] = {"nearest": NEAREST.get(measure, len(its)), "in_proportion": measure in IN_PROPORTION, "wider": wider, "held": held_then, "saved": its}
    return made


def text(made):
    """One recording on a line."""
    parts = []
    for measure, of in made.items():
        head = json.dumps({key: value for key, value in of.items() if key != "saved"})[1:-1]
        rows = ",\n".join(f"  {json.dumps(row)}" for row in of["saved"])
        parts.append(f' "{measure}": {{{head}, "saved": [\n{rows}]}}')
    return "{\n" + ",\n".join(parts) + "\n}\n"


def main():
    found = {name: json.loads((FIGURES / f"{name}.json").read_text()) for name in ("waf", "mongod")}
    made = make(found)
    (FIGURES / "forecast.json").write_text(text(made))
    for measure, of in made.items():
        values = [row[3] for row in of["saved"]]
        print(f"{measure}: {min(values):.3f} to {max(values):.3f}, widened by {of['wider']}, held {of['held']}, "
              f"{len({row[0] for row in of['saved']})} workloads")
    return 0


if __name__ == "__main__":
    sys.exit(main())
