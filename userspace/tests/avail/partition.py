#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""usage: partition.py DBPATH WT...

What is free in each file of a WiredTiger database, by the command WT ("wt" of the
version that made it): all of the file but its description, the blocks that "wt
verify -d dump_address" names, and those of the checkpoint's own lists. A line a
file: its path, its bytes, and the free ranges. WT works on a copy, which it may
change. Ends with 1 when blocks overlap, and when nothing could be told."""

import re
import shutil
import subprocess
import sys
import tempfile


def number(data, at):
    """WiredTiger's packed number at data[at:], and where the next one begins"""
    first = data[at]
    if first & 0xC0 == 0x80:
        return first & 0x3F, at + 1
    if first & 0xE0 == 0xC0:
        return ((first & 0x1F) << 8) + data[at + 1] + 64, at + 2
    assert first & 0xF0 == 0xE0, hex(first)
    end = at + 1 + (first & 0xF)
    return int.from_bytes(data[at + 1 : end], "big") + 8256, end


def blocks(cookie, unit):
    """Root and lists of a checkpoint, and the size of its file"""
    data = bytes.fromhex(cookie)
    assert data[0] == 1
    found, at = [], 1
    for _ in range(4):
        place, at = number(data, at)
        size, at = number(data, at)
        _, at = number(data, at)
        if size:
            found.append(((place + 1) * unit, size * unit))
    return found, number(data, at)[0]


def newest(config):
    """The cookies of all checkpoints by order, and the unit of allocation"""
    found = re.findall(r'addr="([0-9a-f]*)",order=(\d+)', config)
    size, k = re.search(r"allocation_size=(\d+)(K?)", config).groups()
    return sorted((int(order), cookie) for cookie, order in found), int(size) << (10 if k else 0)


def free(path, config, wt):
    checkpoints, unit = newest(config)
    if not checkpoints or not checkpoints[-1][1]:
        return None
    lists, size = blocks(checkpoints[-1][1], unit)
    done = subprocess.run(wt + ["verify", "-d", "dump_address", "file:" + path], capture_output=True, text=True)
    if done.returncode:
        print(f"{path}: wt verify: {done.stderr[-200:]}", file=sys.stderr)
        return None
    used = {(0, unit)} | set(lists)
    for begin, end in re.findall(r"\[(?:\d+: )?(\d+)-(\d+), \d+, \d+\]", done.stdout):
        used.add((int(begin), int(end) - int(begin)))
    # Older checkpoints that are kept have lists of their own.
    for _, cookie in checkpoints[:-1]:
        used |= set(blocks(cookie, unit)[0])
    at, ranges = 0, []
    for begin, length in sorted(used):
        if begin < at:
            sys.exit(f"{path}: two blocks at {begin}")
        if begin > at:
            ranges.append((at, begin))
        at = begin + length
    if at < size:
        ranges.append((at, size))
    return size, ranges


def main():
    dbpath, wt = sys.argv[1], sys.argv[2:]
    with tempfile.TemporaryDirectory() as copy:
        shutil.copytree(dbpath, copy, dirs_exist_ok=True)
        wt += ["-h", copy]
        text = subprocess.run(wt + ["list", "-v"], capture_output=True, text=True, check=True).stdout
        lines = text.splitlines()
        told = 0
        for name, config in zip(lines, lines[1:]):
            if not name.startswith("file:") or name == "file:WiredTiger.wt":
                continue
            found = free(name[5:], config, wt)
            if found:
                size, ranges = found
                print(name[5:], size, *(f"{a}-{b}" for a, b in ranges))
                told += 1
    sys.exit(not told)


main()
