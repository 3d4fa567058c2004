#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""
The example programs of MLNX_OFED's libibverbs built against our header, and run over the library
between two processes: the rows of examples_rows.txt. ANYVERBS_EXAMPLES_SRC names the folder of its
sources (4.6, with a folder examples).
"""
import os
import sys

import building

HERE = os.path.dirname(os.path.abspath(__file__))

# Its devinfo.c is not among them: it includes a header of providers.
PROGRAMS = ("rc_pingpong uc_pingpong ud_pingpong srq_pingpong xsrq_pingpong umr_rc shared_mr "
            "task_pingpong cc_pingpong intf dcini dctgt polldcinfo asyncwatch device_list").split()
COMMON = "pingpong get_clock".split()
FLAGS = "-O1 -w -Werror=implicit-function-declaration -std=gnu99 -D_GNU_SOURCE".split()


def build(args, out):
    source = building.sources("ANYVERBS_EXAMPLES_SRC", "examples/umr_rc.c",
                              "MLNX_OFED's libibverbs")
    compiler = [args.cc, "-I" + os.path.join(args.include, "wrapper"), "-I" + args.include]
    building.need_headers(compiler, "infiniband/verbs.h")
    folder = os.path.join(source, "examples")
    # Named apart from the distribution's programs.
    faults = building.run_all(
        [[*compiler, *FLAGS, *[os.path.join(folder, s + ".c") for s in [name, *COMMON]],
          args.library, "-libverbs", "-lm", "-lpthread",
          "-o", os.path.join(out, "ibv_exp_" + name)]
         for name in PROGRAMS])
    if faults:
        sys.exit("%d of the examples cannot be built" % faults)
    print("built: " + " ".join(PROGRAMS), flush=True)


if __name__ == "__main__":
    building.run_rows(building.options(__doc__, limit=60), os.path.join(HERE, "examples_rows.txt"),
                      "examples", build)
