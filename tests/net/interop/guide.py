# SPDX-License-Identifier: MIT
"""
Commands of the guide to rdma_rxe (docs/guide/rxe.md) as rows of cases.txt. In its fenced blocks,
"rxe$ COMMAND" and "any$ COMMAND" are a server and its client; "rxe# COMMAND" is one of root, which
guest.sh must give, too.
"""
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "docs/man"))

import examples  # pylint: disable=wrong-import-position

RUN = "anyverbs run -- "
DEVICES = {"rxe": "rxe0", "any": "any0"}
INTERFACE = "eth0"
# What interop.py adds to each row.
ADDED = (r" -F\b", r" -[xg] \d+", r" -d \S+")


def row_of(machine, command, address=""):
    """The command without what says where it runs."""
    if machine == "any":
        if not command.startswith(RUN):
            sys.exit("without %s: %s" % (RUN, command))
        command = command[len(RUN):]
    if " -d %s " % DEVICES[machine] not in command or not command.endswith(address):
        sys.exit("not of its machine: %s" % command)
    command = command[:len(command) - len(address)] if address else command
    for option in ADDED:
        command = re.sub(option, "", command)
    return command.strip()


def check_roots(command):
    """@command: of root, which the emulated machine does by other names"""
    done = command.replace(DEVICES["rxe"], '"$end"').replace(INTERFACE, '"$end"')
    with open(os.path.join(HERE, "guest.sh"), encoding="utf-8") as file:
        if not done.startswith("modprobe ") and done not in file.read():
            sys.exit("guest.sh does not do: " + command)


def read_pairs(path):
    """(server's machine, client's machine, command) of each pair of commands"""
    for block in examples.blocks(path):
        found = [re.match(r"(rxe|any)([$#]) (.*)", line) for _, line in block]
        found = [match.groups() for match in found if match]
        for _, prompt, command in found:
            if prompt == "#":
                check_roots(command)
        commands = [(machine, command) for machine, prompt, command in found if prompt == "$"]
        if not commands:
            continue
        (server, first), (client, second) = commands
        address = re.search(r" [\d.]+$", second)
        row = row_of(server, first)
        if not address or row_of(client, second, address[0]) != row:
            sys.exit("not a server and its client:\n%s\n%s" % (first, second))
        yield server, client, row
