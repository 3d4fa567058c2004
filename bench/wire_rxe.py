#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
wire_rxe.py BUILD-FOLDER [--rounds N] [--seconds N]

The wire beside the kernel's own RoCEv2 (rdma_rxe): the same perftest programs in the emulated
machine of tests/net/interop, between two of ours and between two of the kernel's, over the same
kind of cable. The processor is emulated: only ratios mean anything. --seconds is as of compare.py.

Exit status: 1 if a program failed; 77 if there can be no such machine.
"""
import argparse
import os
import re
import subprocess
import sys

import compare
import figures
import programs
import report

TABLE = os.path.join(programs.HERE, "wire_rxe.txt")
INTEROP = os.path.join(programs.HERE, "..", "tests", "net", "interop", "interop.py")
SOURCES = {"rxe-rxe": figures.RXE, "any-any": figures.ANYVERBS}
SKIPPED = 77
ROW_SECONDS = 60  # for one program: only one that hangs meets it


def rows_of(table):
    """(source, operation, size) of each row that the machine runs, in its order."""
    for line in table.splitlines():
        if line.startswith("#"):
            continue
        _, pairs, _, _, command = line.split("|")
        operation, size = re.match(r" ib_(\w+) -s (\d+)", command).groups()
        for pair in pairs.split():
            yield SOURCES[pair], operation, int(size)


def value(operation, output):
    """None: the program has not come to its end."""
    try:
        row = programs.perftest_row(output)
    except programs.Failed:
        return None
    return row[4] if figures.falls(operation) else row[3] / 8


def values(rows, console):
    """What the clients have measured, by row. @rows: of rows_of()"""
    said = {number: [] for number in range(len(rows))}
    for number, line in re.findall(r"^(\d+) client\| ?(.*)$", console, re.MULTILINE):
        said[int(number)].append(line)
    return {row: value(row[1], "\n".join(said[number])) for number, row in enumerate(rows)}


def measure(build, rows, complaints):
    """A round, as figures.rows() takes it."""
    words = [sys.executable, "-B", INTEROP, "--library", programs.library(build),
             "--tool", programs.tool(build), "--cache", os.path.join(build, "interop"),
             "--table", TABLE, "--pairs", *SOURCES, "--console",
             "--row-seconds", str(ROW_SECONDS), "--seconds", str(ROW_SECONDS * len(rows))]
    done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
                          check=False)
    if done.returncode == SKIPPED:
        print("not compared with %s: %s" % (figures.RXE, done.stdout))
        sys.exit(SKIPPED)
    found = values(rows, done.stdout)
    complaints.extend(row for row, measured in found.items() if measured is None)
    return {(operation, size): found for _, operation, size in rows}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float)
    args = parser.parse_args()
    with open(TABLE, encoding="ascii") as table:
        rows = list(rows_of(table.read()))
    complaints = []
    rounds = compare.repeat(args, "emulated machine",
                            lambda: measure(args.build, rows, complaints))
    report.print_rows("Between two hosts, in an emulated machine",
                      figures.rows(figures.EXPECTED_WIRE_RXE, rounds))
    for source, operation, size in complaints:
        print("%s failed at least once: %s of %d B" % (source, operation, size))
    sys.exit(1 if any(source in figures.OURS for source, *_ in complaints) else 0)


if __name__ == "__main__":
    main()
