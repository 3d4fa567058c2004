#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""
QEMU moves a running guest, which has nothing but its firmware, to another QEMU by RDMA, on one host
or, with --hosts, between two. Both emulate the processor.
"""
import contextlib
import json
import os
import shutil
import socket
import sys
import time

import pair
import veth

QEMU = "qemu-system-x86_64"
SECONDS = 60
MACHINE = ("%s -machine q35,accel=tcg -m 64 -nodefaults -nographic "
           "-qmp unix:%%s,server=on,wait=off" % QEMU).split()


class Guest(pair.Side):
    """@incoming: a uri, where a guest is to come from"""

    def __init__(self, scratch, name, incoming=None):
        self.path = os.path.join(scratch.path, name + ".qmp")
        words = [word.replace("%s", self.path) for word in MACHINE]
        super().__init__(scratch, name, {}, words + (["-incoming", incoming] if incoming else []))
        self.connection = self.connect(time.monotonic() + SECONDS)
        self.connection.readline()
        self.ask("qmp_capabilities")

    def connect(self, deadline):
        while time.monotonic() < deadline and self.code() is None:
            with contextlib.suppress(OSError):
                s = socket.socket(socket.AF_UNIX)
                s.settimeout(SECONDS)
                s.connect(self.path)
                return s.makefile("rw", encoding="utf-8")
            time.sleep(pair.POLL_SECONDS)
        sys.exit("no QEMU: %s\n%s" % (self.ending(), self.tail()))

    def ask(self, command, **arguments):
        """Return: the answer, past events"""
        self.connection.write(json.dumps({"execute": command, "arguments": arguments}) + "\n")
        self.connection.flush()
        while True:
            answer = json.loads(self.connection.readline())
            if "error" in answer:
                sys.exit("%s: %s" % (command, answer["error"]["desc"]))
            if "return" in answer:
                return answer["return"]

    def wait_for(self, command, field, *wanted):
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            answer = self.ask(command)
            if answer.get(field) in wanted:
                return answer
            time.sleep(pair.POLL_SECONDS)
        sys.exit("%s: %s\n%s" % (command, answer, self.tail()))


def move(source, target, uri):
    source.ask("migrate", uri=uri)
    result = source.wait_for("query-migrate", "status", "completed", "failed")
    if result["status"] != "completed":
        sys.exit("failed:\n%s\n%s" % (source.tail(), target.tail()))
    source.wait_for("query-status", "status", "postmigrate")
    target.wait_for("query-status", "status", "running")
    print("moved %d bytes of memory" % result["ram"]["transferred"])


def run(scratch):
    uri = "rdma:%s:%d" % (scratch.hosts.server_address, pair.free_port())
    sides = []
    try:
        sides.append(Guest(scratch, "server", uri))
        sides.append(Guest(scratch, "client"))
        move(sides[1], sides[0], uri)
    finally:
        for side in sides:
            side.end()


def main():
    p = pair.parser(__doc__)
    p.add_argument("--hosts", action="store_true", help="two, instead of one")
    args = p.parse_args()
    if not shutil.which(QEMU):
        pair.skip(QEMU + " is not installed (package qemu-system-x86)")
    if args.hosts:
        veth.enter()
    with contextlib.ExitStack() as stack:
        hosts = stack.enter_context(veth.TwoHosts(own_folders=True)) if args.hosts else None
        run(stack.enter_context(pair.Scratch(args.library, None, args.preload, hosts)))


if __name__ == "__main__":
    main()
