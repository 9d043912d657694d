#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""usage: hotpath.py DIR LABEL...

Makes DIR/hotpath.json of what the guests printed, and prints it as tables.
"""
import json
import sys

PLUG = 256  # discards that are sent together


def lines(path):
    with open(path) as f:
        return [line.split() for line in f]


def measured(words):
    """What hotpath-guest.sh prints, except for the arms."""
    m = {"checkpoint": {}, "upload": {}, "memory": {}, "structures": [], "window": {}, "discard": {}}
    for what, *rest in words:
        if what == "checkpoint":
            m[what][int(rest[0])] = {"insns": int(rest[1]), "seconds": float(rest[2])}
        elif what == "upload":
            m[what] = {"extents": int(rest[0]), "insns": int(rest[1]), "seconds": float(rest[2])}
        elif what in ("window", "first-window"):
            m[what] = {"mib": int(rest[0]), "insns": int(rest[1]), "seconds": float(rest[2])}
        elif what == "discard":
            m[what][rest[0], int(rest[1])] = {
                "ranges": int(rest[1]),
                "message_insns": int(rest[2]),
                "message_seconds": float(rest[3]),
                "plug_us": int(rest[4]),
                "worked_us": int(rest[5]),
            }
        elif what == "written":
            m[what] = {"pages": int(rest[0]), "insns": int(rest[1]), "seconds": float(rest[2])}
        elif what == "bits":
            m[what] = int(rest[1])
        elif what == "memory":
            files, extents, size = map(int, rest)
            m[what][files, extents] = size
        elif what == "structure":
            name, extents, insns, size = rest[0], *map(int, rest[1:])
            m["structures"].append(
                {"structure": name, "extents": extents, "insns": insns, "bytes_per_extent": round(size / extents, 1)}
            )
    return m


def discard_row(counted, timed):
    """What 2,000 ranges cost: instructions of one kernel, and the clock in UML."""
    all_of_it, plug = timed["nothing", 2000], timed["nothing", PLUG]
    plugs = plug["plug_us"] * all_of_it["ranges"] / PLUG / 1e6
    return {
        "ranges": all_of_it["ranges"],
        # Under the counter a nanosecond is an instruction.
        "insns": 1000 * counted["nothing", 2000]["worked_us"],
        "message_insns": counted["nothing", 2000]["message_insns"],
        "seconds": round(all_of_it["message_seconds"] + plugs, 6),
        "message_seconds": all_of_it["message_seconds"],
        "plug_us": plug["plug_us"],
    }


def rates(words):
    """IOPS and latencies of dsm as shares of dm-linear's in the same place and depth."""
    found = {(arm, f"{rw} {extents} {depth}"): [float(m) for m in measured] for _, arm, extents, rw, depth, *measured in words}
    return {
        where: {name: round(mine / linear, 4) for name, mine, linear in zip(["iops", "latency"], measured, found["linear", where])}
        for (arm, where), measured in found.items() if arm == "dsm"
    }


