#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Runs the rows of one section of a table such as rows.txt, which explains the columns."""
import contextlib
import os
import shutil
import sys
from collections import namedtuple

import host
import pair
import veth

HOSTS = ("one", "apart", "two", "sharing")
STATES = ("pass", "expected-fail")
RUNS = ("main", "main+user")

HERE = os.path.dirname(os.path.abspath(__file__))

Row = namedtuple("Row", "section state runs needs command")


def parse_row(section, line, where):
    fields = [field.strip() for field in line.split("|", 3)]
    if section is None or len(fields) != 4 or fields[0] not in STATES or fields[1] not in RUNS:
        sys.exit("%s: not understood: %s" % (where, line))
    return Row(section, *fields)


def read_rows(path):
    section, rows = None, []
    with open(path, encoding="utf-8") as f:
        for number, line in enumerate(f, 1):
            line = line.strip()
            if line.startswith("["):
                section = line.strip("[]")
            elif line and not line.startswith("#"):
                rows.append(parse_row(section, line, "%s:%d" % (path, number)))
    return rows


def outcome(row, verdict):
    """(good, the line to print).
    Only a clean refusal is an expected failure: a crash or a hang never is."""
    if row.state == "pass":
        return verdict.passed, "PASS" if verdict.passed else "FAIL (%s)" % verdict.reason
    if verdict.passed:
        return False, "FAIL (passes, but is expected to fail: %s; change its state)" % row.needs
    if not verdict.clean:
        return False, ("FAIL (expected to fail for want of: %s; but %s)"
                       % (row.needs, verdict.reason))
    return True, "PASS (expected failure, %s: %s)" % (row.needs, verdict.reason)


def lacking(scratch, row):
    """Why this machine cannot run that row; None if it can."""
    program = pair.split_command(row.command)[1][0]
    if not shutil.which(program):
        return program + " is not installed"
    needs = row.needs
    if not needs.startswith("host: "):
        return None
    if "librspreload" in needs:
        return None if host.rsockets() else "no librspreload.so"
    if "cmtime" in needs:
        newer = host.newer_cmtime()
        return None if newer == ("newer" in needs) else "cmtime has other options"
    if "huge pages" in needs:
        return host.shared_huge_memory()
    if needs == "host: IPv6":
        return None if host.ipv6() else "no IPv6 address"
    for family in ("IPv4", "IPv6"):
        if family + " GID" in needs:
            missing = host.gid(scratch, family) is None
            return "no %s address in the GID table" % family if missing else None
    sys.exit("not known how to see whether the host has it: " + needs)


def own_address(scratch, side):
    """One of the side's device, which a loopback address is not."""
    known = getattr(scratch.hosts, side + "_address")
    return (known.startswith("127.") and host.address(scratch)) or known


def complete(scratch, command, side):
    """The command with words for its {placeholders}."""
    words = {"{file}": lambda: scratch.file(side + ".memory"),
             "{random}": lambda: scratch.random_file(side + ".random"),
             "{rsockets}": host.rsockets,
             "{address}": lambda: own_address(scratch, side),
             "{server6}": lambda: scratch.hosts.server_address6,
             "{ipv4_gid}": lambda: str(host.gid(scratch, "IPv4")),
             "{ipv6_gid}": lambda: str(host.gid(scratch, "IPv6"))}
    for placeholder, word in words.items():
        if placeholder in command:
            command = command.replace(placeholder, word())
    return command


def run_row(scratch, row, limit):
    """Return: whether it went as expected, None if it was skipped."""
    problem = lacking(scratch, row)
    if problem:
        print("         %s  SKIPPED (%s)" % (row.command, problem), flush=True)
        return None
    server, client = (complete(scratch, row.command, side) for side in ("server", "client"))
    verdict = pair.run_pair(scratch, server, client, limit)
    good, text = outcome(row, verdict)
    print("%5.1f s  %s  %s" % (verdict.seconds, row.command, text), flush=True)
    if not good and not verdict.passed:
        print(verdict.tails, flush=True)
    return good


