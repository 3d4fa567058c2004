#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""make_cm.py FOLDER: write the seeds of fuzz_cm, the files of corpus/cm.

Messages of connection management, whole datagrams of 256 bytes.
"""
import pathlib
import struct
import sys

IPS = struct.pack(">BBH", 0, 0x40, 7471) + bytes(12) + bytes([192, 0, 2, 1]) + bytes(12) + bytes(
    [192, 0, 2, 2])
IDS = struct.pack(">II", 0x11223344, 0x55667788)
SERVICE = struct.pack(">Q", 0x01061D2F)


def message(attribute, content, size=256):
    header = struct.pack(">BBBBHHQHHI", 1, 7, 2, 3, 0, 0, 0x0123456789ABCDEF, attribute, 0, 0)
    return (header + content).ljust(size, b"\0")


REQ = struct.pack(">II8sQIIIIIII", 0x11223344, 0, SERVICE, 0x0200000000000001, 0, 0, 0x45604,
                  0x4, 0xA0, 0x123456A7, 0xFFFF37F0).ljust(140, b"\xFF") + IPS

SEEDS = {
    "req": message(0x10, REQ),
    "mra": message(0x11, IDS + bytes([0x40, 0xA0])),
    "rej": message(0x12, IDS + bytes([0x40, 4 << 1, 0, 28]) + b"info"),
    "rej_long": message(0x12, IDS + bytes([0x40, 0xFF, 0, 28]) + b"info"),
    "rep": message(0x13, IDS + struct.pack(">IIIIII", 0, 0x78900, 0, 0x65432100, 0x0404F8F0, 0)),
    "rtu": message(0x14, IDS),
    "dreq": message(0x15, IDS + struct.pack(">I", 0x78900)),
    "drep": message(0x16, IDS),
    "sidr_req": message(0x17, IDS[:4] + bytes([0xFF, 0xFF, 0, 0]) + SERVICE + IPS),
    "sidr_rep": message(0x18, IDS[:4] + bytes([0, 4, 0, 0]) + struct.pack(">I", 0x78900) + SERVICE),
    "lap": message(0x19, IDS + bytes(range(1, 60))),
    "apr": message(0x1A, IDS + bytes([73, 1]) + bytes(72)),
    "unknown": message(0x1B, IDS),
    "short": message(0x14, IDS, 255),
    "empty": b"",
}

folder = pathlib.Path(sys.argv[1])
folder.mkdir(parents=True, exist_ok=True)
for name, seed in SEEDS.items():
    (folder / name).write_bytes(seed)
