#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""
perftest 4.4 (the last with experimental verbs) built with all of its experimental paths, and run
over the library between two processes: the rows of perftest_rows.txt. ANYVERBS_PERFTEST_SRC names
the folder of its sources, tag v4.4-0.4.
"""
import os
import sys

import building

HERE = os.path.dirname(os.path.abspath(__file__))

# What its configure finds with this header.
# It asks for ibv_exp_create_flow, too, which is not there: then it takes the plain one.
FEATURES = ("VERBS_EXP MASKED_ATOMICS RSS_EXP DC ACCL_VERBS SCATTER_FCS GID_ATTR EXP_OOO_ATTR "
            "PACKET_PACING PACKET_PACING_EXP PACKET_PACING_EXTENSION_EXP XRCD EX EX_ODP "
            "RAW_ETH RAW_ETH_REG ENDIAN").split()
COMMON = ("get_clock perftest_communication perftest_parameters perftest_resources "
          "raw_ethernet_resources").split()
PROGRAMS = {"ib_%s_%s" % (verb, kind):
            ["%s_%s" % (verb, kind)] + ["multicast_resources"] * (verb == "send")
            for verb in ("send", "write", "read", "atomic") for kind in ("bw", "lat")}
# Compiled only: they need raw queue pairs, which the device has not.
RAW = "raw_ethernet_send_bw raw_ethernet_send_lat raw_ethernet_send_burst_lat".split()
HEADERS = "rdma/rdma_cma.h infiniband/umad.h infiniband/verbs.h".split()
# Tentative definitions in its headers: compilers merged them then.
FLAGS = ("-O1 -w -Werror=implicit-function-declaration -std=gnu99 -D_GNU_SOURCE "
         "-DVERSION=\"5.60\" -fcommon").split()


def compile_commands(compiler, source, out):
    stems = sorted({s for stems in PROGRAMS.values() for s in stems} | set(COMMON) | set(RAW))
    defines = ["-DHAVE_" + feature for feature in FEATURES]
    return [[*compiler, *FLAGS, *defines, "-c", os.path.join(source, "src", s + ".c"), "-o",
             os.path.join(out, s + ".o")]
            for s in stems]


def link_commands(compiler, library, out):
    def objects(stems):
        return [os.path.join(out, s + ".o") for s in stems]
    libraries = [library, "-lrdmacm", "-libumad", "-libverbs", "-lm", "-lpthread"]
    return [[*compiler, *objects(stems + COMMON), *libraries, "-o", os.path.join(out, name)]
            for name, stems in PROGRAMS.items()]


def build(args, out):
    wrapper = ["-I" + os.path.join(args.include, "wrapper"), "-I" + args.include]
    compiler = [args.cc, *wrapper]
    source = building.sources("ANYVERBS_PERFTEST_SRC", "src/perftest_resources.c",
                              "perftest v4.4-0.4")
    building.need_headers(compiler, *HEADERS)
    faults = building.run_all(compile_commands(compiler, source, out))
    faults = faults or building.run_all(link_commands(compiler, args.library, out))
    if faults:
        sys.exit("%d of perftest's files or programs cannot be built" % faults)
    print("built with " + " ".join(FEATURES), flush=True)


if __name__ == "__main__":
    building.run_rows(building.options(__doc__, limit=120),
                      os.path.join(HERE, "perftest_rows.txt"), "perftest", build)
