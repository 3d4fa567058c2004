#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""
alone.py CC PROGRAM...: no program of many tests defines a function of the C library, which all of
its tests would call. Such a test is alone: tests/many.cmake.
"""
import subprocess
import sys

# Those that define the clock for all of their tests.
MEANT = ("unit_transport_link",)
OF_EACH_PROGRAM = {"main", "_init", "_fini", "_start"}


def functions(*arguments):
    shown = subprocess.run(["nm", "--defined-only", *arguments], check=True, text=True,
                           stdout=subprocess.PIPE).stdout
    rows = [line.split() for line in shown.splitlines()]
    return {row[2].split("@")[0] for row in rows if len(row) == 3 and row[1] in "TWi"}


def main():
    compiler, *programs = sys.argv[1:]
    libc = subprocess.run([compiler, "-print-file-name=libc.so.6"], check=True, text=True,
                          stdout=subprocess.PIPE).stdout.strip()
    theirs = functions("-D", libc) - OF_EACH_PROGRAM
    bad = False
    for program in programs:
        if not program.endswith(MEANT):
            for name in sorted(functions("-g", program) & theirs):
                print(f"{program} defines {name}")
                bad = True
    sys.exit(bad)


main()
