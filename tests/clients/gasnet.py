#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""GASNet's own test programs over its ibv conduit, 2 and 4 ranks that mpirun starts.
ANYVERBS_GASNET names the folder it was built in, with the programs in ibv-conduit."""
import os
import shutil
import sys
import time

import mpi
import pair

# With the number of iterations, where a thousand would take minutes: ranks spin for each other.
PROGRAMS = {"testgasnet": [], "testcore1": [], "testratomic": ["100"], "testalign": ["100"]}
RANKS = (2, 4)
# The conduit knows its peers by LID.
SETTINGS = {"ANYVERBS_DEVICES": "any0:link=infiniband", "GASNET_IBV_SPAWNER": "mpi",
            "GASNET_HOST_DETECT": "hostname", "GASNET_PHYSMEM_MAX": "1G"}


def built():
    folder = os.environ.get("ANYVERBS_GASNET")
    if not folder:
        pair.skip("ANYVERBS_GASNET is not set: the folder that GASNet was built in is wanted there")
    missing = [p for p in PROGRAMS if not os.path.exists(os.path.join(folder, "ibv-conduit", p))]
    if missing:
        sys.exit("ANYVERBS_GASNET: not in its ibv-conduit: " + " ".join(missing))
    if not shutil.which("mpirun"):
        pair.skip("mpirun is not installed (package openmpi-bin)")
    return os.path.join(os.path.abspath(folder), "ibv-conduit")


def judge(side):
    """None if all is well. Some programs say what is wrong, and exit with 0."""
    if side.code() != 0:
        return side.ending()
    wrong = [line for line in side.output().splitlines() if "ERROR" in line or "FAILED" in line]
    return wrong[0] if wrong else None


def run_one(scratch, program, ranks, limit):
    """Return: did it go well?"""
    words = ["mpirun", "-n", str(ranks), "--oversubscribe", "--mca", "pml", "ob1",
             "--mca", "btl", "self,vader,tcp"]
    for setting in SETTINGS:
        words += ["-x", setting]
    start = time.monotonic()
    side = pair.Side(scratch, "mpirun", SETTINGS | mpi.AS_ROOT, words + program)
    try:
        problem = None if side.wait_until(start + limit) else "time limit: still running"
    finally:
        side.end()
    problem = problem or judge(side)
    result = "FAIL (%s)\n%s" % (problem, side.tail()) if problem else "PASS"
    print("%5.1f s  %d ranks  %s  %s" % (time.monotonic() - start, ranks,
                                         os.path.basename(program[0]), result), flush=True)
    return problem is None


def main():
    p = pair.parser(__doc__)
    p.add_argument("--limit", type=float, default=120, help="seconds for one run")
    args = p.parse_args()
    folder = built()
    with pair.Scratch(args.library, None, args.preload) as scratch:
        results = [run_one(scratch, [os.path.join(folder, name), *arguments], ranks, args.limit)
                   for name, arguments in PROGRAMS.items() for ranks in RANKS]
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()
