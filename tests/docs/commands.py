# SPDX-License-Identifier: GPL-2.0-only
"""usage: commands.py FILE...

Prints a shell script that does what the Markdown files show: every command of
the blocks marked `sh`, a line each, and the files of other blocks that say
where they belong. What cannot be done in the guest has a comment before its
block:

    <!-- test: elsewhere: <who runs it>        not run
    <!-- test: instead: <why>                  these lines are run in its place
    <command>...
    <!-- test: refused: <reason> (<why>)       it must fail, and say so
    <!-- test: file: <path>                    the block is this file

Words for guest.sh: step, elsewhere, refused.
"""

import re
import shlex
import sys
from pathlib import Path

COMMENT = re.compile(r"<!-- test: (elsewhere|instead|refused|file): (.*?)\s*-->", re.DOTALL)


def blocks(text):
    """Of each fenced block: its line, language, text, and the comment before it."""
    lines = text.split("\n")
    start = None
    for n, line in enumerate(lines):
        if not line.startswith("```"):
            continue
        if start is None:
            start = n
            continue
        before = "\n".join(lines[:start]).rstrip()
        comment = None
        for found in COMMENT.finditer(before):
            if found.end() == len(before):
                comment = found
        yield start + 2, lines[start][3:].strip(), lines[start + 1:n], comment
        start = None


def commands(lines, first):
    """Joined where a line ends with a backslash; without comments."""
    joined, at = "", first
    for n, line in enumerate(lines, first):
        at = at if joined else n
        if line.endswith("\\"):
            joined += line[:-1]
            continue
        command = re.sub(r"\s+#\s.*$", "", joined + line).strip()
        joined = ""
        if command and not command.startswith("#"):
            yield at, command


def script(path):
    for first, language, lines, comment in blocks(Path(path).read_text()):
        kind, rest = comment.groups() if comment else (None, "")
        head, _, tail = rest.partition("\n")
        if kind == "file":
            yield ["put", f"{path}:{first}", head, "\n".join(lines)]
        elif language == "sh":
            for at, command in commands(lines, first):
                where = f"{path}:{at}"
                if kind == "refused":
                    reason, _, why = head.partition(" (")
                    yield ["refused", where, reason, why.rstrip(")"), command]
                elif kind:
                    yield ["elsewhere", where, head, command]
                else:
                    yield ["step", where, command]
            if kind == "instead":
                for _, command in commands(tail.split("\n"), first):
                    yield ["step", f"{path}:{first}", command]
        elif comment:
            sys.exit(f"{path}:{first}: a comment for the test stands before a block that has no commands")


for path in sys.argv[1:]:
    print(f"begin {shlex.quote(path)}")
    for words in script(path):
        print(shlex.join(words))
