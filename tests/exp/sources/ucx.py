#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""
UCX 1.6 configured and built against the experimental verbs, and its ucx_perftest run over the
library between two processes: the rows of ucx_rows.txt. ANYVERBS_UCX_SRC names the folder of its
sources, tag v1.6.0 or the release. What is built stays in the build folder for the next run.
"""
import argparse
import os
import re
import shutil
import subprocess
import sys

import building
import pair
import rows

HERE = os.path.dirname(os.path.abspath(__file__))
PARTS = "src/ucm src/ucs src/uct src/ucp src/tools/perf".split()
# Its tag matching has either all from the system's headers or all from the experimental ones, which
# do not declare it; its code for mlx5 drives that hardware.
WITHOUT = "ib-hw-tm mlx5-dv java cuda rdmacm knem xpmem".split()
# What its configure must find: a probe that fails leaves a path out silently.
FEATURES = """VERBS_EXP_H EXP_UMR EXP_UMR_KSM IBV_EXP_QP_CREATE_UMR IBV_EXP_DM
    DECL_IBV_EXP_ACCESS_ON_DEMAND DECL_IBV_EXP_ODP_SUPPORT_IMPLICIT
    STRUCT_IBV_EXP_DEVICE_ATTR_EXP_DEVICE_CAP_FLAGS STRUCT_IBV_EXP_DEVICE_ATTR_ODP_CAPS
    STRUCT_IBV_EXP_DEVICE_ATTR_ODP_MR_MAX_SIZE STRUCT_IBV_EXP_QP_INIT_ATTR_MAX_INL_RECV
    DECL_IBV_EXP_REG_MR DECL_IBV_EXP_CREATE_QP DECL_IBV_EXP_PREFETCH_MR DECL_IBV_EXP_SETENV
    DECL_IBV_EXP_QUERY_GID_ATTR DECL_IBV_EXP_QUERY_DEVICE DECL_IBV_EXP_POST_SEND
    DECL_IBV_EXP_ACCESS_ALLOCATE_MR DECL_IBV_EXP_DEVICE_MR_ALLOCATE DECL_IBV_EXP_WR_NOP
    DECL_IBV_EXP_CQ_MODERATION DECL_IBV_EXP_DEVICE_ATTR_PCI_ATOMIC_CAPS""".split()


def options():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--cc", required=True)
    p.add_argument("--library", required=True)
    p.add_argument("--include", required=True, help="our include folder")
    p.add_argument("--work", required=True, help="folder to build in, kept")
    p.add_argument("--only", help="only the rows that contain this text")
    p.add_argument("--limit", type=float, default=120, help="seconds for one row")
    return p.parse_args()


def step(command, cwd, log, env=None):
    with open(log, "ab") as out:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=out,
                              stderr=subprocess.STDOUT, cwd=cwd, check=False,
                              env=dict(os.environ, **(env or {})))
    if done.returncode:
        with open(log, encoding="utf-8", errors="replace") as f:
            print("".join(f.readlines()[-30:]))
        sys.exit("%s: exited %d" % (" ".join(command[:4]), done.returncode))


def prepared(source, work, log):
    """A folder with a configure script:
    the sources themselves, or a copy if they come from a repository."""
    if os.path.exists(os.path.join(source, "configure")):
        return source
    if not shutil.which("autoreconf") or not shutil.which("libtoolize"):
        pair.skip("the sources have no configure script, "
                  "and autoconf and libtool are not installed")
    copy = os.path.join(work, "source")
    if not os.path.exists(os.path.join(copy, "configure")):
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(source, copy, symlinks=True)
        step(["./autogen.sh"], copy, log)
    return copy


def configure(args, source, work, log):
    include = "-I%s -I%s" % (os.path.join(args.include, "wrapper"), args.include)
    folder = os.path.dirname(args.library)
    command = [os.path.join(source, "configure"), "--prefix=" + os.path.join(work, "installed"),
               "--disable-doxygen-doc", "--disable-numa", "--with-verbs=/usr",
               *["--without-" + w for w in WITHOUT], "CC=" + args.cc, "CPPFLAGS=" + include,
               "CFLAGS=-O1 -w -fcommon", "CXXFLAGS=-O1 -w", "LDFLAGS=-L" + folder,
               "LIBS=-lanyverbs"]
    stamp = os.path.join(work, "configured")
    if os.path.exists(stamp):
        with open(stamp, encoding="utf-8") as f:
            if f.read() == "\n".join(command):
                return
        os.unlink(stamp)
        shutil.rmtree(os.path.join(work, "build"))
    os.makedirs(os.path.join(work, "build"), exist_ok=True)
    step(command, os.path.join(work, "build"), log, {"LD_LIBRARY_PATH": folder})
    with open(stamp, "w", encoding="utf-8") as f:
        f.write("\n".join(command))


def check_features(work):
    with open(os.path.join(work, "build", "config.h"), encoding="utf-8") as f:
        found = set(re.findall(r"^#define HAVE_(\w+) 1$", f.read(), re.MULTILINE))
    missing = [feature for feature in FEATURES if feature not in found]
    if missing:
        sys.exit("configured without: " + " ".join(missing))


def build(args):
    """Return: the prefix it is installed in."""
    source = building.sources("ANYVERBS_UCX_SRC", "src/uct/ib/base/ib_md.c", "UCX v1.6.0")
    building.need_headers([args.cc], "infiniband/verbs.h")
    work = os.path.abspath(args.work)
    os.makedirs(work, exist_ok=True)
    log = os.path.join(work, "log")
    configure(args, prepared(source, work, log), work, log)
    check_features(work)
    for part in PARTS:
        step(["make", "-j%d" % building.JOBS, "-C", part, "install"], os.path.join(work, "build"),
             log)
    print("built with " + " ".join(FEATURES), flush=True)
    return os.path.join(work, "installed")


def main():
    args = options()
    prefix = build(args)
    os.environ["PATH"] = os.path.join(prefix, "bin") + ":" + os.environ["PATH"]
    libraries = (os.path.join(prefix, "lib"), os.path.dirname(args.library))
    os.environ["LD_LIBRARY_PATH"] = ":".join(libraries)
    with pair.Scratch(args.library) as scratch:
        results = [rows.run_row(scratch, row, args.limit)
                   for row in rows.read_rows(os.path.join(HERE, "ucx_rows.txt"))
                   if not args.only or args.only in row.command]
    print("%d of %d rows as expected, %d skipped"
          % (results.count(True), len(results), results.count(None)))
    sys.exit(1 if False in results else 0)


if __name__ == "__main__":
    main()
