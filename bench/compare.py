#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
compare.py BUILD-FOLDER [--rounds N] [--seconds N] [--only rxe|over] [--pictures FOLDER]
           [--guard FILE] [--record FILE]

anyverbs under unmodified perftest programs beside other ways between two processes of this machine.
In each round every figure of anyverbs is measured together with those that it is compared with, at
one distance of the two cores. Then UCX, Open MPI and libfabric over anyverbs. What is not installed
is left out and named.

--seconds N: begin no round that would probably not end in time, but one of each kind at least.
--only rxe: only what is compared with the kernel's Soft-RoCE, for a slow machine that has that.
--only over: only UCX, Open MPI and libfabric over anyverbs.
--record FILE writes the ratios of this run.
--guard FILE says which ratios are much worse than those in the file.

Exit status: 1 if one of our programs failed, or if a ratio is much worse than recorded on a
processor of the same name. Other processors have other ratios, so those are only reported.
"""
import argparse
import os
import re
import sys
import time

import figures
import programs
import report
import steady

WORSE = 1.5  # how much worse than recorded a ratio may be: machines have their moods
NO_UCX = "ucx_perftest is not installed (package ucx-utils)"
NO_FABRIC = "fi_pingpong is not installed (package libfabric-bin)"


# --- who measures what: by source, from an operation and a size to {(operation, size): value} ---

def by_perftest(perftest):
    def measure(operation, size):
        kind, number, what, times = re.fullmatch("([a-z]+)([0-9]*)_([a-z]+)([0-9]*)",
                                                 operation).groups()
        if what == "lat":
            return perftest.latency(kind, size)
        found = (perftest.bandwidth(kind, size * int(times or 1), int(number or 1))
                 if what == "bw" else
                 perftest.rate(kind, size, figures.RATE_DEPTH, int(number or 1)))
        return {(operation, size): value for value in found.values()}
    return measure


def kernel_device():
    """A Soft-RoCE device of the kernel's, or None."""
    try:
        names = sorted(os.listdir("/sys/class/infiniband"))
    except FileNotFoundError:
        return None
    return next((name for name in names if name.startswith("rxe")), None)


def with_connections(perftest):
    """Connections, too: with an address that the kernel's device has, and ours as well."""
    measure = by_perftest(perftest)

    def either(operation, size):
        if operation != figures.CONNECT:
            return measure(operation, size)
        if not programs.present("cmtime"):
            return {}
        with open("/sys/class/infiniband/%s/parent" % kernel_device(), encoding="utf-8") as f:
            address = programs.own_address(f.read().strip())
        return {(operation, size): programs.connect_us(address, perftest.settings)}
    return either


def by_soft_roce():
    device = kernel_device()
    if not device:
        return "the kernel has no such device"
    slow = programs.SLOW_BANDWIDTH_BYTES
    return with_connections(programs.Perftest(device, {}, bandwidth_bytes=slow))


def peers(build):
    """By source: a function that measures, or why there is none."""
    def limit(operation, size):
        return programs.limit(build, [] if operation == "line_lat" else [size])

    found = {figures.LIMIT: limit,
             figures.UCX: NO_UCX, figures.CMA: NO_UCX,
             figures.FABRIC: NO_FABRIC,
             figures.RXE: by_soft_roce()}
    if programs.present("ucx_perftest"):
        found[figures.UCX] = programs.ucx_shm
        found[figures.CMA] = programs.ucx_cma
    if programs.present("fi_pingpong"):
        found[figures.FABRIC] = lambda operation, size: programs.fabric(size)
    return found


# --- rounds ---

def groups(wanted, sources):
    """What is measured together: keys of values, ours first, for each (operation, size) of ours."""
    found = {}
    for figure in wanted:
        ours = (figures.ANYVERBS, figure.operation, figure.size)
        keys = [key for key in figure.keys() if key[0] in sources]
        if keys:
            group = found.setdefault(ours, [ours])
            group += [key for key in keys if key not in group]
    return list(found.values())


def measure_group(group, sources, ruler, complaints):
    """The values of the group's keys, of one round. A source that fails has none."""
    def measure(source, operation, size):
        try:
            return sources[source](operation, size)
        except programs.Failed as failed:
            complaints.setdefault(source, str(failed))
            return {}

    results, distance = steady.together(ruler, [lambda k=key: measure(*k) for key in group])
    if distance is None:
        return {}
    return {(source, operation, size): values[(operation, size)]
            for (source, operation, size), values in zip(group, results)
            if (operation, size) in values}


