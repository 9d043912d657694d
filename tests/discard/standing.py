#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""usage: dsmctl free --ranges -o json DBPATH | standing.py DBPATH STATE

Of the pages that were listed as free at the first call and are now: prints how many there are,
how many the disk has poisoned because they were discarded, how many are neither poisoned
nor were written since the last call, and some of these. STATE is kept between calls. Nothing may be
cached. Of collections and indexes only: the other files may be idle, and what they list waits
for three checkpoints of theirs.
"""
import json
import os
import pickle
import sys
import zlib

PAGE = 4096

dbpath, state = sys.argv[1:]
try:
    with open(state, "rb") as f:
        first, last = pickle.load(f)
except FileNotFoundError:
    first, last = None, {}

pages = {}
for file in json.load(sys.stdin)["files"]:
    if not file["path"].startswith(("collection-", "index-")):
        continue
    fd = os.open(os.path.join(dbpath, file["path"]), os.O_RDONLY)
    for r in file.get("ranges") or []:
        for at in range(-(-r["start"] // PAGE) * PAGE, r["end"] // PAGE * PAGE, PAGE):
            page = os.pread(fd, PAGE, at)
            # What was never written has no place on the disk.
            if page.strip(b"\0"):
                pages[file["path"], at] = None if page == b"POISONED" * (PAGE // 8) else zlib.crc32(page)
    os.close(fd)

first = set(pages) if first is None else first
pages = {key: page for key, page in pages.items() if key in first}
unsent = {key: page for key, page in pages.items() if page is not None}
stuck = [f"{path}@{at}" for (path, at), page in unsent.items() if last.get((path, at), page) == page]
with open(state, "wb") as f:
    pickle.dump((first, unsent), f)
print(len(pages), len(pages) - len(unsent), len(stuck), *stuck[:5])
