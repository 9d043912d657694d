#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""Which placement handle the bytes of each object have arrived in, from what the
NVMe driver sent and from where files lie: the target and the agent have no part
in it.

  arrived.py keep DIR KEPT          links every file of DIR into KEPT, until SIGTERM,
                                    so that one that is deleted keeps its blocks
  arrived.py report KEPT TRACE DISK OBJECTS
                                    prints for each object: its name, the stream that
                                    it should have, the least share of it that must
                                    be there, KiB written, KiB in that stream's handle,
                                    and "STREAM:KIB" for all of them

OBJECTS has an object a line: name, stream, least share in percent, pages "FROM-TO"
or "-", a regular expression for the path. The first that matches has the pages. TRACE are events
nvme_setup_cmd. Stream n is placement identifier n - 1.
"""

import bisect
import fcntl
import os
import re
import signal
import struct
import sys
import time
from collections import Counter, defaultdict

PAGE = 4096
FIEMAP = 0xC020660B
EXTENTS = 512
LAST = 1
# The directive type that says where
PLACEMENT = 2
# The last scan must not end before a file that was just made is seen.
PAUSE = 0.02


def keep(directory, kept):
    stop = []
    signal.signal(signal.SIGTERM, lambda *_: stop.append(True))
    os.makedirs(kept, exist_ok=True)
    paths = {}
    while True:
        last = bool(stop)
        for parent, _, names in os.walk(directory):
            for name in names:
                path = os.path.join(parent, name)
                try:
                    inode = os.lstat(path).st_ino
                    if inode not in paths:
                        os.link(path, os.path.join(kept, str(inode)), follow_symlinks=False)
                        paths[inode] = os.path.relpath(path, directory)
                except FileNotFoundError:
                    pass
        if last:
            break
        time.sleep(PAUSE)
    with open(os.path.join(kept, "index"), "w", encoding="utf-8") as index:
        for inode, path in paths.items():
            print(inode, path, file=index)


def extents(path):
    """Pages in the file, pages on the device, how many."""
    with open(path, "rb") as file:
        start = 0
        while True:
            head = struct.pack("=QQLLLL", start, 2**64 - 1 - start, 0, 0, EXTENTS, 0)
            buffer = bytearray(head + bytes(56 * EXTENTS))
            fcntl.ioctl(file, FIEMAP, buffer)
            count = struct.unpack_from("=L", buffer, 20)[0]
            if not count:
                return
            for n in range(count):
                logical, physical, length, _, _, flags = struct.unpack_from("=QQQQQL", buffer, 32 + 56 * n)
                yield logical // PAGE, physical // PAGE, length // PAGE
            if flags & LAST:
                return
            start = logical + length


def read_objects(path):
    objects = []
    for line in open(path, encoding="utf-8"):
        name, stream, least, pages, pattern = line.split(maxsplit=4)
        first, end = (0, 2**64) if pages == "-" else map(int, pages.split("-"))
        objects.append((name, int(stream), int(least), first, end, re.compile(pattern.strip())))
    return objects


def owners(kept, objects):
    """Sorted: first page on the device, end, object."""
    places = []
    for line in open(os.path.join(kept, "index"), encoding="utf-8"):
        inode, path = line.rstrip("\n").split(" ", 1)
        rules = [o for o in objects if o[5].fullmatch(path)]
        for logical, physical, length in extents(os.path.join(kept, inode)):
            for page in range(length):
                owner = next((o[0] for o in rules if o[3] <= logical + page < o[4]), "other")
                if places and places[-1][1] == physical + page and places[-1][2] == owner:
                    places[-1][1] += 1
                else:
                    places.append([physical + page, physical + page + 1, owner])
    return sorted(places)


def writes(trace, disk):
    """First page, pages, stream."""
    # A path of a namespace that has several is nvme0c0n1.
    subsystem, _, number = disk.rpartition("n")
    pattern = re.compile(rf"disk={subsystem}(c\d+)?n{number},.*nvme_cmd_write slba=(?P<slba>\d+), "
                         r"len=(?P<len>\d+), ctrl=0x(?P<ctrl>[0-9a-f]+), dsmgmt=(?P<dsmgmt>\d+)")
    for line in open(trace, encoding="utf-8"):
        if match := pattern.search(line):
            directive = int(match["ctrl"], 16) >> 4 & 15
            stream = (int(match["dsmgmt"]) >> 16) + 1 if directive == PLACEMENT else 1
            yield int(match["slba"]), int(match["len"]) + 1, stream


def report(kept, trace, disk, objects):
    objects = read_objects(objects)
    places = owners(kept, objects)
    starts = [p[0] for p in places]
    pages = defaultdict(Counter)
    for first, count, stream in writes(trace, disk):
        for page in range(first, first + count):
            at = bisect.bisect_right(starts, page) - 1
            owner = places[at][2] if at >= 0 and page < places[at][1] else "file-system"
            pages[owner][stream] += 1
    wanted = {o[0]: (o[1], o[2]) for o in objects} | {"other": (1, 100), "file-system": (1, 0)}
    for name, (stream, least) in wanted.items():
        by_stream = " ".join(f"{s}:{n * 4}" for s, n in sorted(pages[name].items()))
        print(name, stream, least, pages[name].total() * 4, pages[name][stream] * 4, by_stream)


if sys.argv[1] == "keep":
    keep(*sys.argv[2:])
else:
    report(*sys.argv[2:])
