#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Run a command on a busy machine: each core is taken away again and again, at random.

    scripts/busy.py [--idle MS] [--busy MS] -- ctest --preset dev -L multi -j3

A test that expects one process to be faster than another, or a packet to be answered in time, fails
so sooner or later. Wants root: what takes the cores has real-time priority. Exits as the command
does.
"""
import argparse
import multiprocessing
import os
import random
import subprocess
import sys
import time

PRIORITY = 10


def take(core, idle, busy):
    """Take @core for up to @busy seconds, then leave it alone for up to @idle, without end."""
    os.sched_setaffinity(0, {core})
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(PRIORITY))
    while True:
        time.sleep(random.uniform(0, idle))
        end = time.monotonic() + random.uniform(0, busy)
        while time.monotonic() < end:
            pass


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    p.add_argument("--idle", type=float, default=80, help="milliseconds that a core is left alone")
    p.add_argument("--busy", type=float, default=100, help="milliseconds for which it is taken")
    p.add_argument("command", nargs="+")
    args = p.parse_args()
    if os.geteuid() != 0:
        p.error("real-time priority wants root")
    takers = [multiprocessing.Process(target=take, daemon=True,
                                      args=(core, args.idle / 1000, args.busy / 1000))
              for core in os.sched_getaffinity(0)]
    for taker in takers:
        taker.start()
    status = subprocess.run(args.command, check=False).returncode
    if not all(taker.is_alive() for taker in takers):
        sys.exit("busy.py: a core was not taken: no real-time priority here")
    sys.exit(status if status >= 0 else 128 - status)


if __name__ == "__main__":
    main()
