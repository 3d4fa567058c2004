#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
wire.py BUILD-FOLDER [--rounds N] [--seconds N]

Unmodified perftest programs over the wire, between two network namespaces with a cable (veth) of
MTU 9000: beside UDP packets of the same size, and UCX and libfabric over TCP. In each round, what
is compared is measured one right after the other. What is not installed is left out and named.
--seconds is as of compare.py.

Exit status: 1 if one of our programs failed; 77 if there can be no such namespaces.
"""
import argparse
import os
import sys
import tempfile

import compare
import figures
import programs
import report
import veth  # of tests/clients, by way of programs


def sources(build, where):
    """By source: a function that measures, or why there is none."""
    ours = programs.our_perftest(build, where=where)
    found = {figures.ANYVERBS: compare.by_perftest(ours),
             figures.UDP: lambda operation, size: programs.udp(build, operation, size, where),
             figures.UCX_TCP: compare.NO_UCX, figures.FABRIC_TCP: compare.NO_FABRIC}
    if programs.present("ucx_perftest"):
        # Each has one of the two interfaces, and looks for it in its own /sys.
        own_sys = ["unshare", "-m", "sh", "-c", 'mount -t sysfs sysfs /sys && exec "$@"', "-"]
        found[figures.UCX_TCP] = lambda operation, size: programs.ucx(
            "tcp", operation, size, own_sys, {"UCX_NET_DEVICES": "v0,v1"}, where=where)
    if programs.present("fi_pingpong"):
        found[figures.FABRIC_TCP] = lambda _, size: programs.fabric(size, ("tcp", "msg"), where)
    return found


def measure(args, where, complaints):
    found = sources(args.build, where)
    able = {source: measure for source, measure in found.items() if callable(measure)}
    for source, why in found.items():
        if source not in able:
            print("not compared with %s: %s" % (source, why))
    return compare.repeat(
        args, "two hosts",
        lambda: compare.one_round(figures.EXPECTED_WIRE, able, lambda: 1, complaints))


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float)
    args = parser.parse_args()
    veth.enter()
    complaints = {}
    with tempfile.TemporaryDirectory() as here, tempfile.TemporaryDirectory() as there, \
            veth.TwoHosts(own_folders=True) as hosts:
        os.environ["ANYVERBS_DIR"] = here
        words = [*veth.inside(hosts.holder), "env", "ANYVERBS_DIR=" + there]
        rounds = measure(args, programs.Where(words, hosts.server_address), complaints)
    report.print_rows("Between two hosts", figures.rows(figures.EXPECTED_WIRE, rounds))
    for source, complaint in complaints.items():
        print("%s failed at least once: %s" % (source, complaint))
    sys.exit(1 if any(source in complaints for source in figures.OURS) else 0)


if __name__ == "__main__":
    main()
