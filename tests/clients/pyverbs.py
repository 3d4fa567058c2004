#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""
Runs rdma-core's own test suite on any0 and compares every test's result with a checked-in list.

Without --built it is Debian's (package rdma-core, in its documentation folder). Any difference is
a failure: an unexpected pass and a vanished test too.

With --built it is that of a newer rdma-core, over its own libibverbs and pyverbs.
ANYVERBS_RDMA_CORE names the folder of its sources, built by their build.sh. Whatever its version
is: tests that the list lacks must not fail, and tests that are gone do not matter.

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
# Other vendors' devices.
EXCLUDED = ("test_mlx5*", "test_efa*", "test_cuda*")
HUGE_PAGES = 8  # more than any test of the suite uses

Result = namedtuple("Result", "outcome reason detail")
# @settings: variables of the environment; @fixed: its tests are exactly those of the list.
Suite = namedtuple("Suite", "folder settings expected fixed")


def distribution_suite():
    if not glob.glob(SUITE + "/test_*"):
        pair.skip("no test suite in %s (package rdma-core)" % SUITE)
    # isolated: from this folder, "pyverbs" would be this file
    if subprocess.run([sys.executable, "-I", "-c", "import pyverbs.device"], capture_output=True,
                      check=False).returncode:
        pair.skip("%s has no pyverbs (package python3-pyverbs)" % sys.executable)
    return Suite(SUITE, {}, os.path.join(HERE, "pyverbs_expected.txt"), True)


def built_suite():
    source = os.environ.get("ANYVERBS_RDMA_CORE")
    if not source:
        pair.skip("ANYVERBS_RDMA_CORE is not set: the built sources of rdma-core are wanted there")
    source = os.path.abspath(source)
    python, libraries = (os.path.join(source, "build", part) for part in ("python", "lib"))
    if not glob.glob(os.path.join(python, "pyverbs", "device.*.so")):
        sys.exit("ANYVERBS_RDMA_CORE: no pyverbs in %s" % python)
    return Suite(os.path.join(source, "tests"),
                 {"PYTHONPATH": python, "LD_LIBRARY_PATH": libraries},
                 os.path.join(HERE, "pyverbs_built_expected.txt"), False)


def require_rdma_tool(scratch):
    """Newer suites ask it for the interface of each device."""
    try:
        subprocess.run(["rdma", "link", "show", "-j"], env=scratch.environment(), check=True,
                       capture_output=True, timeout=60)
    except FileNotFoundError:
        pair.skip("rdma is not installed (package iproute2)")
    except subprocess.CalledProcessError as failed:
        pair.skip("\"rdma link show\", which the suite runs, fails: "
                  + failed.stderr.decode().strip())


def unpack(source, to):
    """Debian compresses documentation, and to it the suite is documentation."""
    os.mkdir(to)
    for path in glob.glob(source + "/*.py*"):
        name = os.path.basename(path)
        if name.endswith(".gz"):
            with gzip.open(path) as source, open(os.path.join(to, name[:-3]), "wb") as target:
                shutil.copyfileobj(source, target)
        else:
            shutil.copy(path, to)


def modules(folder, wanted):
    names = sorted(os.path.basename(p)[:-3] for p in glob.glob(folder + "/test_*.py"))
    names = [n for n in names if not any(fnmatch.fnmatch(n, pattern) for pattern in EXCLUDED)]
    return [n for n in names if not wanted or n in wanted]


def run_module(scratch, settings, folder, module, limit, tests=()):
    """@tests: only these. Return: ({test: Result}, what went wrong with the process or None, its
    output)."""
    results = os.path.join(scratch.path, "results.json")
    log = os.path.join(scratch.path, module + ".log")
    with open(results, "w", encoding="utf-8"):
        pass
    if scratch.user:
        scratch.give_away(results)
    command = [sys.executable, "-B", os.path.join(scratch.path, "pyverbs_run.py"), folder, module,
               "any0", results, *tests]
    with open(log, "wb") as out:
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out,
                                 stderr=subprocess.STDOUT, env=scratch.environment(settings),
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
    for line in pair.table_lines(path):
        test, outcome, reason = (line.split(": ", 2) + ["", ""])[:3]
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


def compare(expected, found, fixed):
    bad = 0
    if not fixed:
        others = {t: r for t, r in found.items() if t not in expected and r.outcome != "fail"}
        expected = {t: r for t, r in expected.items() if t in found} | others
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
    p = pair.parser(__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--user", help="run as this user")
    p.add_argument("--limit", type=float, default=300, help="seconds for one module")
    p.add_argument("--built", action="store_true", help="the suite of ANYVERBS_RDMA_CORE")
    p.add_argument("--write", action="store_true", help="rewrite the list")
    p.add_argument("--verbose", action="store_true",
                   help="every result, and what the tests printed")
    p.add_argument("module", nargs="*", help="all if there is none")
    return p.parse_args()


def run_all(scratch, suite, args):
    folder = os.path.join(scratch.path, "tests")
    unpack(suite.folder, folder)
    shutil.copy(os.path.join(HERE, "pyverbs_run.py"), scratch.path)
    found, problems = {}, 0
    for module in modules(folder, args.module):
        results, problem, output = run_module(scratch, suite.settings, folder, module, args.limit)
        found.update(results)
        if problem:
            problems += 1
            print("FAIL %s: %s" % (module, problem))
        if problem or args.verbose:
            print(output)
    return found, problems


def main():
    args = options()
    suite = built_suite() if args.built else distribution_suite()
    if args.user:
        pair.require_root()
    with pair.Scratch(args.library, args.user, args.preload) as scratch:
        if args.built:
            require_rdma_tool(scratch)
        found, problems = run_all(scratch, suite, args)
    if args.verbose:
        for test in sorted(found):
            print(test + ":", describe(found[test]))
    expected = read_expected(suite.expected)
    if args.module:
        expected = {t: r for t, r in expected.items() if t.split(".")[0] in args.module}
    if args.write:
        write_list(suite.expected, expected, found)
        return
    bad = compare(expected, found, suite.fixed)
    count = {o: sum(r.outcome == o for r in found.values()) for o in ("pass", "skip", "fail")}
    print("%(pass)d pass, %(skip)d skipped, %(fail)d fail" % count +
          "; %d differ from the list" % bad)
    sys.exit(1 if bad or problems else 0)


if __name__ == "__main__":
    main()
