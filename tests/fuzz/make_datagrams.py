#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""make_datagrams.py FOLDER: write the seeds of fuzz_cut, the files of corpus/cut.

Packets as the kernel joins them: bytes of each (0: it is one), whether the addresses are IPv4, the
last byte of both, the packets. The ICRC is left to fuzz_cut.
"""
import pathlib
import struct
import sys

RETH = struct.pack(">QII", 0x7F0000001000, 0x2A01, 64)
DETH = struct.pack(">II", 0x11111111, 0x000456)
ACK, NAK = struct.pack(">I", 0x1F000007), struct.pack(">I", 0x60000007)
BYTES = bytes(range(16))


def packet(opcode, rest):
    padding = -len(rest) % 4
    # Opcode; migrated and padding; partition; destination; acknowledge and PSN.
    bth = struct.pack(">BBHII", opcode, 0x40 | padding << 4, 0xFFFF, 0x000789, 0x800000AB)
    return bth + rest + bytes(padding) + bytes(4)


def joined(*packets, ipv4=True):
    """Packets of one length; only the last may be shorter."""
    length = len(packets[0]) if len(packets) > 1 else 0
    return bytes([length, int(ipv4), 2, 3]) + b"".join(packets)


SEEDS = {
    "one": joined(packet(0x04, BYTES)),
    "ipv6": joined(packet(0x0A, RETH + BYTES), ipv4=False),
    "three": joined(packet(0x00, BYTES), packet(0x01, BYTES), packet(0x02, BYTES[:3])),
    "acks": joined(packet(0x11, ACK), packet(0x11, NAK), packet(0x11, ACK)),
    "datagrams": joined(packet(0x64, DETH + BYTES), packet(0x64, DETH), ipv4=False),
    "short": bytes([3, 1, 2, 3]) + packet(0x11, ACK),
    "empty": bytes(4),
}

folder = pathlib.Path(sys.argv[1])
folder.mkdir(parents=True, exist_ok=True)
for name, seed in SEEDS.items():
    (folder / name).write_bytes(seed)
