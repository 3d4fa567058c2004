#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""What the shared heap costs whole programs: time, processor time and memory.

    bench/commands.py BUILD [--mib 4096] [--rounds 1] [--only ordinary|opened|forks]

Runs the commands of tests/tool/ordinary.txt, which open no device, as they are and with the heap
"never", "open" and "always"; those of opened.txt, which open one, in the latter three ways; and
a program that opens a device, writes --mib of memory and forks five times beside threads that
store, each time writing all of it once more while the child compares it. The tests tool.ordinary
and tool.opened compare what the commands print. Prints sums over the commands of the medians of
the rounds, of which one takes three minutes. Wants a quiet machine with three times that memory.
"""
import argparse
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
TESTS = os.path.join(HERE, "..", "tests", "tool")
LIMIT = "60"  # seconds, of a command
sys.path.insert(0, TESTS)
import ordinary  # noqa: E402  pylint: disable=wrong-import-position


class Taken:
    """The most memory that all processes have taken since the beginning, in bytes."""

    def __init__(self):
        self.begin = self.least = self.available()
        self.end = threading.Event()
        self.thread = threading.Thread(target=self.watch)
        self.thread.start()

    @staticmethod
    def available():
        with open("/proc/meminfo", encoding="ascii") as f:
            return next(int(line.split()[1]) << 10 for line in f if line.startswith("MemAvail"))

    def watch(self):
        while not self.end.wait(0.02):
            self.least = min(self.least, self.available())

    def most(self):
        self.end.set()
        self.thread.join()
        return self.begin - self.least


def measure(command, before):
    """Return: seconds, seconds of processors, largest process in bytes, memory of all; None."""
    with tempfile.TemporaryDirectory() as folder:
        taken, begin = Taken(), time.monotonic()
        pid = subprocess.Popen(["timeout", LIMIT] + before + ["bash", "-c", command], cwd=folder,
                               stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL, start_new_session=True).pid
        _, status, used = os.wait4(pid, 0)
        took, most = time.monotonic() - begin, taken.most()
    if os.WIFEXITED(status) and os.WEXITSTATUS(status) in (77, 124, 127):
        return None
    return took, used.ru_utime + used.ru_stime, used.ru_maxrss << 10, most


def compare(title, commands, ways, rounds):
    """Print a line for each way: sums of medians."""
    sums = {name: [0.0] * 4 for name in ways}
    count = 0
    begin = time.monotonic()
    for command in commands:
        results = {name: [] for name in ways}
        for _ in range(rounds):
            for name, before in ways.items():
                results[name].append(measure(command, before))
        if any(None in r for r in results.values()):
            print("left out: %.60s" % command.splitlines()[-1])
            continue
        count += 1
        for name, r in results.items():
            for i, column in enumerate(zip(*r)):
                sums[name][i] += statistics.median(column)
    print("%s (%d commands, %.0f s)" % (title, count, time.monotonic() - begin))
    for name, (took, used, largest, most) in sums.items():
        print("  %-8s %8.2f s %8.2f s of processors %8.0f MiB of processes %8.0f MiB at most"
              % (name, took, used, largest / (1 << 20), most / (1 << 20)), flush=True)


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    p.add_argument("build")
    p.add_argument("--mib", type=int, default=4096, help="memory of the program that forks")
    p.add_argument("--rounds", type=int, default=1)
    p.add_argument("--only", choices=["ordinary", "opened", "forks"])
    args = p.parse_args()
    if os.environ.get("OWN_NETWORK") != "yes":  # with the address that commands name
        network = os.path.join(TESTS, "../lib/own_network.sh")
        os.execv(network, [network, "--or-host", sys.executable, "-B", *sys.argv])
    tool = os.path.abspath(os.path.join(args.build, "bin", "anyverbs"))
    user = os.path.abspath(os.path.join(args.build, "tests", "tool", "tool_device_user"))
    heap = {when: [tool, "run", "--shared-heap=" + when, "--"]
            for when in ("never", "open", "always")}
    prelude = ". %s\nuser=%s%s" % (shlex.quote(os.path.join(TESTS, "../lib/wait.sh")),
                                   shlex.quote(user), ordinary.BOTH)
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        os.environ.update(ANYVERBS_DIR=folder, LC_ALL="C", HOME=folder)
        if args.only in (None, "ordinary"):
            compare("no device", ordinary.table("ordinary.txt"), {"without": [], **heap},
                    args.rounds)
        if args.only in (None, "opened"):
            compare("a device", [prelude + c for c in ordinary.table("opened.txt")], heap,
                    args.rounds)
        if args.only in (None, "forks"):
            compare("%d MiB and 5 forks" % args.mib,
                    ["%s fork %d 5" % (shlex.quote(user), args.mib)], heap, args.rounds)


main()
