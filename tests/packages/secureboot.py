# SPDX-License-Identifier: GPL-2.0-only
"""usage: secureboot.py CONSOLE PASSWORD SECONDS QEMU...

Runs a machine whose console is QEMU's standard output, keeps what it says in the file
CONSOLE, and does what a person does whom shim's MokManager asks to enroll a key: it
presses a key, chooses, and types the password. The exit status is QEMU's; 124: it was
stopped after SECONDS, 125: it asked for what was not expected.
"""

import os
import re
import select
import subprocess
import sys
import time

DOWN, ENTER = b"\x1b[B", b"\r"
# What is on the screen, and the keys that answer it. Each comes once, in this order.
DIALOGUE = (
    (r"Press any key to perform MOK management", lambda password: ENTER),
    (r"Enroll MOK", lambda password: DOWN + ENTER),
    (r"View key 0.*Continue", lambda password: DOWN + ENTER),
    (r"Enroll the key\(s\)\?", lambda password: DOWN + ENTER),
    (r"Password:", lambda password: password + ENTER),
    (r"Reboot", lambda password: ENTER),
)
# Colours and places on the screen
CONTROL = re.compile(rb"\x1b\[[0-9;=?]*[A-Za-z]")


def answer(machine, keys):
    """A terminal's keys come one after the other."""
    for key in re.findall(rb"\x1b\[.|.", keys, re.DOTALL):
        machine.stdin.write(key)
        machine.stdin.flush()
        time.sleep(0.3)


def main(console, password, seconds, *qemu):
    end = time.monotonic() + float(seconds)
    machine = subprocess.Popen(qemu, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    dialogue = list(DIALOGUE)
    screen = b""
    with open(console, "wb") as log:
        while True:
            left = end - time.monotonic()
            if left <= 0:
                machine.kill()
                return 124
            if not select.select([machine.stdout], [], [], left)[0]:
                continue
            said = os.read(machine.stdout.fileno(), 4096)
            if not said:
                return machine.wait()
            log.write(said)
            log.flush()
            screen = (screen + said)[-16384:]
            text = CONTROL.sub(b" ", screen).decode(errors="replace")
            if dialogue and re.search(dialogue[0][0], text, re.DOTALL):
                screen = b""
                time.sleep(1)
                answer(machine, dialogue.pop(0)[1](password.encode()))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
