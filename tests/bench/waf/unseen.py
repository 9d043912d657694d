#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""Prints what "dsmctl free" foretells of the databases of tests/bench/waf/unseen, by what it saw of them,
what came of it on a full drive and on one that is 80 % full, and whether its first advice was the best. Fails
where fewer than nine of ten forecasts held, or more than one of ten advices was worse than the best by more than five
points."""

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path

import forecast
import waf

# By what is in the command of an advice
MEASURES = {"collectionConfig": "leaves", "indexConfig": "index_leaves", "setParameter": "interval",
            "discard = true": "discards", "fstrim": "spare", "dsmctl create": "streams"}
FILLS = {"full": 1.0, "80 % full": 0.8}
NEAR = 0.05
# What is foretold with buffered I/O only
BUFFERED = ["interval", "discards"]


def others(setting):
    """The settings that a measure makes of one."""
    leaf, index, compressor, checkpoints = setting.split(":")
    return {"leaves": f"8:{index}:{compressor}:{checkpoints}" if int(leaf) > 8 else None,
            "index_leaves": f"{leaf}:8:{compressor}:{checkpoints}" if int(index) > 8 else None,
            "interval": f"{leaf}:{index}:{compressor}:{int(checkpoints) // 3}"}


def nand(dsmctl, recording, **drive):
    """Pages written to flash, without policies."""
    run = recording.simulate(dsmctl, ["none"], **drive)
    return run["none"]["waf"] * run[None]["run_pages"]


def outcomes(dsmctl, runs, setting):
    """What each measure saves of a base, by how full the drive is."""
    base = runs[setting]
    found = {}
    for name, fill in FILLS.items():
        run = base.simulate(dsmctl, ["none", "auto"], discard="both", fill=fill)
        before = run["none"]["waf"]
        saved = {"discards": 1 - run["none+discard"]["waf"] / before, "streams": 1 - run["auto"]["waf"] / before}
        if fill == 1:	# It is advised where the file system is rather full.
            saved["spare"] = 1 - base.simulate(dsmctl, ["none"], op=0.28)["none"]["waf"] / before
        size = 4096 * int(run[None]["drive_pages"] / fill)
        for measure, other in others(setting).items():
            if other in runs:
                try:
                    after = nand(dsmctl, runs[other], size=size)
                    saved[measure] = 1 - after / (before * run[None]["run_pages"])
                except waf.subprocess.CalledProcessError:
                    pass	# the database has no room there
        found[name] = saved
    return found


def foretold(free):
    """By measure and fill: the range, and whether the program says it. A test of the program holds it to
    forecast.py."""
    known = json.loads((forecast.FIGURES / "forecast.json").read_text())
    named = {measure for advice in free["advice"] for words, measure in MEASURES.items() if words in advice["command"]}
    said = {}
    for measure, fill in product(named | {"spare"}, FILLS):
        of = known["discards_at_80" if (measure, fill) == ("discards", "80 % full") else measure]
        least, most = forecast.saved(measure, of["saved"], free["total"]["share"], of["wider"])
        said[measure, fill] = (least, most), forecast.is_known(of, least, most)
    return said


def main():
    dsmctl, out = sys.argv[1], Path(sys.argv[2])
    recordings = {name: seeds[0] for name, seeds in waf.read_recordings(out / "recordings-unseen").items()}
    workloads = {}
    for name, recording in recordings.items():
        workload, _, setting = name.partition(":")
        workloads.setdefault(workload, {})[setting] = recording
    longest = max(int(setting.split(":")[3]) for runs in workloads.values() for setting in runs)
    bases = [(workload, setting) for workload, runs in workloads.items() for setting in runs
             if setting.endswith(f":16:snappy:{longest}")]
    with ThreadPoolExecutor() as pool:
        played = list(pool.map(lambda base: outcomes(dsmctl, workloads[base[0]], base[1]), bases))
    held = cases = best = 0
    for (workload, setting), found in zip(bases, played):
        free = json.loads(recordings[f"{workload}:{setting}"].path.with_suffix(".free.json").read_text())
        said = foretold(free)
        print(f"{workload} {setting}: {100 * free['total']['share']:.0f} % listed")
        for fill, saved in found.items():
            for measure, value in saved.items():
                if measure in BUFFERED and "cached" not in workload or (measure, fill) not in said:
                    continue
                (least, most), known = said[measure, fill]
                good = least - forecast.CLOSE <= value <= most + forecast.CLOSE
                word = "?" if not known else "held" if good else "MISSED"
                print(f"  {fill:9} {measure:12} foretold {100 * least:4.0f} to {100 * most:3.0f} %, came {100 * value:5.1f}  {word}")
                held, cases = held + (known and good), cases + known
        values = {m: value for m, value in found["80 % full"].items()
                  if (m, "80 % full") in said and (m != "interval" or "cached" in workload)}
        first = max(values, key=lambda m: said[m, "80 % full"][0][0])
        near = values[first] >= max(values.values()) - NEAR
        best += near
        print(f"  first advice: {first}, {100 * values[first]:.0f} %; the best is {max(values, key=values.get)}, "
              f"{100 * max(values.values()):.0f} %{'' if near else '  NOT NEAR'}")
    print(f"held {held} of {cases}; the first advice is the best or near in {best} of {len(bases)}")
    return held < forecast.HOLDS * cases or best < forecast.HOLDS * len(bases)


if __name__ == "__main__":
    sys.exit(main())
