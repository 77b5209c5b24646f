#!/usr/bin/env python3
"""Runs a command at a real terminal and types: at_terminal.py SCRIPT COMMAND...

SCRIPT is JSON: a list of [wait for this text, milliseconds to wait then, text to type]. Prints what the terminal got, as
JSON with the exit code.
"""
import fcntl
import json
import os
import pty
import select
import struct
import sys
import termios
import time

steps = json.loads(sys.argv[1])
child, terminal = pty.fork()
if child == 0:
    os.execvp(sys.argv[2], sys.argv[2:])
fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 31, 97, 0, 0))
seen, start, deadline = b"", 0, time.time() + 60
while time.time() < deadline:
    ready, _, _ = select.select([terminal], [], [], 0.05)
    if ready:
        try:
            chunk = os.read(terminal, 65536)
        except OSError:
            break
        if not chunk:
            break
        seen += chunk
    if steps:
        at = seen.find(steps[0][0].encode(), start)
        if at >= 0:
            _, pause, text = steps.pop(0)
            start = at + 1
            time.sleep(pause / 1000)
            os.write(terminal, text.encode())
else:
    os.kill(child, 9)
_, status = os.waitpid(child, 0)
print(json.dumps({"seen": seen.decode(errors="replace"), "code": os.waitstatus_to_exitcode(status), "left": steps}))
