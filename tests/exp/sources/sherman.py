#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""
The RDMA layer of Sherman (C++; regions, device memory, masked atomics, DCT) compiles with our
header. ANYVERBS_SHERMAN_SRC names the folder of its sources. It is not run: it wants a cluster.
"""
import argparse
import glob
import os
import sys

import building


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--cxx", required=True)
    p.add_argument("--include", required=True, help="our include folder")
    args = p.parse_args()
    source = building.sources("ANYVERBS_SHERMAN_SRC", "src/rdma/Operation.cpp", "Sherman")
    compiler = [args.cxx, "-std=c++17", "-w", "-I" + os.path.join(args.include, "wrapper"),
                "-I" + args.include,
                "-I" + os.path.join(source, "include")]
    files = sorted(glob.glob(os.path.join(source, "src", "rdma", "*.cpp")))
    faults = building.run_all([[*compiler, "-fsyntax-only", f] for f in files])
    print("%d files, %d faults" % (len(files), faults))
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
