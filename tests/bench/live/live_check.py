#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""Compares what tests/bench/live/arithmetic.sh found with arithmetic, and with a queueing
model: clients in a closed loop, and dies that serve in the order of arrival."""

import heapq
import sys
from pathlib import Path

DIES, READ, PROGRAM, PAGES = 8, 25000, 200000, 512 * 256
# What a client does between two operations: a system call, and reads of the clock
BETWEEN = 1000 + 3 * 256
failed = []


def verdict(good, what):
    print(f"{'' if good else 'not '}ok - live: {what}")
    if not good:
        failed.append(what)


def closed_loop(threads, count, service):
    """When all are done: the places are those of queue.c."""
    states = [(n * 7919 + 1) & 0xffffffff for n in range(threads)]
    left = [count] * threads
    die_free = [0] * DIES
    ready = [(BETWEEN * n, n) for n in range(threads)]
    heapq.heapify(ready)
    last = 0
    while ready:
        now, n = heapq.heappop(ready)
        states[n] = (states[n] * 1664525 + 1013904223) & 0xffffffff
        die = (states[n] >> 8) % PAGES % DIES
        die_free[die] = max(die_free[die], now) + service
        last = max(last, die_free[die])
        left[n] -= 1
        if left[n]:
            heapq.heappush(ready, (die_free[die] + BETWEEN, n))
    return last


def counts(path):
    return {k: int(v) for k, v in (line.split() for line in path.read_text().splitlines())}


def main():
    out = Path(sys.argv[1])
    for line in (out / "arithmetic").read_text().splitlines():
        words, result = line.split(": ")
        threads, count, size, kind = words.split()
        ops, total, least, median, most = map(int, result.split())
        threads, count, pages = int(threads), int(count), int(size) // 4096
        if threads == 1:
            wanted = {"write": -(-pages // DIES) * PROGRAM, "read": -(-pages // DIES) * READ,
                      "link": -(-pages // DIES) * READ + DIES * 2000 + 5000}[kind]
            verdict(wanted <= least and most <= wanted + 2 * BETWEEN,
                    f"one {kind} of {pages} pages takes {wanted / 1e3} us: {least / 1e3} to {most / 1e3}")
        else:
            wanted = closed_loop(threads, count, PROGRAM if kind == "write" else READ)
            verdict(abs(total / wanted - 1) < 0.03,
                    f"{threads} clients {kind} {ops} pages in {total / 1e6:.1f} ms, by a queueing model {wanted / 1e6:.1f}")
    c, after, gone = (counts(out / name) for name in ["counts", "counts-after", "counts-discarded"])
    full = c["host"] + c["copied"] - 64 * c["erases"]
    verdict(c["host"] == 3 * 4 * 8192 and c["copied"] > 0 and 0 <= full <= 147 * 64,
            f"{c['host']} random writes: {c['copied']} pages were copied, {c['erases']} units erased")
    # The copies of a group are read at once, and programmed with others.
    programs = (c["host"] + c["copied"]) / 4
    busy = (c["busy_host_program_ns"] + c["busy_copy_program_ns"]) / 700000
    verdict(abs(busy / programs - 1) < 0.01, f"dies programmed {busy:.1f} groups of 4 pages, {programs:.1f} were filled")
    verdict((out / "data").exists() and after["host"] == c["host"] + 8192, "what was written is what is read")
    verdict((out / "discarded").read_text().strip() == "0" and gone["discarded"] == 2048, "what was discarded is zeros")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
