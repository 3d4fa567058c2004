#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""
The example programs of MLNX_OFED's libibverbs built against our header, and run over the library between two processes: the
rows of examples_rows.txt. ANYVERBS_EXAMPLES_SRC names the folder of its sources (4.6, with a folder examples).
"""
import argparse
import os
import sys
import tempfile

import building
import pair
import rows

HERE = os.path.dirname(os.path.abspath(__file__))

# Its devinfo.c is not among them: it includes a header of providers.
PROGRAMS = ("rc_pingpong uc_pingpong ud_pingpong srq_pingpong xsrq_pingpong umr_rc shared_mr task_pingpong cc_pingpong intf "
            "dcini dctgt polldcinfo asyncwatch device_list").split()
COMMON = "pingpong get_clock".split()
FLAGS = "-O1 -w -Werror=implicit-function-declaration -std=gnu99 -D_GNU_SOURCE".split()


def options():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--cc", required=True)
    p.add_argument("--library", required=True)
    p.add_argument("--include", required=True, help="our include folder")
    p.add_argument("--preload", action="append", default=[], help="preloaded before it, such as a sanitizer's library")
    p.add_argument("--only", help="only the rows that contain this text")
    p.add_argument("--limit", type=float, default=60, help="seconds for one row")
    return p.parse_args()


def build(args, out):
    source = building.sources("ANYVERBS_EXAMPLES_SRC", "examples/umr_rc.c", "MLNX_OFED's libibverbs")
    compiler = [args.cc, "-I" + os.path.join(args.include, "wrapper"), "-I" + args.include]
    building.need_headers(compiler, "infiniband/verbs.h")
    folder = os.path.join(source, "examples")
    # Named apart from the distribution's programs.
    faults = building.run_all([[*compiler, *FLAGS, *[os.path.join(folder, s + ".c") for s in [name, *COMMON]], args.library,
                                "-libverbs", "-lm", "-lpthread", "-o", os.path.join(out, "ibv_exp_" + name)]
                               for name in PROGRAMS])
    if faults:
        sys.exit("%d of the examples cannot be built" % faults)
    print("built: " + " ".join(PROGRAMS), flush=True)


def main():
    args = options()
    table = rows.read_rows(os.path.join(HERE, "examples_rows.txt"))
    with tempfile.TemporaryDirectory(prefix="anyverbs-examples-") as out:
        build(args, out)
        os.environ["PATH"] = out + ":" + os.environ["PATH"]
        with pair.Scratch(args.library, also_preload=args.preload) as scratch:
            results = [rows.run_row(scratch, row, args.limit) for row in table
                       if not args.only or args.only in row.command]
    print("%d of %d rows as expected, %d skipped" % (results.count(True), len(results), results.count(None)))
    sys.exit(1 if False in results else 0)


if __name__ == "__main__":
    main()
