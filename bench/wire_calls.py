#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
wire_calls.py BUILD-FOLDER [--most N]

Count the system calls of a request of 8 B and its answer over the wire: those of all threads of
both sides, between two network namespaces. ib_send_lat runs with N and with 2 N iterations, and the
difference counts, so that nothing of the beginning and the end does. Whoever waits polls in vain,
and yields the core: how often depends on the machine's speed, so that is printed, but not in the
sum.

Exit status: 1 if the sum is above --most, or less than the sends and receives in it, since one of
the two runs was disturbed more than the other; 77 if the kernel does not count here, or if there
can be no such namespaces.
"""
import argparse
import collections
import os
import shutil
import subprocess
import sys
import tempfile

import programs
import veth  # of tests/clients, by way of programs
from pair import free_port, skip

COUNT = 4000
WAITING = ("receives in vain", "polls in vain", "yields")
# Of sys_exit: what is printed, and an event and filter that count towards it.
EVENTS = [("all", "raw_syscalls:sys_exit", "ret >= -4095"),
          ("receives in vain", "syscalls:sys_exit_recvmsg", "ret == -11"),
          ("receives in vain", "syscalls:sys_exit_recvmmsg", "ret == -11"),
          ("polls in vain", "syscalls:sys_exit_ppoll", "ret == 0"),
          ("yields", "syscalls:sys_exit_sched_yield", "ret == 0"),
          ("sends", "syscalls:sys_exit_sendto", "ret > 0"),
          ("sends", "syscalls:sys_exit_sendmsg", "ret > 0"),
          ("receives", "syscalls:sys_exit_recvmsg", "ret > 0"),
          ("receives", "syscalls:sys_exit_recvmmsg", "ret > 0")]


def counting(output):
    """Words before a command that count its calls into a file."""
    words = ["perf", "stat", "-x", ",", "-o", output]
    for _, event, condition in EVENTS:
        words += ["-e", event, "--filter", condition]
    return words


def require_counter():
    if not shutil.which("perf"):
        skip("not installed (package linux-perf): perf")
    done = subprocess.run([*counting("/dev/null"), "true"], stderr=subprocess.PIPE, text=True,
                          check=False)
    if done.returncode:
        skip("perf cannot count system calls here: " + done.stderr.strip()[-200:])


def counted(output):
    """Calls by name. The file has a line for each of EVENTS; <not counted> is 0."""
    calls = collections.Counter()
    with open(output, encoding="ascii") as lines:
        values = [line.split(",")[0] for line in lines if "," in line and line[0] != "#"]
    for (name, _, _), value in zip(EVENTS, values):
        calls[name] += int(value) if value.isdigit() else 0
    return calls


def run(build, where, count):
    """Calls of both sides, by what is counted."""
    ours = programs.our_perftest(build, where=where)
    with tempfile.TemporaryDirectory() as folder:
        sides = [os.path.join(folder, side) for side in ("server", "client")]
        port = free_port()
        test = ["ib_send_lat", "-d", ours.device, "-F", "-p", str(port), "-s", "8", "-n",
                str(count)]
        server, client = ([*counting(side), *test] for side in sides)
        programs.pair(server, client, port, ours.settings, where)
        each = [counted(side) for side in sides]
    return each[0] + each[1]


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--most", type=float)
    args = parser.parse_args()
    veth.enter()
    require_counter()
    with tempfile.TemporaryDirectory() as here, tempfile.TemporaryDirectory() as there, \
            veth.TwoHosts(own_folders=True) as hosts:
        os.environ["ANYVERBS_DIR"] = here
        words = [*veth.inside(hosts.holder), "env", "ANYVERBS_DIR=" + there]
        where = programs.Where(words, hosts.server_address)
        once, twice = (run(args.build, where, count) for count in (COUNT, 2 * COUNT))
    each = {name: (twice[name] - once[name]) / COUNT for name, _, _ in EVENTS}
    total = each["all"] - sum(each[name] for name in WAITING)
    print("%.2f system calls for a request of 8 B and its answer: %.2f sends, %.2f receives" % (
        total, each["sends"], each["receives"]))
    print("beside those of waiting: " + ", ".join("%.2f %s" % (each[name], name)
                                                  for name in WAITING))
    least = each["sends"] + each["receives"]
    sys.exit(0 if args.most is None or least <= total <= args.most else 1)


if __name__ == "__main__":
    main()
