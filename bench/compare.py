#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
compare.py BUILD-FOLDER [--rounds N] [--only rxe] [--pictures FOLDER] [--guard FILE] [--record FILE]

anyverbs under unmodified perftest programs beside other ways between two processes of this machine, in the same run:
all sources take turns, round after round. A peer that is not installed is left out and named.

--only rxe: nothing but what is compared with the kernel's Soft-RoCE, for a machine that is slow and has that.
--record FILE writes the ratios of this run, and --guard FILE fails if one is much worse than there.
"""
import argparse
import os
import sys
import time

import figures
import programs
import report

WORSE = 1.5  # how much worse than recorded a ratio may be: machines differ, and so do their moods


def measure_perftest(perftest, sizes, kinds=("send", "write", "read")):
    for kind in kinds:
        for size in sizes:
            yield lambda k=kind, s=size: perftest.latency(k, s)
            yield lambda k=kind, s=size: perftest.bandwidth(k, s)


def measure_figures(perftest, wanted):
    """Only what these figures need."""
    for figure in wanted:
        kind, what = figure.operation.split("_")
        measure = {"lat": perftest.latency, "bw": perftest.bandwidth}[what]
        yield lambda m=measure, k=kind, s=figure.size: m(k, s)


def our_perftest(build):
    settings = {"LD_PRELOAD": os.path.abspath(os.path.join(build, "src", "verbs", "libanyverbs.so.1"))}
    return programs.Perftest("any0", settings)


def anyverbs(build):
    perftest = our_perftest(build)
    yield from measure_perftest(perftest, figures.SIZES)
    yield lambda: perftest.latency("atomic", 8)
    yield lambda: perftest.rate("send", 8, figures.RATE_DEPTH)
    yield lambda: perftest.rate("write", 8, figures.RATE_DEPTH)


def kernel_device():
    """A Soft-RoCE device of the kernel's, or None."""
    try:
        names = sorted(os.listdir("/sys/class/infiniband"))
    except FileNotFoundError:
        return None
    return next((name for name in names if name.startswith("rxe")), None)


def soft_roce():
    device = kernel_device()
    if not device:
        return figures.RXE, [], "the kernel has no such device"
    perftest = programs.Perftest(device, {}, bandwidth_bytes=programs.SLOW_BANDWIDTH_BYTES)
    return figures.RXE, list(measure_figures(perftest, figures.EXPECTED_RXE)), None


def sources_of_soft_roce(build):
    return [(figures.ANYVERBS, list(measure_figures(our_perftest(build), figures.EXPECTED_RXE)), None), soft_roce()]


def sources(build):
    """(name, list of measurements, why not) for each source."""
    found = [(figures.ANYVERBS, list(anyverbs(build)), None),
             (figures.LIMIT, [lambda: programs.limit(os.path.join(build, "bench", "limit"), figures.SIZES)], None)]
    if programs.present("ucx_perftest"):
        found.append((figures.UCX, [lambda: programs.ucx("posix,cma", programs.ucx_lines(figures.SIZES))], None))
        found.append((figures.CMA, [lambda: programs.ucx_cma(figures.CMA_SIZES)], None))
    else:
        found.append((figures.UCX, [], "ucx_perftest is not installed (package ucx-utils)"))
    if programs.present("fi_pingpong"):
        found.append((figures.FABRIC, [lambda s=size: programs.fabric(s) for size in figures.SIZES], None))
    else:
        found.append((figures.FABRIC, [], "fi_pingpong is not installed (package libfabric-bin)"))
    found.append(soft_roce())
    return found


def one_round(found, complaints):
    values = {}
    for source, measurements, _ in found:
        for measurement in measurements:
            try:
                for (operation, size), value in measurement().items():
                    values[(source, operation, size)] = value
            except programs.Failed as failed:
                complaints.setdefault(source, str(failed))
    return values


def read_recorded(path):
    with open(path, encoding="ascii") as f:
        rows = [line.split() for line in f if line.strip() and not line.startswith("#")]
    return {name: float(ratio) for name, ratio in rows}


def regressions(rows, recorded):
    for row in rows:
        before = recorded.get(row.name())
        if before is None:
            continue
        worse = row.ratio() / before if figures.falls(row.figure.operation) else before / row.ratio()
        if worse > WORSE:
            yield "%s: ratio %.3g, recorded %.3g" % (row.name(), row.ratio(), before)


def record(path, rows):
    with open(path, "w", encoding="ascii") as f:
        f.write("# Ratios of anyverbs to its peers, as measured; compare.py --guard compares with them.\n")
        f.writelines("%s %.4g\n" % (row.name(), row.ratio()) for row in rows)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", choices=["rxe"])
    parser.add_argument("--pictures")
    parser.add_argument("--guard")
    parser.add_argument("--record")
    return parser.parse_args()


def main():
    args = arguments()
    found = sources_of_soft_roce(args.build) if args.only else sources(args.build)
    complaints, rounds = {}, []
    begin = time.monotonic()
    for _ in range(args.rounds):
        rounds.append(one_round(found, complaints))
    print("\n%d rounds in %.0f s; medians of the rounds' ratios; SPREAD is (maximum - minimum) / median" %
          (args.rounds, time.monotonic() - begin))
    for source, _, why in found:
        if why:
            print("not compared with %s: %s" % (source, why))
    for source, complaint in complaints.items():
        print("%s failed at least once: %s" % (source, complaint))
    expected = figures.rows(figures.EXPECTED + figures.EXPECTED_RXE, rounds)
    report.print_rows("What is expected", expected)
    report.print_rows("Every size", figures.rows(figures.every_size(), rounds))
    if args.pictures:
        if programs.present("gnuplot"):
            report.draw_all(args.pictures, rounds)
        else:
            print("no pictures: gnuplot is not installed (package gnuplot-nox)")
    if args.record:
        record(args.record, expected)
    worse = list(regressions(expected, read_recorded(args.guard))) if args.guard else []
    for line in worse:
        print("worse than recorded:", line)
    sys.exit(1 if worse or figures.ANYVERBS in complaints else 0)


if __name__ == "__main__":
    main()