def main(folder, labels):
    arms = []
    for label in labels:
        words = lines(f"{folder}/hotpath-{label}.txt")
        release = next(w[1] for w in words if w[0] == "kernel")
        here = [
            {"kernel": release, "arm": arm, "extents": int(extents), "pages": int(pages), "write_insns": int(write), "read_insns": int(read)}
            for what, arm, extents, pages, write, read in (w for w in words if w[0] == "arm")
        ]
        by_arm = {(a["arm"], a["pages"]): a for a in here}
        over = {}
        print(f"\n{release}: instructions of an I/O, and how many more than dm-linear's in its place")
        print(f"{'':13} {'extents':>9} {'KiB':>4} {'write':>9} {'':>9} {'read':>9}")
        for a in here:
            base = by_arm["linear-linear" if a["arm"].endswith("-linear") else "linear", a["pages"]]
            write, read = (a[k] - base[k] for k in ("write_insns", "read_insns"))
            pages = f" x{a['pages']}" if a["pages"] > 1 else ""
            over[f"{a['arm']} {a['extents']}{pages}"] = {"write": write, "read": read}
            print(f"{a['arm']:13} {a['extents']:9} {4 * a['pages']:4} {a['write_insns']:9} {write:+9} {a['read_insns']:9} {read:+9}")
        arms += here
        print(f"\n{release}: instructions that discards cost a write, where they are on")
        for on in (a for a in here if a["arm"] == "dsm-discard"):
            off = next(a for a in here if a["arm"] == "memory-dsm" and all(a[k] == on[k] for k in ("extents", "pages")))
            on["over_off"] = on["write_insns"] - off["write_insns"]
            print(f"{on['extents']:9} extents, {4 * on['pages']:2} KiB {on['over_off']:+9}")
        for calm, busy, queued in (map(int, w[1:]) for w in words if w[0] == "in-flight"):
            print(f"and while {queued} is in flight {busy - calm:+9}")
            in_flight = busy - calm if queued else None
        counted = measured(words)
        print(f"\n{release}: a window of 1 TiB {counted['window']['insns']} instructions, {counted['bits'] / 2**20:.1f} MiB,")
        print(f"the first {counted['first-window']['insns']}")
        for (on, _), c in counted["discard"].items():
            print(f"a discard of {c['ranges']} ranges on {on}: {1000 * c['worked_us']} in all, the message {c['message_insns']}")
        print(f"\n{release}: instructions of a checkpoint, and of an upload")
        for files, c in counted["checkpoint"].items():
            print(f"{files:9} files {c['insns']:12}")
        print(f"{counted['upload']['extents']:9} extents {counted['upload']['insns']:10}")
        print(f"\n{release}: instructions of a lookup in other structures, and bytes an extent")
        for c in counted["structures"]:
            size = c["bytes_per_extent"] if c["extents"] > 10000 else ""
            print(f"{c['structure']:10} {c['extents']:9} {c['insns']:9} {size:>9}")

    shares = rates(w for w in lines(f"{folder}/hotpath-rates.txt") if w[0] == "rate")
    print("\nIOPS and mean latency of dsm, as shares of dm-linear's")
    for where, share in shares.items():
        rw, extents, depth = where.split()
        print(f"{rw:5} {extents:>8} extents, {depth:>2} at a time " + " ".join(f"{ratio:7.4f}" for ratio in share.values()))

    _, cpus, calm, busy, queued = next(w for w in lines(f"{folder}/hotpath-processors.txt") if w[0] == "contention")
    print(f"\n{cpus} processors that write take {int(busy) / int(calm):.3f} times as long while {queued} discard is in flight")
    timed = measured(lines(f"{folder}/hotpath-uml.txt"))
    memory = counted["memory"]
    (_, few), (_, many) = sorted(key for key in memory if key[0] == 10)
    per_extent = (memory[10, many] - memory[10, few]) / (many - few)
    per_file = (memory[100000, 100000] - memory[50000, 50000]) / 50000 - per_extent - 16
    result = {
        "arms": arms,
        "over_linear": over,  # of the last kernel
        "in_flight": in_flight,  # the same
        "rates": shares,
        "in_flight_16_processors": round(int(busy) / int(calm), 3),
        "bytes_per_file": round(per_file, 1),
        "bytes_per_file_and_cpu": 16,
        "bytes_per_extent": round(per_extent, 1),
        "upload_seconds_1e6_extents": timed["upload"]["seconds"],
        "checkpoint_seconds_1e4_files": timed["checkpoint"][10000]["seconds"],
        "structures": counted["structures"],
        "window_seconds_1tib": timed["window"]["seconds"],
        "first_window_seconds_1tib": timed["first-window"]["seconds"],
        "window_insns_1tib": counted["window"]["insns"],
        "window_bytes_1tib": counted["bits"],
        "discard_2000": discard_row(counted["discard"], timed["discard"]),
        "written_1e6": {**timed["written"], "insns": counted["written"]["insns"]},
        "discard_2000_null_blk": counted["discard"]["memory", 2000],
    }
    print("\nby the clock, in UML")
    for files, c in timed["checkpoint"].items():
        print(f"checkpoint of {files:6} files {1000 * c['seconds']:9.3f} ms")
    print(f"window of 1 TiB {1000 * timed['window']['seconds']:18.3f} ms, the first {1000 * timed['first-window']['seconds']:.3f}")
    discard = result["discard_2000"]
    print(f"discard of {discard['ranges']} ranges {1000 * discard['seconds']:13.3f} ms, the message {1000 * discard['message_seconds']:.3f}")
    asked = result["written_1e6"]
    print(f"written of {asked['pages']} pages {1000 * asked['seconds']:11.3f} ms")
    print(f"upload of {timed['upload']['extents']} extents {timed['upload']['seconds']:8.3f} s")
    print(f"\nmemory: {per_extent:.1f} bytes an extent, {per_file:.1f} a file and 16 for each CPU")
    with open(f"{folder}/hotpath.json", "w") as f:
        json.dump(result, f, indent=1)
    print(f"\n{folder}/hotpath.json")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
