#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Run a tier of the tests, hold each to its budget, and say in one line what came of it.

    check.py build/dev quick             every test of the tier
    check.py build/dev quick -R explain  further arguments are ctest's

A test that takes longer than its tier allows fails. Other programs may have taken the cores, so it
has a second chance alone. If others want the cores meanwhile, its processor time is judged. On a
slow machine it may take longer.
"""

import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
import xml.etree.ElementTree

BUDGETS = {"quick": 2.0}  # seconds
REST = {"quick": "make check-all runs the rest", "full": "make check-nightly runs the rest",
        "nightly": "this is all"}
SUM_SECONDS = 0.04  # what sum_up() takes where the budgets hold
CORES = os.cpu_count() or 1
JOBS = {"quick": 2 * CORES}  # most of these wait; others use the cores


def ctest(build, tier, junit, *arguments):
    return subprocess.run(["ctest", "--test-dir", build, "-L", f"^{tier}$", "--no-tests=error",
                           "--output-on-failure", "--output-junit", junit, *arguments],
                          check=False).returncode


def results(junit):
    """name -> (status, seconds, output); status: run, fail, notrun"""
    cases = xml.etree.ElementTree.parse(junit).getroot().iter("testcase")
    return {case.get("name"): (case.get("status"), float(case.get("time")),
                               case.findtext("system-out") or "") for case in cases}


class Share:
    """How much of a core a thread got that wanted one all the time: 1.0 on an idle machine."""

    def __enter__(self):
        self.ends = False
        self.share = 1.0
        self.thread = threading.Thread(target=self.spin)
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ends = True
        self.thread.join()

    def spin(self):
        begin = time.monotonic()
        while not self.ends:
            pass
        self.share = time.thread_time() / (time.monotonic() - begin)


def sum_up():
    """Processor time that it takes."""
    begin, total = time.thread_time(), 0
    for i in range(1000000):
        total += i
    return time.thread_time() - begin


def slowness():
    """How much longer than it should a computation takes on this machine now; at least 1."""
    return max(1.0, sum_up() / SUM_SECONDS)


def children_used():
    """Processor time of all children that have ended, and of theirs."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def takes_alone(build, name, junit):
    """
    Seconds, as on a machine that is not slow. On a busy one, half of the processor time: caches are
    shared, too.
    """
    used, slow = children_used(), slowness()
    with Share() as mine:
        subprocess.run(["ctest", "--test-dir", build, "-R", f"^{name.replace('.', '[.]')}$",
                        "--output-junit", junit, "-Q"], check=False)
    wall, slow = results(junit)[name][1], max(slow, slowness())
    return (wall if mine.share > 0.9 else min(wall, (children_used() - used) / 2)) / slow


def last_line(text):
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1].strip() if lines else "no reason given"


def main():
    build, tier, *arguments = sys.argv[1:]
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"  # in the sources
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        junit = os.path.join(folder, "junit.xml")
        ctest(build, tier, junit, "-j", str(JOBS.get(tier, CORES)), *arguments)
        found = results(junit)
        slow = {}
        if tier in BUDGETS:
            for name, (status, seconds, _) in found.items():
                if status == "run" and seconds > BUDGETS[tier]:
                    alone = takes_alone(build, name, os.path.join(folder, "alone.xml"))
                    if alone > BUDGETS[tier]:
                        slow[name] = alone
    failed = sorted(name for name, row in found.items() if row[0] == "fail")
    skipped = sorted(name for name, row in found.items() if row[0] == "notrun")
    for name in skipped:
        print(f"skipped: {name}: {last_line(found[name][2])}")
    for name in failed:
        print(f"failed: {name}")
    for name, seconds in sorted(slow.items()):
        print(f"failed: {name} takes {seconds:.1f} s, and a test of this tier "
              f"{BUDGETS[tier]:.0f} s at most")
    minutes, seconds = divmod(int(time.monotonic() - begin), 60)
    bad = len(failed) + len(slow)
    print(f"{tier}: {len(found) - bad - len(skipped)} passed, {bad} failed, "
          f"{len(skipped)} skipped, in {minutes} min {seconds} s; {REST[tier]}")
    sys.exit(bad != 0)


if __name__ == "__main__":
    main()
