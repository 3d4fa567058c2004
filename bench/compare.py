#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
compare.py BUILD-FOLDER [--rounds N] [--only rxe] [--pictures FOLDER] [--guard FILE] [--record FILE]

anyverbs under unmodified perftest programs beside other ways between two processes of this machine,
in the same run: all sources take turns, round after round. Then UCX over anyverbs. What is not
installed is left out and named.

--only rxe: only what is compared with the kernel's Soft-RoCE, for a slow machine that has that.
--only ucx: only UCX over anyverbs.
--record FILE writes the ratios of this run.
--guard FILE says which ratios are much worse than those in the file.

Exit status: 1 if one of our programs failed, or if a ratio is much worse than recorded on a
processor of the same name. Other processors have other ratios, so those are only reported.
"""
import argparse
import os
import sys
import time

import figures
import programs
import report
import steady

WORSE = 1.5  # how much worse than recorded a ratio may be: machines have their moods


NO_UCX = "ucx_perftest is not installed (package ucx-utils)"


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


def anyverbs(build):
    perftest = programs.our_perftest(build)
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
    ours = measure_figures(programs.our_perftest(build), figures.EXPECTED_RXE)
    return [(figures.ANYVERBS, list(ours), None), soft_roce()]


def sources(build):
    """(name, list of measurements, why not) for each source."""
    found = [(figures.ANYVERBS, list(anyverbs(build)), None),
             (figures.LIMIT, [lambda: programs.limit(build, figures.SIZES)], None)]
    if programs.present("ucx_perftest"):
        lines = list(programs.ucx_lines(figures.SIZES))
        found.append((figures.UCX, [lambda: programs.ucx("posix,cma", lines)], None))
        found.append((figures.CMA, [lambda: programs.ucx_cma(figures.CMA_SIZES)], None))
    else:
        found.append((figures.UCX, [], NO_UCX))
    if programs.present("fi_pingpong"):
        measurements = [lambda s=size: programs.fabric(s) for size in figures.SIZES]
        found.append((figures.FABRIC, measurements, None))
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


# --- UCX over anyverbs ---

def heaps(build):
    return [False, True] if programs.has_shared_heap(build) else [False]


def over_round(build, found, complaints):
    """Add each figure's (value, distance) to its list in @found: (operation, size, shared heap)."""
    for operation, size in figures.OVER_SIZES:
        for heap in heaps(build):
            def measure(o=operation, s=size, h=heap):
                return programs.ucx_over(build, h, o, s)[(o, s)]
            try:
                (value,), distance = steady.together(steady.ruler(build), [measure])
                found.setdefault((operation, size, heap), []).append((value, distance))
            except programs.Failed as failed:
                complaints.setdefault(figures.OVER, str(failed))


def over(build, rounds, complaints):
    found = {}
    if not programs.present("ucx_perftest"):
        print("\nnothing of %s: %s" % (figures.OVER, NO_UCX))
        return
    for _ in range(rounds):
        over_round(build, found, complaints)
    report.print_over(found)


# --- what was recorded ---

PROCESSOR = "# processor: "


def read_recorded(path):
    """The ratios by name, and the processor's name; None: it is not known."""
    with open(path, encoding="ascii") as f:
        lines = [line.strip() for line in f]
    rows = [line.split() for line in lines if line and not line.startswith("#")]
    names = [line[len(PROCESSOR):] for line in lines if line.startswith(PROCESSOR)]
    return {name: float(ratio) for name, ratio in rows}, names[0] if names else None


def regressions(rows, recorded):
    for row in rows:
        before = recorded.get(row.name())
        if before is None:
            continue
        falls = figures.falls(row.figure.operation)
        worse = row.ratio() / before if falls else before / row.ratio()
        if worse > WORSE:
            yield "%s: ratio %.3g, recorded %.3g" % (row.name(), row.ratio(), before)


def guard(path, rows, processor):
    """Say what is worse than recorded. Return: is it a failure?"""
    recorded, recorded_on = read_recorded(path)
    worse = list(regressions(rows, recorded))
    for line in worse:
        print("worse than recorded:", line)
    if recorded_on == processor:
        return bool(worse)
    print("recorded on another processor (%s; this one: %s): nothing follows from that" %
          (recorded_on or "unknown", processor))
    return False


def record(path, rows, processor):
    with open(path, "w", encoding="ascii") as f:
        f.write("# Ratios of anyverbs to its peers; compare.py --guard compares with them.\n")
        f.write(PROCESSOR + processor + "\n")
        f.writelines("%s %.4g\n" % (row.name(), row.ratio()) for row in rows)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", choices=["rxe", "ucx"])
    parser.add_argument("--pictures")
    parser.add_argument("--guard")
    parser.add_argument("--record")
    return parser.parse_args()


def compare(args, complaints):
    """All rounds of all sources. Return: the rows of what is expected"""
    found = sources_of_soft_roce(args.build) if args.only == "rxe" else sources(args.build)
    rounds = []
    begin = time.monotonic()
    for _ in range(args.rounds):
        rounds.append(one_round(found, complaints))
    print("\n%d rounds in %.0f s; medians of the ratios; SPREAD is (maximum - minimum) / median" %
          (args.rounds, time.monotonic() - begin))
    for source, _, why in found:
        if why:
            print("not compared with %s: %s" % (source, why))
    expected = figures.rows(figures.EXPECTED + figures.EXPECTED_RXE, rounds)
    report.print_rows("What is expected", expected)
    report.print_rows("Every size", figures.rows(figures.every_size(), rounds))
    if args.pictures:
        if programs.present("gnuplot"):
            report.draw_all(args.pictures, rounds)
        else:
            print("no pictures: gnuplot is not installed (package gnuplot-nox)")
    return expected


def main():
    args = arguments()
    complaints, expected = {}, []
    if args.only != "ucx":
        expected = compare(args, complaints)
    if args.only != "rxe":
        over(args.build, args.rounds, complaints)
    for source, complaint in complaints.items():
        print("%s failed at least once: %s" % (source, complaint))
    if args.record:
        record(args.record, expected, programs.processor())
    worse = args.guard and guard(args.guard, expected, programs.processor())
    sys.exit(1 if worse or any(source in complaints for source in figures.OURS) else 0)


if __name__ == "__main__":
    main()
