#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""
Runs rdma-core's own test suite (package rdma-core, in its documentation folder) on any0 and
compares every test's result with a checked-in list. Any difference is a failure: an unexpected pass
and a vanished test too.

A line of the list is "TEST: OUTCOME: REASON" with the outcome
    pass
    skip   the suite skips it, for exactly this reason or one of several:
           "as root | as anybody else"
    fail   it fails; the reason is for the reader
    huge   as pass where there are free pages of 2 MiB (huge_pages.sh), otherwise as host
    host   depends on the machine: it passes or is skipped, for whatever reason
--write replaces the lines that differ from what happens now.
"""
import argparse
import fnmatch
import glob
import gzip
import json
import os
import shutil
import signal
import subprocess
import sys
from collections import namedtuple

import host
import pair

SUITE = "/usr/share/doc/rdma-core/tests"
HERE = os.path.dirname(os.path.abspath(__file__))
# Other vendors' devices; the connection manager.
EXCLUDED = ("test_mlx5*", "test_efa*", "test_cuda*", "test_rdmacm")
HUGE_PAGES = 8  # more than any test of the suite uses

Result = namedtuple("Result", "outcome reason detail")


def require_suite():
    if not glob.glob(SUITE + "/test_*"):
        pair.skip("no test suite in %s (package rdma-core)" % SUITE)
    # isolated: from this folder, "pyverbs" would be this file
    if subprocess.run([sys.executable, "-I", "-c", "import pyverbs.device"], capture_output=True,
                      check=False).returncode:
        pair.skip("%s has no pyverbs (package python3-pyverbs)" % sys.executable)


def unpack(to):
    """Debian compresses documentation, and to it the suite is documentation."""
    os.mkdir(to)
    for path in glob.glob(SUITE + "/*.py*"):
        name = os.path.basename(path)
        if name.endswith(".gz"):
            with gzip.open(path) as source, open(os.path.join(to, name[:-3]), "wb") as target:
                shutil.copyfileobj(source, target)
        else:
            shutil.copy(path, to)


def modules(suite, wanted):
    names = sorted(os.path.basename(p)[:-3] for p in glob.glob(suite + "/test_*.py"))
    names = [n for n in names if not any(fnmatch.fnmatch(n, pattern) for pattern in EXCLUDED)]
    return [n for n in names if not wanted or n in wanted]


def run_module(scratch, suite, module, limit):
    """Return: ({test: Result}, what went wrong with the process or None, its output)."""
    results = os.path.join(scratch.path, "results.json")
    log = os.path.join(scratch.path, module + ".log")
    with open(results, "w", encoding="utf-8"):
        pass
    if scratch.user:
        scratch.give_away(results)
    command = [sys.executable, "-B", os.path.join(scratch.path, "pyverbs_run.py"), suite, module,
               "any0", results]
    with open(log, "wb") as out:
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out,
                                 stderr=subprocess.STDOUT, env=scratch.environment(),
                                 cwd=scratch.path, start_new_session=True,
                                 **scratch.identity())
        problem = wait(child, limit)
    with open(log, encoding="utf-8", errors="replace") as f:
        output = f.read()
    found, unfinished = read_results(results)
    if unfinished:
        found[unfinished] = Result("fail", problem or "the process ended in it", output[-2000:])
    return found, problem, output


def wait(child, limit):
    try:
        code = child.wait(limit)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        return "no end within %d s" % limit
    if code < 0:
        return "killed by %s" % signal.Signals(-code).name
    return "exit status %d" % code if code else None


def short(test):
    return test.removeprefix("tests.")


def read_results(path):
    found, running = {}, None
    with open(path, encoding="utf-8") as f:
        for line in f:
            record = json.loads(line)
            if "start" in record:
                running = short(record["start"])
            else:
                found[short(record["id"])] = Result(record["outcome"], record["reason"],
                                                    record["detail"])
                running = None
    return found, running


def read_expected(path):
    expected = {}
    with open(path, encoding="utf-8") as f:
        for line in f:
            if line.strip() and not line.startswith("#"):
                test, outcome, reason = (line.rstrip("\n").split(": ", 2) + ["", ""])[:3]
                expected[test] = Result(outcome.rstrip(":"), reason, "")
    return expected


def difference(want, got):
    """None if @got is what the list says."""
    if want is None:
        return "%s, and is not on the list" % describe(got)
    if got is None:
        return "vanished; the list says %s" % want.outcome
    if want.outcome == "huge":
        want = want._replace(outcome="pass" if host.free_huge_pages() >= HUGE_PAGES else "host")
    if want.outcome == "host" and got.outcome in ("pass", "skip"):
        return None
    same_reason = got.outcome != "skip" or got.reason in want.reason.split(" | ")
    if want.outcome == got.outcome and same_reason:
        return None
    return "%s; the list says %s" % (describe(got), describe(want))


def describe(result):
    return result.outcome + (" (%s)" % result.reason if result.reason else "")


def compare(expected, found):
    bad = 0
    for test in sorted(expected.keys() | found.keys()):
        problem = difference(expected.get(test), found.get(test))
        if problem:
            bad += 1
            print("FAIL %s: %s" % (test, problem))
            if test in found and found[test].detail:
                print("    " + found[test].detail.rstrip().replace("\n", "\n    "))
    return bad


def write_list(path, expected, found):
    with open(path, encoding="utf-8") as f:
        head = [line for line in f if line.startswith("#")]
    with open(path, "w", encoding="utf-8") as f:
        f.writelines(head)
        for test in sorted(found):
            result = found[test]
            if difference(expected.get(test), result) is None:
                result = expected[test]
            reason = ": " + result.reason if result.reason else ""
            f.write("%s: %s%s\n" % (test, result.outcome, reason))


def options():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--library", required=True)
    p.add_argument("--preload", action="append", default=[],
                   help="preloaded before it, such as a sanitizer's library")
    p.add_argument("--user", help="run as this user")
    p.add_argument("--limit", type=float, default=300, help="seconds for one module")
    p.add_argument("--expected", default=os.path.join(HERE, "pyverbs_expected.txt"))
    p.add_argument("--write", action="store_true", help="rewrite the list")
    p.add_argument("--verbose", action="store_true",
                   help="every result, and what the tests printed")
    p.add_argument("module", nargs="*", help="all if there is none")
    return p.parse_args()


def run_all(scratch, args):
    suite = os.path.join(scratch.path, "tests")
    unpack(suite)
    shutil.copy(os.path.join(HERE, "pyverbs_run.py"), scratch.path)
    found, problems = {}, 0
    for module in modules(suite, args.module):
        results, problem, output = run_module(scratch, suite, module, args.limit)
        found.update(results)
        if problem:
            problems += 1
            print("FAIL %s: %s" % (module, problem))
        if problem or args.verbose:
            print(output)
    return found, problems


def main():
    args = options()
    require_suite()
    if args.user:
        pair.require_root()
    with pair.Scratch(args.library, args.user, args.preload) as scratch:
        found, problems = run_all(scratch, args)
    if args.verbose:
        for test in sorted(found):
            print(test + ":", describe(found[test]))
    expected = read_expected(args.expected)
    if args.module:
        expected = {t: r for t, r in expected.items() if t.split(".")[0] in args.module}
    if args.write:
        write_list(args.expected, expected, found)
        return
    bad = compare(expected, found)
    count = {o: sum(r.outcome == o for r in found.values()) for o in ("pass", "skip", "fail")}
    print("%(pass)d pass, %(skip)d skipped, %(fail)d fail" % count +
          "; %d differ from the list" % bad)
    sys.exit(1 if bad or problems else 0)


if __name__ == "__main__":
    main()
