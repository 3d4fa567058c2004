#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""make_requests.py FOLDER: write the seeds of fuzz_netlink, the files of corpus/netlink.

One request of each kind that is answered, as rdma(8) asks, in the byte order of this machine.
"""
import pathlib
import struct
import sys

REQUEST, ACK, DUMP = 0x1, 0x4, 0x300
NLDEV = 5 << 10
DEV_INDEX, PORT_INDEX, LQPN, PDN, CHARDEV_TYPE, STAT_RES, RES_MR = 1, 3, 21, 60, 69, 75, 40
OURS = 100000


def number(kind, value):
    return struct.pack("=HHI", 8, kind, value)


def text(kind, value):
    data = value.encode() + b"\0"
    return struct.pack("=HH", 4 + len(data), kind) + data + bytes(-len(data) % 4)


def message(command, flags, *attributes):
    body = b"".join(attributes)
    return struct.pack("=IHHII", 16 + len(body), NLDEV + command, REQUEST | flags, 1, 0) + body


DEVICE, PORT = number(DEV_INDEX, OURS), number(PORT_INDEX, 1)
SEEDS = {
    "devices": message(1, DUMP),
    "device": message(1, ACK, DEVICE),
    "rename": message(2, ACK, DEVICE),
    "new_link": message(3, ACK),
    "port": message(5, ACK, DEVICE, PORT),
    "ports": message(5, DUMP, DEVICE),
    "system": message(6, ACK),
    "summaries": message(9, DUMP),
    "queue_pairs": message(10, DUMP, DEVICE, PORT),
    "queue_pair": message(10, ACK, DEVICE, number(LQPN, 17)),
    "domains": message(14, DUMP, DEVICE),
    "domain": message(14, ACK, DEVICE, number(PDN, 1)),
    "node": message(15, 0, DEVICE, text(CHARDEV_TYPE, "uverbs")),
    "counters": message(17, ACK, DEVICE, PORT),
    "page_faults": message(17, DUMP, DEVICE, number(STAT_RES, RES_MR)),
    "several": message(1, DUMP) + message(5, ACK, DEVICE, PORT) + message(6, 0),
}


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in SEEDS.items():
        (folder / name).write_bytes(data)


if __name__ == "__main__":
    main()