def read_reasons(path, rows):
    """What of the rows does not apply to two hosts: why, by a text in their commands."""
    reasons = {}
    for line in pair.table_lines(path):
        text, reason = (field.strip() for field in line.split("|", 1))
        if not any(text in row.command for row in rows):
            sys.exit("%s: no row has %s" % (path, text))
        reasons[text] = reason
    return reasons


def applying(rows, reasons):
    """Those rows that apply; says why others do not."""
    for row in rows:
        why = [reason for text, reason in reasons.items() if text in row.command]
        if why:
            print("         %s  does not apply (%s)" % (row.command, why[0]), flush=True)
        else:
            yield row


def options():
    p = pair.parser(__doc__)
    p.add_argument("--user", help="run as this user, and only the rows marked main+user")
    p.add_argument("--limit", type=float, default=120, help="seconds for one row")
    p.add_argument("--installed", metavar="VARIABLE",
                   help="the programs are those of bin in the folder that this variable of the "
                   "environment names; without it the test is skipped")
    p.add_argument("--built", action="store_true",
                   help="the programs and libraries are those of the rdma-core that "
                   "ANYVERBS_RDMA_CORE names; without it the test is skipped")
    p.add_argument("--only", action="append", default=[], metavar="TEXT",
                   help="only the rows that contain this text; given again: that one, too")
    p.add_argument("--without", action="append", default=[], metavar="TEXT",
                   help="no rows that contain this text")
    p.add_argument("--first", metavar="PROGRAM",
                   help="only the first row that this program passes")
    p.add_argument("--table",
                   default=os.path.join(HERE, "rows.txt"))
    p.add_argument("--hosts", choices=HOSTS, default="one",
                   help="apart: one, whose kernel lets no process access another's memory; two: a "
                   "network namespace each, and a folder of shared files each; sharing: with one "
                   "folder for both")
    p.add_argument("--cable", metavar="FAULTS",
                   help="what becomes of packets between two hosts, in the words of relay.py")
    p.add_argument("section", nargs="*", help="all if there is none")
    return p.parse_args()


def chosen(rows, args):
    rows = [r for r in rows if (not args.section or r.section in args.section)
            and (not args.user or r.runs == "main+user")
            and (not args.first or is_passed_by(args.first, r))
            and all(text in r.command for text in args.only)
            and not any(text in r.command for text in args.without)]
    return rows[:1] if args.first else rows


def is_passed_by(program, row):
    return row.state == "pass" and pair.split_command(row.command)[1][0] == program


def use_installed(variable, inner=""):
    """@inner: where bin is in that folder. Return: that"""
    folder = os.environ.get(variable)
    if not folder:
        pair.skip("%s is not set: the programs are wanted there, in %s"
                  % (variable, os.path.join(inner, "bin")))
    folder = os.path.join(os.path.abspath(folder), inner)
    if not os.path.isdir(os.path.join(folder, "bin")):
        sys.exit("%s: no bin in %s" % (variable, folder))
    os.environ["PATH"] = os.path.join(folder, "bin") + ":" + os.environ["PATH"]
    return folder


def use_built():
    folder = use_installed("ANYVERBS_RDMA_CORE", "build")
    os.environ["LD_LIBRARY_PATH"] = os.path.join(folder, "lib")


def main():
    args = options()
    pair.require_programs()
    if args.installed:
        use_installed(args.installed)
    if args.built:
        use_built()
    if args.user:
        pair.require_root()
    table = read_rows(args.table)
    rows = chosen(table, args)
    if not rows:
        sys.exit("no such rows")
    if args.hosts in ("two", "sharing"):
        veth.enter()
        rows = list(applying(rows, read_reasons(os.path.join(HERE, "two_hosts.txt"), table)))
    with contextlib.ExitStack() as stack:
        if args.hosts in ("two", "sharing"):
            hosts = stack.enter_context(veth.TwoHosts(args.hosts == "two", args.cable))
        else:
            hosts = pair.Apart() if args.hosts == "apart" else pair.OneHost()
        scratch = stack.enter_context(pair.Scratch(args.library, args.user, args.preload, hosts))
        results = [run_row(scratch, row, args.limit) for row in rows]
    print("%d of %d rows as expected, %d skipped"
          % (results.count(True), len(rows), results.count(None)))
    sys.exit(1 if False in results else 0)


if __name__ == "__main__":
    main()
