#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""
tgt serves a disk by iSER, and QEMU's tools, over libiscsi, fill it and read it back, on one host
or, with --hosts, between two. tgtd 1.0.85 takes no other port than 3260, so it has a network
namespace of its own.
"""
import contextlib
import os
import shutil
import subprocess
import sys
import time

import pair
import veth

PACKAGES = {"tgtd": "tgt", "tgtadm": "tgt", "qemu-img": "qemu-utils"}
SECONDS = 60
DISK_BYTES = 64 << 20
IB_WORD = 4          # port_rcv_data and port_xmit_data count these
COUNTERS = "/sys/class/infiniband/any0/ports/1/counters/"

TARGET = "iqn.2026-01.org.anyverbs:disk"
INITIATOR = "iqn.2026-01.org.anyverbs:client"
# Over iSER, tgtd 1.0.85 wants the address and the name of an initiator to be permitted, each.
SET_UP = (
    "target --op new --tid 1 --targetname " + TARGET,
    "logicalunit --op new --tid 1 --lun 1 --backing-store {disk}",
    "target --op bind --tid 1 --initiator-address ALL",
    "target --op bind --tid 1 --initiator-name " + INITIATOR,
)
# libiscsi 1.19 refuses requests of more than 256 KiB: blkdebug divides QEMU's.
REMOTE = ("driver=blkdebug,max-transfer=262144,image.driver=iscsi,image.transport=iser,"
          "image.portal=%s:3260,image.target=" + TARGET + ",image.lun=1,"
          "image.initiator-name=" + INITIATOR)
# What the client does, 8 requests at a time, and which way the server moves the bytes by RDMA.
STEPS = (
    ("convert -n -W -m 8 -f raw --target-image-opts random {remote}", "port_rcv_data", "disk"),
    ("convert -W -m 8 --image-opts -O raw {remote} back", "port_xmit_data", "back"),
)


def require_programs():
    missing = [program for program in PACKAGES if not shutil.which(program)]
    if missing:
        pair.skip("not installed (packages %s): %s" % (
            ", ".join(sorted({PACKAGES[program] for program in missing})), " ".join(missing)))
    said = subprocess.run(["qemu-img", "--help"], stdout=subprocess.PIPE, text=True, check=False)
    if "iser" not in said.stdout.split():
        pair.skip("qemu-img does not know iSER (package qemu-block-extra)")


class Target:
    """tgtd and its disk. It ends with the block that it is the context of."""

    def __init__(self, scratch):
        self.scratch = scratch
        self.settings = {"TGT_IPC_SOCKET": os.path.join(scratch.path, "tgtd")}
        self.side = pair.Side(scratch, "server", self.settings,
                              "tgtd -f --iser pool_sz_mb=128".split())

    def __enter__(self):
        try:
            self.wait_until_it_listens()
            for row in SET_UP:
                self.administer(row.format(disk=os.path.join(self.scratch.path, "disk")))
        except BaseException:
            self.side.end()
            raise
        return self

    def __exit__(self, *_):
        self.side.end()

    def administer(self, words):
        run(self, "tgtadm", "tgtadm --lld iser --mode " + words)

    def wait_until_it_listens(self):
        """It has this socket when all its ports listen."""
        deadline = time.monotonic() + SECONDS
        while not os.path.exists(self.settings["TGT_IPC_SOCKET"] + ".0"):
            if self.side.code() is not None or time.monotonic() > deadline:
                sys.exit("no tgtd: %s\n%s" % (self.side.ending(), self.side.tail()))
            time.sleep(pair.POLL_SECONDS)


def run(target, name, command):
    """Return: what the program printed."""
    side = pair.Side(target.scratch, name, target.settings, command.split())
    try:
        ended = side.wait_until(time.monotonic() + SECONDS)
    finally:
        side.end()
    if not ended or side.code() != 0:
        sys.exit("%s: %s\n%s\n%s" % (command, side.ending() if ended else "time limit",
                                     side.tail(), target.side.tail()))
    return next(side.texts())


def counted(target, counter):
    """Bytes that processes of the server's folder have moved."""
    return int(run(target, "cat", "cat " + COUNTERS + counter)) * IB_WORD


def read(scratch, name):
    with open(os.path.join(scratch.path, name), "rb") as f:
        return f.read()


def step(target, command, counter, copy):
    """Does it, and compares @copy with what went in."""
    remote = REMOTE % target.scratch.hosts.server_address
    before = counted(target, counter)
    run(target, "client", "qemu-img " + command.format(remote=remote))
    moved = counted(target, counter) - before
    if read(target.scratch, copy) != read(target.scratch, "random"):
        sys.exit("%s: other bytes than those of the disk" % copy)
    if moved < DISK_BYTES:
        sys.exit("%s: %d bytes by the device, of %d" % (copy, moved, DISK_BYTES))
    print("%s: %d bytes by the device" % (copy, moved))


def main():
    p = pair.parser(__doc__)
    p.add_argument("--hosts", action="store_true", help="two, instead of one")
    args = p.parse_args()
    require_programs()
    veth.enter()
    with contextlib.ExitStack() as stack:
        hosts = stack.enter_context(veth.TwoHosts(own_folders=True)) if args.hosts else None
        if not hosts:
            subprocess.run("ip link set lo up".split(), check=True)
        scratch = stack.enter_context(pair.Scratch(args.library, None, args.preload, hosts))
        scratch.random_file("random", DISK_BYTES)
        scratch.file("disk", DISK_BYTES)
        target = stack.enter_context(Target(scratch))
        for row in STEPS:
            step(target, *row)


if __name__ == "__main__":
    main()
