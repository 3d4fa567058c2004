#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""
Runs the programs of strict_rows.txt on a strict device, with one seed after the other, and says of
each how many seeds it passed; of the first that it did not, what it and "anyverbs explain" say.
"""
import argparse
import functools
import os
import re
import shlex
import shutil
import subprocess
import time

import mpi
import pair
import pyverbs
import rows

ALONE = "alone "  # rows that begin so are of one command, which starts its processes itself
SUITE = "suite "  # and these of a module of rdma-core's tests
LIMIT = 30
SUITE_LIMIT = 90  # test_rdmacm sets a timeout of 8.6 s, and the device loses a request of each side


def device(seed, freedoms=None):
    """@freedoms: only these"""
    return "strict%s:seed=%d" % ("=" + ",".join(freedoms) if freedoms else "", seed)


def strict(command, seed):
    """The command with its device made strict."""
    settings, words = pair.split_command(command)
    settings["ANYVERBS_DEVICES"] = "%s:%s" % (
        settings.get("ANYVERBS_DEVICES", "any0"), device(seed))
    return settings, words


@functools.cache
def freedoms_but(tool, which):
    """Those of "strict" without @which; None: all"""
    said = subprocess.run([tool, "help", "strict"], capture_output=True, text=True, check=True)
    names = re.findall("^  ([a-z-]+)$", said.stdout, re.MULTILINE)
    return [n for n in names if n not in (which, "gids")] if which else None


def run_alone(scratch, command, seed):
    """Return: None, or what went wrong."""
    if "{mpi}" in command:
        command = command.replace("{mpi}", mpi.compiled(scratch))
    settings, words = strict(command, seed)
    side = pair.Side(scratch, "program", dict(mpi.AS_ROOT, **settings), words)
    try:
        ended = side.wait_until(time.monotonic() + LIMIT)
    finally:
        side.end()
    if not ended or side.code() != 0:
        return (side.ending() if ended else "time limit") + "\n" + side.tail()
    return None


@functools.cache
def suite_parts(module):
    """The module's tests: {freedom that these cannot bear, or None: [test, ...]}"""
    cannot_bear = dict(reversed(line.split()) for line in pair.table_lines(
        os.path.join(rows.HERE, "strict_suite.txt")))
    parts = {}
    for test in pyverbs.read_expected(os.path.join(rows.HERE, "pyverbs_expected.txt")):
        if test.split(".")[0] == module:
            parts.setdefault(cannot_bear.get(test), []).append(test)
    return parts


def run_suite(scratch, tool, module, seed):
    """Each of its tests has to pass; it may skip itself where something is smaller."""
    folder, problems = os.path.join(scratch.path, "tests"), []
    if not os.path.isdir(folder):
        pyverbs.unpack(pyverbs.SUITE, folder)
        shutil.copy(os.path.join(rows.HERE, "pyverbs_run.py"), scratch.path)
    for freedom, tests in suite_parts(module).items():
        settings = {"ANYVERBS_DEVICES": "any0:" + device(seed, freedoms_but(tool, freedom))}
        found, problem, output = pyverbs.run_module(scratch, settings, folder, module, SUITE_LIMIT,
                                                    tests)
        problems += ["%s: %s" % (test, found[test].detail.strip().split("\n")[-1] if test in found
                                 else problem or output[-2000:])
                     for test in tests if test not in found or found[test].outcome == "fail"]
    return "\n".join(problems) or None


def run_once(scratch, tool, row, seed):
    """Return: None, or what went wrong."""
    if row.startswith(ALONE):
        return run_alone(scratch, row.removeprefix(ALONE), seed)
    if row.startswith(SUITE):
        return run_suite(scratch, tool, row.removeprefix(SUITE), seed)
    settings, words = strict(row, seed)
    text = shlex.join(["%s=%s" % s for s in settings.items()] + words)
    server, client = (rows.complete(scratch, text, side) for side in ("server", "client"))
    verdict = pair.run_pair(scratch, server, client, LIMIT)
    return None if verdict.passed else verdict.reason + "\n" + verdict.tails


def explained(tool, scratch):
    said = subprocess.run([tool, "explain"], env=dict(os.environ, ANYVERBS_DIR=scratch.devices),
                          capture_output=True, text=True, check=False).stdout
    return said.split("\n", maxsplit=1)[0]


def run_row(args, row):
    """Return: did it pass with all seeds?"""
    passed, failed, start = 0, None, time.monotonic()
    with pair.Scratch(args.library, None, args.preload) as scratch:
        for seed in range(args.first, args.first + args.seeds):
            problem = run_once(scratch, args.tool, row, seed)
            passed += problem is None
            if problem and not failed:
                failed = "seed %d: %s\n    %s" % (seed, problem, explained(args.tool, scratch))
    print("%5.1f s  %d of %d  %s%s" % (time.monotonic() - start, passed, args.seeds, row,
                                      "\n    " + failed if failed else ""), flush=True)
    return passed == args.seeds


def options():
    p = pair.parser(__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--tool", required=True)
    p.add_argument("--seeds", type=int, default=5)
    p.add_argument("--first", type=int, default=1, help="the first seed")
    p.add_argument("text", nargs="*", help="only rows that contain one of these")
    return p.parse_args()


def main():
    args = options()
    table = list(pair.table_lines(os.path.join(rows.HERE, "strict_rows.txt")))
    wanted = [row for row in table if not args.text or any(t in row for t in args.text)]
    good = [run_row(args, row) for row in wanted]
    return 0 if all(good) else 1


if __name__ == "__main__":
    raise SystemExit(main())
