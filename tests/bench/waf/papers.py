#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""Experiments of the papers that waf.py and the others have no counterpart of: streams that
are computed where a checkpoint begins, how often a prediction is right, writes by the types of
pages, the primary filter without declared indexes, FileStream's premise and its T, and two
programs on one drive."""

import json
import os
import statistics
import subprocess
import sys
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import waf

GCS = ["greedy", "cost-benefit"]
WHEN = ["dsm", "dsm:prediction=off", "dsm:prediction=computed", "life"]
# Of Fig. 12: nothing says which index is the primary one.
FILTER = ["boundary", "dsm", "dsm:primary_filter=off"]
# Multiples of the time between checkpoints
PERIODS = [0.25, 0.5, 1, 2, 4, 8]
# What a modification is: of the paper, and of dsmd
COUNTS = ["requests", "pages"]
MIXED = ["none", "file:streams=2", "file", "life", "filestream", "autostream-sfr", "per-object", "oracle"]
MIX = ["LB-Update-Only", "Y-Update-Only"]
# A database of which little is rewritten at each checkpoint, and a small one that is written all of the time
HOT_MIX = ["LB-Update-Only-each-55", "Hot"]
HOT = ["none", "file:streams=2", "file", "life:groups=2", "life", "dsm", "per-object", "oracle"]
# Files of which less is rewritten say little, and so do fewer files.
REWRITES, FILES = 100, 5


def at_begin(policy):
    return policy + (",when=begin" if ":" in policy else ":when=begin")


class Trace:
    """A recording: events of the run with microseconds since the load."""

    def __init__(self, dsmctl, path):
        self.load, self.run, start = [], [], None
        for us, kind, rest in waf.events(dsmctl, path):
            if kind == "L":
                start = us
            elif start is None:
                self.load.append((rest[0], int(rest[1]), int(rest[2])))
            else:
                self.run.append((us - start, kind, rest))
        self.boundary = {}
        for name, offset, length in self.load:
            self.boundary[name] = max(self.boundary.get(name, 0), offset + length)

    def writes(self):
        for us, kind, rest in self.run:
            if kind == "W":
                yield us, rest[0], int(rest[1]), int(rest[2])

    def checkpoint_share(self):
        """Of the bytes of the run, those between the beginning of a checkpoint and its end; of the
        checkpoints, the mean share of the time."""
        inside, began, busy, total = [0, 0], None, 0, 0
        for us, kind, rest in self.run:
            if kind == "B":
                began = us
            elif kind == "C" and began is not None:
                busy, total, began = busy + us - began, us, None
            elif kind == "W":
                inside[began is not None] += int(rest[2])
        return {"bytes_share": inside[1] / sum(inside), "time_share": busy / total}

    def swaps(self):
        """How often the side with more writes a page is another one than in the window before, of
        collections and secondary indexes of which both sides were written in both."""
        written, hot, same = defaultdict(lambda: [0, 0]), {}, [0, 0]
        size = dict(self.boundary)
        for _, kind, rest in self.run:
            if kind == "W":
                name, offset, length = rest[0], int(rest[1]), int(rest[2])
                if name in self.boundary and name.startswith(("collection", "index")):
                    written[name][offset >= self.boundary[name]] += length
                    size[name] = max(size[name], offset + length)
            elif kind == "C":
                now = {}
                for name, (bottom, top) in written.items():
                    if bottom and top:
                        above = max(size[name] - self.boundary[name], 4096)
                        now[name] = top / above > bottom / self.boundary[name]
                for name in now.keys() & hot.keys():
                    same[now[name] == hot[name]] += 1
                written.clear()
                hot = now
        return {"swap_share": same[0] / max(1, sum(same)), "windows": sum(same)}

    def usm(self):
        """Of collections and indexes: how the modifications of a file by its size, and one by the mean
        update interval of its pages, go together."""
        modified, size, last, gaps = defaultdict(int), dict(self.boundary), {}, defaultdict(lambda: [0, 0])
        now = 0
        for _, name, offset, length in self.writes():
            if not name.startswith(("collection", "index")):
                now += length // 4096
                continue
            modified[name] += 1
            size[name] = max(size.get(name, 0), offset + length)
            for page in range(offset // 4096, (offset + length - 1) // 4096 + 1):
                key = name, page
                if key in last:
                    gaps[name][0] += 1
                    gaps[name][1] += now - last[key]
                last[key] = now
                now += 1
        points = [(modified[n] / size[n], count / sum_) for n, (count, sum_) in gaps.items() if count >= REWRITES]
        return {"files": float(len(points)), "rank_correlation": rank_correlation(points)} if len(points) >= FILES else {}

    def interval(self):
        ends = [us for us, kind, _ in self.run if kind == "C"]
        return (ends[-1] - ends[0]) / (len(ends) - 1) / 1e6

    def seconds(self):
        return self.run[-1][0] / 1e6

    def lasting(self, seconds):
        """The same in another time"""
        self.run = [(round(us * seconds / self.seconds()), kind, rest) for us, kind, rest in self.run]
        return self

    def objects(self):
        """Of collections and indexes their size after the load, and what was written to them"""
        named = ("collection", "index")
        return (sum(size for name, size in self.boundary.items() if name.startswith(named)),
                sum(length for _, name, _, length in self.writes() if name.startswith(named)))

    def written(self):
        return sum(length for _, _, _, length in self.writes())


# What dsmctl calls what is in no file
FILE_SYSTEM = "(file system)"


class Writer:
    """Writes a recording (userspace/simulate/src/trace/recording.rs has the form): each file has
    4 TiB of the device for itself."""

    SECTORS = 1 << 33

    def __init__(self):
        self.out, self.us, self.sector, self.events = bytearray(b"dsm-recording,2\n"), 0, 0, 0
        self.ids, self.files = {}, 0

    def record(self, kind, *numbers):
        self.out += kind.encode()
        self.numbers(*numbers)

    def numbers(self, *numbers):
        for n in numbers:
            while n > 127:
                self.out.append(n & 127 | 128)
                n >>= 7
            self.out.append(n)

    def time(self, us):
        passed, self.us = us - self.us, us
        return passed

    def file(self, name, size, extents):
        """Offsets and lengths, in sectors"""
        if name not in self.ids:
            self.ids[name], self.files = self.files, self.files + 1
        if name.endswith(FILE_SYSTEM):
            return
        path = name.encode()
        self.record("F", self.ids[name], len(path))
        self.out += path
        self.numbers(size, len(extents))
        base, end, start = self.ids[name] * self.SECTORS, 0, 0
        for offset, length in extents:
            self.numbers(difference(offset, end), difference(base + offset, start), length)
            end = offset + length
            start = base + end

    def everywhere(self, name):
        """From now on the file may be written anywhere."""
        self.file(name, 0, [(0, self.SECTORS)])

    def table(self, us):
        self.record("T", self.time(us))

    def io(self, us, kind, name, offset, length):
        if name not in self.ids:
            self.everywhere(name)
            self.table(us)
        sector, sectors = self.ids[name] * self.SECTORS + offset // 512, length // 512
        self.record(kind, self.time(us), difference(sector, self.sector), sectors, *[0, 0] * (kind == "W"))
        self.sector, self.events = sector + sectors, self.events + 1

    def gone(self, us, name):
        if name in self.ids:
            self.record("G", self.ids.pop(name))
            self.table(us)

    def checkpoint(self, us):
        self.record("C", self.time(us))

    def finish(self):
        self.record("E", self.events)
        return self.out


def difference(to, since):
    return to - since << 1 if to >= since else since - to << 1 | 1


def beside(traces):
    """One recording of several: of the names in it, each has the number of its own in front."""
    w = Writer()
    for n in range(len(traces)):	# first, as offsets of what is in no file are those of the device
        w.everywhere(f"{n}/{FILE_SYSTEM}")
    for n, trace in enumerate(traces):
        extents = defaultdict(list)
        for name, offset, length in trace.load:
            extents[name].append((offset // 512, -(-length // 512)))
        for name, found in extents.items():
            w.file(f"{n}/{name}", trace.boundary[name], found)
    w.table(0)
    for name in list(w.ids):
        w.everywhere(name)
    w.table(0)
    events = [(us, n, kind, rest) for n, trace in enumerate(traces) for us, kind, rest in trace.run]
    for us, n, kind, rest in sorted(events, key=lambda e: e[:2]):
        if kind in ["W", "D"]:
            w.io(us, kind, f"{n}/{rest[0]}", int(rest[1]), int(rest[2]))
        elif kind == "X":
            w.gone(us, f"{n}/{rest[0]}")
        elif kind == "C":
            w.checkpoint(us)
    return w.finish()


def ranks(values):
    """Of equal ones the middle."""
    order = sorted(values)
    first = {}
    for n, value in enumerate(order):
        first.setdefault(value, [n, n])[1] = n
    return [sum(first[value]) / 2 for value in values]


def rank_correlation(points):
    """Spearman's"""
    return statistics.correlation(*(ranks(column) for column in zip(*points)))


