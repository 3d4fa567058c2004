#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
containers.py BUILD [--rounds N] [--only WORD]

Unmodified perftest programs and UCX between two processes of one host (A), and the same between two
containers (B), which share the folder of the library and nothing else: PIDs, network, mounts and
users are each one's own. In each round both are measured at one distance of the two cores, and
their ratio counts, as in alternate.py.

Exit status: 1 if a program failed; 77 if there can be no such namespaces.
"""
import argparse
import os
import sys
import tempfile

import alternate
import figures
import programs
import steady
import veth  # of tests/clients, by way of programs

MOST = 1.1  # as much time in containers
CONTAINER = ["unshare", "--user", "--map-root-user", "--mount", "--pid", "--fork", "--mount-proc"]
PERFTEST = [("send_lat", 8), ("write_lat", 8), ("read_lat", 8), ("send_bw", 65536),
            ("write_bw", 65536), ("read_bw", 65536), ("write_bw", 1 << 20), ("read_bw", 1 << 20)]
UCX = [("write_lat", 8), ("send_lat", 8), ("send_bw", 65536), ("send_bw", 1 << 20)]


def by_perftest(build, operation, size, where):
    kind, what = operation.rsplit("_", 1)
    ends = programs.our_perftest(build, where=where)
    return ends.latency(kind, size) if what == "lat" else ends.bandwidth(kind, size)


def by_ucx(build, operation, size, where):
    return programs.ucx("rc_verbs,ud_verbs", operation, size,
                        [programs.tool(build), "run", "--"], programs.OVER, where=where)


def case_of(name, operation, size, measure):
    key = (name + operation, size)
    return alternate.Case(key, MOST if figures.falls(operation) else round(1 / MOST, 2),
                          lambda where: {key: measure(where)[(operation, size)]})


def cases(args):
    for operation, size in PERFTEST:
        yield case_of("", operation, size,
                      lambda where, o=operation, s=size: by_perftest(args.build, o, s, where))
    if programs.present("ucx_perftest"):
        for operation, size in UCX:
            yield case_of("ucx_", operation, size,
                          lambda where, o=operation, s=size: by_ucx(args.build, o, s, where))


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    veth.enter()
    with tempfile.TemporaryDirectory(dir="/dev/shm") as shared, \
            veth.TwoHosts(own_folders=False) as hosts:
        os.environ["ANYVERBS_DIR"] = shared
        there = programs.Where([*veth.inside(hosts.holder), *CONTAINER], hosts.server_address)
        complaints = alternate.rounds_of([case for case in cases(args) if args.only in case.key[0]],
                                         [programs.HERE_TOO, there], args.rounds,
                                         steady.ruler(args.build),
                                         "A: one host\nB: two containers")
    sys.exit(1 if complaints else 0)


if __name__ == "__main__":
    main()