def one_round(wanted, sources, ruler, complaints):
    """By (operation, size): one peer's value may be measured more than once, at other distances."""
    values = {}
    for group in groups(wanted, sources):
        try:
            values[group[0][1:]] = measure_group(group, sources, ruler, complaints)
        except programs.Failed as failed:  # the ruler
            complaints.setdefault(figures.LIMIT, str(failed))
    return values


def repeat(args, what, measure):
    """What @measure returns, once a round, in a list. Progress goes to standard error."""
    begin, found = time.monotonic(), []
    while len(found) < args.rounds:
        print("%s: round %d of at most %d, after %.0f s" %
              (what, len(found) + 1, args.rounds, time.monotonic() - begin), file=sys.stderr)
        found.append(measure())
        spent = time.monotonic() - begin
        if args.seconds and spent + spent / len(found) > args.seconds:
            break
    return found


# --- UCX, Open MPI and libfabric over anyverbs ---

def over_round(build, ruler, found, missing, complaints):
    """Add (the value over anyverbs, that of its own memory, distance) to each list of @found;
    programs that are not installed to @missing."""
    for operation, size, *_ in figures.OVER_SIZES:
        key = operation, size
        if programs.missing_over(operation):
            missing.add(programs.missing_over(operation))
            continue
        ways = [lambda k=key: programs.over(build, *k)[k], lambda k=key: programs.own(*k)[k]]
        try:
            values, distance = steady.together(ruler, ways)
            found.setdefault(key, []).append((*values, distance))
        except programs.Failed as failed:
            complaints.setdefault(figures.OVER, str(failed))


def over(args, complaints):
    found, missing, ruler = {}, set(), steady.ruler(args.build)
    repeat(args, figures.OVER, lambda: over_round(args.build, ruler, found, missing, complaints))
    report.print_over(found)
    for words in missing:
        print("left out of %s, since not installed: %s" % (figures.OVER, words))


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
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--only", choices=["rxe", "over"])
    parser.add_argument("--pictures")
    parser.add_argument("--guard")
    parser.add_argument("--record")
    return parser.parse_args()


def compare(args, complaints):
    """All rounds of all sources. Return: the rows of what is expected"""
    expected = figures.EXPECTED_RXE
    wanted, ruler = expected, lambda: 1  # an emulated machine has no distances
    if args.only != "rxe":
        expected = figures.EXPECTED + figures.EXPECTED_RXE
        wanted, ruler = [*expected, *figures.every_size()], steady.ruler(args.build)
    found = peers(args.build)
    sources = {source: measure for source, measure in found.items() if callable(measure)}
    sources[figures.ANYVERBS] = with_connections(programs.our_perftest(args.build))
    begin = time.monotonic()
    rounds = repeat(args, "programs", lambda: one_round(wanted, sources, ruler, complaints))
    print("\n%d rounds in %.0f s; medians of the ratios; SPREAD is (maximum - minimum) / median" %
          (len(rounds), time.monotonic() - begin))
    for source, why in found.items():
        if source not in sources:
            print("not compared with %s: %s" % (source, why))
    rows = figures.rows(expected, rounds)
    report.print_rows("What is expected", rows)
    report.print_rows("Every size", figures.rows(figures.every_size(), rounds))
    if args.pictures:
        draw(args, rounds, complaints)
    return rows


def draw(args, rounds, complaints):
    """With what the machine allows at every size, which is measured once."""
    if not programs.present("gnuplot"):
        print("no pictures: gnuplot is not installed (package gnuplot-nox)")
        return
    try:
        limits = programs.limit(args.build, figures.SIZES)
    except programs.Failed as failed:
        complaints.setdefault(figures.LIMIT, str(failed))
        limits = {}
    named = {(figures.LIMIT, *key): value for key, value in limits.items()}
    together = [values for found in rounds for values in found.values()]
    report.draw_all(args.pictures, [*together, named])


def main():
    args = arguments()
    complaints, expected = {}, []
    if args.only != "over":
        expected = compare(args, complaints)
    if args.only != "rxe":
        over(args, complaints)
    for source, complaint in complaints.items():
        print("%s failed at least once: %s" % (source, complaint))
    if args.record:
        record(args.record, expected, programs.processor())
    worse = args.guard and guard(args.guard, expected, programs.processor())
    sys.exit(1 if worse or any(source in complaints for source in figures.OURS) else 0)


if __name__ == "__main__":
    main()