def saved(run, policy, discard=False):
    """Of what none writes without discards"""
    return 1 - run[waf.key(policy, discard)]["waf"] / run["none"]["waf"]


def deleted(dsmctl, recording):
    """The write amplification where a drive keeps the pages of deleted files, and where they are discarded at once"""
    found = {}
    for files in ["kept", "discarded"]:
        run = recording.simulate(dsmctl, ["none", "file:streams=2", "life"], discard="both", deleted_files=files)
        found[files] = {name: row["waf"] for name, row in run.items() if name}
    return found


def of_recording(dsmctl, recording):
    trace = Trace(dsmctl, recording.path)
    found = {"checkpoint": trace.checkpoint_share(), "swaps": trace.swaps(), "usm": trace.usm()}
    found["deleted"] = deleted(dsmctl, recording)
    found["blocks"] = json.loads(recording.path.with_suffix(".json").read_text())["blocks"]
    policies = ["none"] + WHEN + [at_begin(p) for p in WHEN]
    found["saved"], found["filter"], found["period"], found["count"] = {}, {}, {}, {}
    for gc in GCS:
        run = recording.simulate(dsmctl, policies, gc=gc, discard="both")
        found["saved"][gc] = {waf.key(p, d): saved(run, p, d) for p in policies for d in [False, True]}
        seconds = run[None]["interval_seconds"]
        periods = {str(n): f"filestream:t={n * seconds:.3f}" for n in PERIODS}
        counts = {n: f"filestream:count={n}" for n in COUNTS}
        other = recording.simulate(dsmctl, ["none"] + list(periods.values()) + list(counts.values()), gc=gc)
        found["period"][gc] = {n: saved(other, p) for n, p in periods.items()}
        found["count"][gc] = {n: saved(other, p) for n, p in counts.items()}
        if gc == "greedy":
            found["predictions"] = {p: run[p]["predictions"] for p in policies[1:]}
    primary, recording.primary = recording.primary, []
    for gc in GCS:
        run = recording.simulate(dsmctl, ["none"] + FILTER, gc=gc)
        found["filter"][gc] = {p: saved(run, p) for p in FILTER}
    recording.primary = primary
    return found


