# SPDX-License-Identifier: MIT
"""
Programs of others, built from their sources against our header. Where the sources are is said by an
environment variable; without it, or without what they need beside it, the test is skipped.
"""
import argparse
import concurrent.futures
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "clients"))
import pair  # pylint: disable=wrong-import-position
import rows  # pylint: disable=wrong-import-position

JOBS = 2
LINES = 12  # of a compiler's complaints


def sources(variable, witness, what):
    """The folder that @variable names, which must have the file @witness."""
    folder = os.environ.get(variable)
    if not folder:
        pair.skip("%s is not set: the sources of %s are wanted there" % (variable, what))
    if not os.path.isfile(os.path.join(folder, witness)):
        sys.exit("%s: no %s in %s" % (variable, witness, folder))
    return folder


def has_header(compiler, header):
    done = subprocess.run([*compiler, "-x", "c", "-fsyntax-only", "-"],
                          input="#include <%s>\n" % header, text=True,
                          capture_output=True, check=False)
    return done.returncode == 0


def need_headers(compiler, *headers):
    missing = [h for h in headers if not has_header(compiler, h)]
    if missing:
        pair.skip("headers that are not installed: " + " ".join(missing))


def run(command):
    """Return: what it complained of, None if it succeeded."""
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          check=False)
    if done.returncode == 0:
        return None
    return "%s\n%s" % (" ".join(command[-4:]), "\n".join(done.stderr.splitlines()[:LINES]))


def run_all(commands):
    """All of them, some at once. Return: number of those that failed; what they said is printed."""
    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        faults = [said for said in pool.map(run, commands) if said]
    for said in faults:
        print("FAILED:", said)
    return len(faults)


def options(description, limit):
    p = argparse.ArgumentParser(description=description)
    p.add_argument("--cc", required=True)
    p.add_argument("--library", required=True)
    p.add_argument("--include", required=True, help="our include folder")
    p.add_argument("--preload", action="append", default=[],
                   help="preloaded before it, such as a sanitizer's library")
    p.add_argument("--only", help="only the rows that contain this text")
    p.add_argument("--limit", type=float, default=limit, help="seconds for one row")
    return p.parse_args()


def run_rows(args, table, name, build):
    """Build the programs with @build(args, folder),
    and run the rows of the file @table with them; ends the test."""
    table = rows.read_rows(table)
    with tempfile.TemporaryDirectory(prefix="anyverbs-%s-" % name) as out:
        build(args, out)
        os.environ["PATH"] = out + ":" + os.environ["PATH"]
        with pair.Scratch(args.library, also_preload=args.preload) as scratch:
            results = [rows.run_row(scratch, row, args.limit) for row in table
                       if not args.only or args.only in row.command]
    print("%d of %d rows as expected, %d skipped"
          % (results.count(True), len(results), results.count(None)))
    sys.exit(1 if False in results else 0)
