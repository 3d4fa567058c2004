#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""
The commands of a guide for two machines are run, on two that share nothing but a cable.

  guide_pages.py --tool PROGRAM --library FILE PAGE

In fenced blocks of PAGE, a line "a$ COMMAND" is one of a user of machine a, "b# COMMAND" one of
root of machine b; a backslash at its end continues it. It must exit with 0, or with what a comment
says ("# exit 1"). "# needs PROGRAM..." leaves out the rest of its block, loudly, where one of these
is not installed. All other lines are what it printed.

A command whose next one is of the other machine stays in its own terminal: the next one begins when
it listens at a port, or has ended.

A block that adds rules to a firewall meets one that lets nothing in: it must work, and must not
without any one of the rules. In a table whose first column is "MTU of the interface" and whose
second one is "path MTU", the path MTU of each row is the largest that works.

Exit status: 0; 1: something does not hold; 77: nothing could be run.
"""
import argparse
import os
import re
import shutil
import sys
import tempfile
from collections import namedtuple

HERE = os.path.dirname(os.path.abspath(__file__))
for beside in ("clients", "docs/man"):
    sys.path.insert(0, os.path.join(HERE, "..", "..", beside))

import examples  # pylint: disable=wrong-import-position
import machines  # pylint: disable=wrong-import-position
import pair  # pylint: disable=wrong-import-position
import veth  # pylint: disable=wrong-import-position

NAMES = ("a", "b")
COMMAND_SECONDS = 60
REFUSED_SECONDS = 8    # longer than retries last
PATH_MTUS = (256, 512, 1024, 2048, 4096)

RULE = "nft add rule "
# What a machine may have that nobody else is to reach. Answers of UDP are not let in: an adapter
# sends from other ports than it listens at.
CLOSED = """
table inet filter {
	chain input {
		type filter hook input priority filter; policy drop;
		iif lo accept
		meta l4proto { icmp, ipv6-icmp } accept
		meta l4proto tcp ct state established accept
	}
}
"""

Command = namedtuple("Command", "line machine root text")


def commands(block):
    joined = None
    for number, line in block:
        if joined is None:
            found = re.match(r"([a-z]+)([$#]) (.*)", line)
            if not found:
                continue
            joined = Command(number, found[1], found[2] == "#", found[3])
        else:
            joined = joined._replace(text=joined.text + "\n" + line)
        if not line.endswith("\\"):
            yield joined
            joined = None


def possible(block):
    """Those commands of the block that come before one that needs what is not here."""
    for command in block:
        needs = (examples.comment(command.text, "needs") or "").split()
        missing = [program for program in needs if not shutil.which(program)]
        if missing:
            print("line %d: LEFT OUT from here: no %s" % (command.line, " ".join(missing)))
            return
        yield command


def wanted(command):
    return int(examples.comment(command.text, "exit") or 0)


class Runner:
    def __init__(self, both):
        self.both = both
        self.ran = 0
        self.faults = []

    def start_all(self, block, seconds):
        """Return: jobs by command, all of which have ended or had their time"""
        jobs = []
        for i, command in enumerate(block):
            machine = self.both[command.machine]
            before = machine.listeners()
            job = machine.start(["bash", "-c", command.text], command.root)
            jobs.append((command, job))
            if i + 1 < len(block) and block[i + 1].machine != command.machine:
                machine.await_listener(job, before, seconds)
            else:
                job.wait(seconds)
        return jobs

    def problems(self, block, seconds=COMMAND_SECONDS):
        """Run it. Return: what went wrong, in lines; empty if all is well"""
        found = ""
        for command, job in self.start_all(block, seconds):
            status = job.wait(seconds)
            if status != wanted(command):
                found += "line %d: %s: %s\n%s\n" % (
                    command.line, command.text, "no end after %d s" % seconds
                    if status is None else "exit status %d" % status, job.output())
        for machine in self.both.values():
            machine.end_jobs()
        return found

    def judge(self, what, problems):
        self.ran += 1
        print("%s: %s" % (what, "FAIL" if problems else "ok"), flush=True)
        if problems:
            self.faults.append(what)
            print(problems, flush=True)

    def run_block(self, block):
        what = "line %d, %d commands" % (block[0].line, len(block))
        rules = [command for command in block if command.text.startswith(RULE)]
        for rule in rules:
            self.close()
            works = not self.problems([c for c in block if c != rule], REFUSED_SECONDS)
            self.judge("line %d, without that rule" % rule.line,
                       "it works without: %s" % rule.text if works else "")
        if rules:
            self.close()
        self.judge(what, self.problems(block))
        if rules:
            self.administer("nft", "flush", "ruleset")

    def close(self):
        self.administer("nft", "flush", "ruleset")
        self.administer("nft", "-f", "-", text=CLOSED)

    def administer(self, *words, text=None):
        for machine in self.both.values():
            machine.administer(*words, text=text)

    def set_mtu(self, mtu):
        self.administer("ip", "link", "set", machines.INTERFACE, "mtu", str(mtu))

    def problems_with(self, path_mtu):
        """RDMA WRITEs of several packets. Return: what went wrong, in lines"""
        command = "anyverbs run -d any0:mtu=%d -- ib_write_bw -d any0 -F -u 15 -n 100" % path_mtu
        server = Command(0, NAMES[0], False, command)
        client = Command(0, NAMES[1], False, command + " " + NAMES[0])
        return self.problems([server, client])

    def check_mtu_row(self, line, mtu, path_mtu):
        self.set_mtu(mtu)
        larger = [m for m in PATH_MTUS if m > path_mtu]
        problems = self.problems_with(path_mtu)
        if larger and not self.problems_with(larger[0]):
            problems += "%d works, too\n" % larger[0]
        self.judge("line %d, MTU %d and path MTU %d" % (line, mtu, path_mtu), problems)


def mtu_rows(path):
    """(line, MTU of the interface, path MTU) of the page's table of them"""
    inside = False
    with open(path, encoding="utf-8") as page:
        for number, line in enumerate(page, 1):
            cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
            inside = line.startswith("|") and (
                inside or cells[:2] == ["MTU of the interface", "path MTU"])
            if inside and cells[0].isdigit():
                yield number, int(cells[0]), int(cells[1])


def run_page(path, runner):
    for lines in examples.blocks(path):
        block = list(possible(commands(lines)))
        if block:
            runner.run_block(block)
    for row in mtu_rows(path):
        runner.check_mtu_row(*row)


def main():
    p = argparse.ArgumentParser()
    for option in ("--tool", "--library"):
        p.add_argument(option, required=True)
    p.add_argument("page")
    args = p.parse_args()
    pair.require_programs()
    veth.enter()
    with tempfile.TemporaryDirectory(prefix="anyverbs-guide-") as folder:
        env = machines.install(folder, args.tool, args.library)
        with machines.Pair(NAMES, folder, env, machines.as_nobody()) as both:
            runner = Runner(both)
            run_page(args.page, runner)
    print("%s: %d steps, %d failed"
          % (os.path.basename(args.page), runner.ran, len(runner.faults)))
    if not runner.ran:
        pair.skip("nothing to run")
    sys.exit(1 if runner.faults else 0)


if __name__ == "__main__":
    main()
