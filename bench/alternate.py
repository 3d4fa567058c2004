#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
alternate.py BUILD-A BUILD-B [--rounds N] [--only WORD] [--quick]

Two builds compared, before (A) and after (B), as `anyverbs run` preloads them: unmodified perftest
programs on one and the other in turn, and the kinds of SEND of bench_send_kinds, which B has. In
each round a figure is measured with both builds at one distance of the two cores; their ratio
counts, B to A. The table gives the median of the ratios and their quartiles.

--only WORD: figures whose name contains it. --quick: to see that everything runs.

A bound is met if the median meets it; "even" says that it does not, but that the quartiles are on
either side of the bound. Exit status: 1 if a program failed.
"""
import argparse
import sys
import time
from collections import namedtuple
from statistics import median, quantiles

import figures
import programs
import report
import steady

LATENCY_MOST, RATE_LEAST = 1.10, 0.85  # of 8 bytes; everything larger is at least equal
SIZES = [4096, 65536, 1 << 20]
KINDS = ("send", "write", "read")

# @measure: from a build to {(operation, size): value}; @key: the one of them that counts
Case = namedtuple("Case", "key bound measure")


def perftest_cases(quick):
    scale = 50 if quick else 1

    def perftest(build):
        return programs.our_perftest(build, bandwidth_bytes=programs.BANDWIDTH_BYTES // scale,
                                     rate_count=programs.RATE_COUNT // scale)

    for kind in (*KINDS, "atomic"):
        yield Case((kind + "_lat", 8), LATENCY_MOST, lambda b, k=kind: perftest(b).latency(k, 8))
    for kind in KINDS[:2]:
        yield Case((kind + "_rate", 8), RATE_LEAST,
                   lambda b, k=kind: perftest(b).rate(k, 8, figures.RATE_DEPTH))
    for kind in KINDS:
        for size in SIZES:
            yield Case((kind + "_lat", size), 1.0,
                       lambda b, k=kind, s=size: perftest(b).latency(k, s))
            yield Case((kind + "_bw", size), 1.0,
                       lambda b, k=kind, s=size: perftest(b).bandwidth(k, s))


def send_kind_cases(program_of, quick):
    """The program of one build, with the library of either."""
    for kind, size in programs.SEND_KINDS:
        yield Case((kind + "_lat", size), LATENCY_MOST if size == 8 else 1.0,
                   lambda b, k=kind, s=size: programs.send_kind(program_of, b, k, s, quick))


def cases(args):
    found = [*perftest_cases(args.quick), *send_kind_cases(args.after, args.quick)]
    return [case for case in found if args.only in case.key[0]]


def measure(case, builds, swapped, ruler):
    """One round of a figure. Return: (value of A, value of B, distance)"""
    order = builds[::-1] if swapped else builds
    results, distance = steady.together(ruler, [lambda b=build: case.measure(b) for build in order])
    values = [result[case.key] for result in results]
    return (*(values[::-1] if swapped else values), distance)


def quartiles(ratios):
    if len(ratios) == 1:
        return ratios[0], ratios[0]
    first, _, third = quantiles(ratios, n=4, method="inclusive")
    return first, third


def verdict(case, ratios):
    ratio = median(ratios)
    falls = figures.falls(case.key[0])
    if ratio <= case.bound if falls else ratio >= case.bound:
        return "met"
    first, third = quartiles(ratios)
    return "even" if first <= case.bound <= third else "NOT"


def print_line(case, runs):
    """@runs: of measure()"""
    ratios = [b / a for a, b, _ in runs]
    first, third = quartiles(ratios)
    operation, size = case.key
    unit = report.unit(operation)
    print("%-14s %8s %12s %12s %7.3f %7.3f %7.3f %3d  %s %-5g %-4s  %s" %
          (operation, report.size_text(size),
           *("%s %s" % (report.number(median(run[i] for run in runs)), unit) for i in (0, 1)),
           median(ratios), first, third, len(ratios), "<=" if figures.falls(operation) else ">=",
           case.bound, verdict(case, ratios),
           " ".join("%.0f" % (1000 * distance) for _, _, distance in runs)))


def arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before")
    parser.add_argument("after")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", default="")
    parser.add_argument("--quick", action="store_true")
    return parser.parse_args()


def rounds_of(wanted, pair, rounds, ruler, title):
    """
    Measure the cases on both of @pair in turn, and print a table with that @title. Return: a
    complaint for each case that failed
    """
    found, complaints, moved = {case.key: [] for case in wanted}, {}, 0
    begin = time.monotonic()
    for number in range(rounds):
        for case in wanted:
            try:
                run = measure(case, pair, number % 2, ruler)
            except programs.Failed as failed:
                complaints.setdefault(case.key, str(failed))
                continue
            if run[2] is None or not all(figures.is_measured(value) for value in run[:2]):
                moved += 1
            else:
                found[case.key].append(run)
    seconds = time.monotonic() - begin
    print("%d rounds in %.0f s on %s" % (rounds, seconds, programs.processor()))
    print(title)
    print("%-14s %8s %12s %12s %7s %7s %7s %3s  %-13s  %s" %
          ("FIGURE", "SIZE", "A", "B", "B/A", "Q1", "Q3", "N", "EXPECTED",
           "DISTANCE OF THE CORES IN EACH ROUND, ns"))
    for case in wanted:
        if found[case.key]:
            print_line(case, found[case.key])
    if moved:
        print("%d runs left out: the cores' distance changed in each try, or a value was 0" % moved)
    for key, complaint in complaints.items():
        print("%s of %d failed at least once: %s" % (*key, complaint))
    return complaints


def main():
    args = arguments()
    complaints = rounds_of(cases(args), [args.before, args.after], args.rounds,
                           steady.ruler(args.after), "A: %s\nB: %s" % (
                               programs.library(args.before), programs.library(args.after)))
    sys.exit(1 if complaints else 0)


if __name__ == "__main__":
    main()
