#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Debian's Open MPI over the device and nothing else:
mpi_traffic.c, each rank with the library preloaded. With --hosts, each rank is on its own host."""
import os
import shutil
import subprocess
import sys
import time
from collections import namedtuple
from contextlib import nullcontext

import pair
import switch
import veth

HERE = os.path.dirname(os.path.abspath(__file__))
INFINIBAND = "ANYVERBS_DEVICES=any0:link=infiniband"
RC = "UCX_TLS=rc_verbs,ud_verbs,self"
UD = "UCX_TLS=ud_verbs,self"
UCX = "--mca pml ucx --mca osc ucx"
# Open MPI's own, whose registration cache patches the C library.
# On Ethernet it connects by librdmacm only.
OPENIB = ("--mca pml ob1 --mca btl openib,self --mca btl_openib_allow_ib 1 "
          "--mca btl_openib_warn_no_device_params_found 0")
OFI = "--mca pml cm --mca btl self --mca mtl ofi --mca mtl_ofi_provider_include verbs;ofi_rxd"

AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}

Run = namedtuple("Run", "ranks settings arguments one_sided")
RUNS = [
    Run(2, UD, UCX, True),
    Run(3, UD, UCX, True),
    Run(2, RC, UCX, True),
    Run(3, RC, UCX, True),
    Run(2, INFINIBAND + " " + UD, UCX, True),
    Run(2, INFINIBAND + " " + RC, UCX, True),
    Run(2, INFINIBAND, OPENIB + " --mca osc rdma", True),
    Run(3, INFINIBAND, OPENIB + " --mca osc rdma", True),
    Run(2, INFINIBAND, OPENIB + " --mca osc pt2pt", True),
    Run(2, "", OFI, False),  # with three, ofi_rxd of libfabric 1.17 crashes over any provider
]

# Between hosts.
HOST_RUNS = [Run(ranks, settings, UCX, True) for ranks in (2, 4) for settings in (RC, UD)]

# Starts Open MPI's daemon on another host, where its first argument is the address.
AGENT = """#!/bin/sh
host=$1
shift
ANYVERBS_DIR=%(path)s/$host
export ANYVERBS_DIR
mkdir -p "$ANYVERBS_DIR"
case $host in
%(cases)s
esac
"""

# When all is closed, its cache may still have registrations, and gives them to openib, which is
# unloaded: with a sanitizer's allocator each time, otherwise seldom. So a run that crashes after
# every rank was done is run once more.
CRASHES_IN_CLOSING = OPENIB


def compiled(scratch):
    program = os.path.join(scratch.path, "mpi_traffic")
    subprocess.run(["mpicc", "-O1", "-o", program, os.path.join(HERE, "mpi_traffic.c")],
                   check=True, timeout=60)
    return program


def write_agent(scratch):
    """Return: the program that mpirun starts its daemons with, on their hosts"""
    path = os.path.join(scratch.path, "agent")
    hosts = scratch.hosts
    cases = ["%s) exec %s sh -c \"$*\" ;;" % (address, " ".join(hosts.inside(i)))
             for i, address in enumerate(hosts.addresses)]
    with open(path, "w", encoding="ascii") as f:
        f.write(AGENT % {"path": scratch.path, "cases": "\n".join(cases)})
    os.chmod(path, 0o700)
    return path


def spread(scratch, run):
    """Arguments that put each rank on a host of its own."""
    return ["--host", ",".join(scratch.hosts.addresses[:run.ranks]),
            "--mca", "plm_rsh_agent", write_agent(scratch), "--mca", "oob_tcp_if_include", "e0"]


def command(scratch, run, program):
    words = ["mpirun", "-n", str(run.ranks), "--oversubscribe", *run.arguments.split()]
    if scratch.hosts.own_folders:
        words += spread(scratch, run)
    for setting in ["UCX_NET_DEVICES=any0:1", *run.settings.split()]:
        words += ["-x", setting]
    return words + [program] + ["one-sided"] * run.one_sided


def not_done(run, side):
    return [rank for rank in range(run.ranks)
            if "rank %d of %d: all correct" % (rank, run.ranks) not in side.output()]


def judge(run, side):
    """None if all is well."""
    if side.code() != 0:
        return side.ending()
    wrong = not_done(run, side)
    return "no word of success from ranks %s" % wrong if wrong else None


def crashed_in_closing(run, side):
    return (run.arguments.startswith(CRASHES_IN_CLOSING) and "signal 11" in side.output()
            and not not_done(run, side))


def run_one(scratch, run, program, limit, again=True):
    """Return: did it go well?"""
    start = time.monotonic()
    side = pair.Side(scratch, "mpirun", AS_ROOT, command(scratch, run, program))
    try:
        problem = None if side.wait_until(start + limit) else "time limit: still running"
    finally:
        side.end()
    problem = problem or judge(run, side)
    if problem and again and crashed_in_closing(run, side):
        print("         %d ranks  mpirun %s crashed in closing" % (run.ranks, run.arguments),
              flush=True)
        return run_one(scratch, run, program, limit, again=False)
    result = "FAIL (%s)\n%s" % (problem, side.tail()) if problem else "PASS"
    print("%5.1f s  %d ranks  %s mpirun %s  %s"
          % (time.monotonic() - start, run.ranks, run.settings, run.arguments, result), flush=True)
    return problem is None


def options():
    p = pair.parser(__doc__)
    p.add_argument("--hosts", action="store_true", help="each rank is on a host of its own")
    p.add_argument("--limit", type=float, default=90, help="seconds for one run")
    return p.parse_args()


def main():
    args = options()
    missing = [p for p in ("mpicc", "mpirun", "ompi_info") if not shutil.which(p)]
    if missing:
        pair.skip("not installed (packages openmpi-bin, libopenmpi-dev): " + " ".join(missing))
    if args.hosts:
        veth.enter()
    table = HOST_RUNS if args.hosts else RUNS
    runs = [run for run in table
            if not (args.preload and run.arguments.startswith(CRASHES_IN_CLOSING))]
    hosts = switch.Switch(max(run.ranks for run in table)) if args.hosts else nullcontext()
    with hosts, pair.Scratch(args.library, None, args.preload, hosts if args.hosts else None) \
            as scratch:
        program = compiled(scratch)
        results = [run_one(scratch, run, program, args.limit) for run in runs]
    print("%d of %d runs went well, %d were left out"
          % (sum(results), len(results), len(table) - len(runs)))
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()