def on_one_drive(dsmctl, path, gc, specs):
    """The rows of a recording"""
    command = [dsmctl, "simulate", str(path), "-o", "json", "--op", "0.15", "--gc", gc, "--unit", str(waf.UNIT),
               "--warmup", str(waf.WARMUP), "--streams", str(waf.STREAMS), "--discard", "off",
               "--deleted-files", "discarded"]
    for spec in specs:
        command += ["--policy", spec]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)


def mixed(dsmctl, out, first, second, policies):
    """Two databases on one drive; FileStream's T is the first one's time between checkpoints."""
    path = out / "mixed.rec"
    path.write_bytes(beside([first, second]))
    specs = [p if p != "filestream" else f"filestream:t={first.interval():.3f}" for p in policies]
    found = {}
    for gc in GCS:
        rows = on_one_drive(dsmctl, path, gc, specs)
        found[gc] = {p: round(1 - row["waf"] / rows[0]["waf"], 4) for p, row in zip(policies, rows)}
    path.unlink()
    return found


def hot(dsmctl, out, recordings):
    """HOT_MIX in the same time; what the small collection is of the data, and of all writes"""
    large, small = (Trace(dsmctl, recordings[w][0].path) for w in HOT_MIX)
    small.lasting(large.seconds())
    (cold_size, _), (size, written) = large.objects(), small.objects()
    shares = {"data_share": round(size / (size + cold_size), 4),
              "writes_share": round(written / (large.written() + small.written()), 4)}
    return shares | mixed(dsmctl, out, large, small, HOT)


def merged(values):
    """Of figures of the same kind the mean, and half the range where there are several."""
    if isinstance(values[0], dict):
        return {key: merged([v[key] for v in values]) for key in values[0]}
    if isinstance(values[0], int):
        return sum(values)
    return [round(statistics.mean(values), 4), round(waf.half_range(values), 4)]


def moved(saved_by_gc):
    """What is saved more where a checkpoint begins than where it ends, by policy; with discards by
    its name and "+discard"."""
    return {gc: {waf.key(p, d): round(by[waf.key(at_begin(p), d)][0] - by[waf.key(p, d)][0], 4) for p in WHEN for d in [False, True]}
            for gc, by in saved_by_gc.items()}


def main():
    dsmctl, out = sys.argv[1], Path(sys.argv[2])
    recordings = waf.read_recordings(out / "recordings-papers")
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        jobs = {w: [pool.submit(of_recording, dsmctl, r) for r in seeds] for w, seeds in recordings.items() if w not in HOT_MIX}
        found = {w: merged([job.result() for job in js]) | {"seeds": len(js)} for w, js in jobs.items()}
    for of in found.values():
        of["moved"] = moved(of["saved"])
    if all(w in recordings for w in MIX):
        found["mixed"] = mixed(dsmctl, out, *(Trace(dsmctl, recordings[w][0].path) for w in MIX), MIXED)
    if all(w in recordings for w in HOT_MIX):
        found["hot"] = hot(dsmctl, out, recordings)
    lines = [f"{json.dumps(w)}: {json.dumps(found[w], separators=(',', ':'))}" for w in found]
    (out / "papers.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")
    print((out / "papers.json").read_text())
    import pictures_papers
    pictures_papers.draw(dsmctl, out, recordings)


if __name__ == "__main__":
    main()
