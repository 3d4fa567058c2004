#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
terminal-picture.py BIN COMMANDS PICTURE: do in bash what COMMANDS, a file, says line by line, with
the folder BIN in front of PATH, and draw the terminal as PICTURE (SVG). Each line appears when it
is its turn; where pictures do not move, all are there.

A command that ends in "&" is waited for until it listens, and what it prints is not shown.
--text: print what would be drawn, instead.
"""
import html
import os
import subprocess
import sys
import tempfile
import textwrap
import time

COLUMNS, FONT, LINE, MARGIN = 96, 14, 20, 16
WIDTH = COLUMNS * FONT * 0.602 + 2 * MARGIN
PAUSE = {"$": 1.2, " ": 0.15}  # seconds before a command, and before a line of output
STYLE = """
 text { font: %dpx ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; white-space: pre;
        fill: #c9d1d9; animation: appear 0.01s both }
 .command { fill: #7ee787; font-weight: bold }
 @keyframes appear { from { opacity: 0 } to { opacity: 1 } }
 @media (prefers-reduced-motion) { text { animation: none } }
""" % FONT


def listeners():
    found = set()
    for path in ("/proc/net/tcp", "/proc/net/tcp6"):
        if os.path.exists(path):
            with open(path, encoding="ascii") as f:
                found |= {row.split()[9] for row in f if row.split()[3] == "0A"}
    return found


def in_background(command, environment):
    before = listeners()
    started = subprocess.Popen(["bash", "-c", "exec " + command], env=environment,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for _ in range(600):
        if listeners() - before or started.poll() is not None:
            return started
        time.sleep(0.05)
    started.kill()
    sys.exit("terminal-picture.py: nothing listens after " + command)


def record(commands, environment):
    """Lines as the terminal has them; those of commands begin with "$"."""
    lines, started = [], []
    for command in commands:
        lines.append("$ " + command)
        if command.endswith("&"):
            started.append(in_background(command[:-1], environment))
            continue
        done = subprocess.run(["script", "-qec", command, "/dev/null"], env=environment, text=True,
                              check=False, timeout=60, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE)
        for line in done.stdout.expandtabs().splitlines():
            lines += textwrap.wrap(line, COLUMNS) or [""]
    for process in started:
        process.wait(60)
    return lines


def draw(lines):
    height = len(lines) * LINE + 2 * MARGIN
    yield ('<svg xmlns="http://www.w3.org/2000/svg" xml:space="preserve" '
           'viewBox="0 0 %d %d" width="%d" height="%d">' %
           (WIDTH, height, WIDTH, height))
    yield "<style>%s</style>" % STYLE
    yield '<rect width="100%" height="100%" rx="8" fill="#0d1117"/>'
    when = 0
    for number, line in enumerate(lines):
        kind = "$" if line.startswith("$") else " "
        when += PAUSE[kind]
        yield ('<text x="%d" y="%d"%s style="animation-delay:%.2fs">%s</text>' %
               (MARGIN, MARGIN + LINE * number + FONT, ' class="command"' if kind == "$" else "",
                when, html.escape(line, quote=False)))
    yield "</svg>"


def main():
    arguments = [a for a in sys.argv[1:] if a != "--text"]
    folder, commands = arguments[:2]
    with open(commands, encoding="utf-8") as f:
        commands = f.read().splitlines()
    with tempfile.TemporaryDirectory() as shared:
        environment = dict(os.environ, PATH=os.path.abspath(folder) + ":" + os.environ["PATH"],
                           ANYVERBS_DIR=shared, NO_COLOR="1", SHELL="/bin/bash")
        lines = record(commands, environment)
    if "--text" in sys.argv:
        print("\n".join(lines))
        return
    with open(arguments[2], "w", encoding="utf-8") as f:
        f.writelines(part + "\n" for part in draw(lines))


if __name__ == "__main__":
    main()
