#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Debian's tensorpipe, the transport of PyTorch's RPC, over the device and nothing else:
tensorpipe_traffic.cc between two processes. It opens libibverbs by dlopen()."""
import os
import subprocess
import sys
import time

import pair

HERE = os.path.dirname(os.path.abspath(__file__))
CHANNELS = ("basic", "mpt")


def compiled(scratch, cxx):
    """The program; skips the test where tensorpipe is missing."""
    probe = subprocess.run([cxx, "-x", "c++", "-fsyntax-only", "-"], check=False, text=True,
                           input="#include <tensorpipe/tensorpipe.h>", capture_output=True)
    if probe.returncode:
        pair.skip("no tensorpipe/tensorpipe.h (package libtensorpipe-dev)")
    program = os.path.join(scratch.path, "tensorpipe_traffic")
    subprocess.run([cxx, "-std=c++17", "-O1", "-Wall", "-o", program,
                    os.path.join(HERE, "tensorpipe_traffic.cc"), "-ltensorpipe", "-lpthread"],
                   check=True, timeout=300)
    return program


def url_of(server, deadline):
    """What the server prints first; None if it does not."""
    while server.code() is None and time.monotonic() < deadline:
        lines = server.output().splitlines(keepends=True)
        if lines and lines[0].startswith("ibv://") and lines[0].endswith("\n"):
            return lines[0].strip()
        time.sleep(pair.POLL_SECONDS)
    return None


def run_sides(scratch, program, channel, sides, limit):
    """Start both and wait; @sides is filled as they start.
    Return: None, or what went wrong."""
    deadline = time.monotonic() + limit
    sides.append(pair.Side(scratch, "server", {}, [program, "listen", channel]))
    url = url_of(sides[0], deadline)
    if url is None:
        return "no address from the server"
    sides.append(pair.Side(scratch, "client", {}, [program, "connect", channel, url]))
    return pair.wait_for_both(*sides, deadline)


def judge(sides):
    for side in sides:
        if side.code() != 0:
            return side.ending()
        if "all correct" not in side.output():
            return "no word of success from the " + side.name
    return None


def run_channel(scratch, program, channel, limit):
    """Return: did it go well?"""
    sides, start = [], time.monotonic()
    try:
        problem = run_sides(scratch, program, channel, sides, limit) or judge(sides)
    finally:
        for side in sides:
            side.end()
    result = "PASS" if problem is None else "FAIL (%s)" % problem
    print("%5.1f s  channel %s  %s" % (time.monotonic() - start, channel, result), flush=True)
    if problem:
        print("\n".join(side.tail() for side in sides), flush=True)
    return problem is None


def options():
    p = pair.parser(__doc__)
    p.add_argument("--cxx", required=True, help="compiler of C++")
    p.add_argument("--limit", type=float, default=120, help="seconds for one run")
    return p.parse_args()


def main():
    args = options()
    with pair.Scratch(args.library, None, args.preload) as scratch:
        program = compiled(scratch, args.cxx)
        results = [run_channel(scratch, program, channel, args.limit) for channel in CHANNELS]
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()
