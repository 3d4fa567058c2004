#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""make_frames.py FOLDER: write the seeds of fuzz_frame, the files of corpus/frame.

One frame per opcode, some also behind an IPv6 header or of another service, and some packets alone.
Lengths and checksums are left out where fuzz_frame puts them right itself.
"""
import pathlib
import struct
import sys

XRCETH = struct.pack(">I", 0x000123)
DETH = struct.pack(">II", 0x11111111, 0x000456)
FETH = struct.pack(">I", 0x11)
RETH = struct.pack(">QII", 0x7F0000001000, 0x2A01, 64)
ATOMIC_ETH = struct.pack(">QIQQ", 0x7F0000001000, 0x2A01, 1, 2)
AETH = struct.pack(">I", 0x1F000007)
NAK = struct.pack(">I", 0x60000007)
ATOMIC_ACK_ETH = struct.pack(">Q", 41)
IMMDT = struct.pack(">I", 0xC0FFEE)
IETH = struct.pack(">I", 0x2A01)
BYTES = bytes(range(16))

RC, UC, UD, XRC = 0x00, 0x20, 0x60, 0xA0

# Name: low bits of the opcode, what follows the BTH.
PACKETS = {
    "send_first": (0x00, BYTES),
    "send_middle": (0x01, BYTES),
    "send_last": (0x02, BYTES[:3]),
    "send_last_imm": (0x03, IMMDT + BYTES),
    "send_only": (0x04, BYTES),
    "send_only_imm": (0x05, IMMDT + BYTES[:5]),
    "write_first": (0x06, RETH + BYTES),
    "write_middle": (0x07, BYTES),
    "write_last": (0x08, BYTES[:1]),
    "write_last_imm": (0x09, IMMDT + BYTES),
    "write_only": (0x0A, RETH + BYTES),
    "write_only_imm": (0x0B, RETH + IMMDT),
    "read": (0x0C, RETH),
    "read_response_first": (0x0D, AETH + BYTES),
    "read_response_middle": (0x0E, BYTES),
    "read_response_last": (0x0F, AETH + BYTES[:2]),
    "read_response_only": (0x10, AETH + BYTES),
    "ack": (0x11, AETH),
    "nak": (0x11, NAK),
    "atomic_ack": (0x12, AETH + ATOMIC_ACK_ETH),
    "cmp_swap": (0x13, ATOMIC_ETH),
    "fetch_add": (0x14, ATOMIC_ETH),
    "send_last_inv": (0x16, IETH + BYTES),
    "send_only_inv": (0x17, IETH + BYTES),
    "flush": (0x1C, FETH + RETH),
    "atomic_write": (0x1D, RETH + BYTES[:8]),
}


def packet(name, service=RC, header=b""):
    low, rest = PACKETS[name]
    padding = -len(rest) % 4
    # Opcode; solicited, migrated and padding; partition; destination; acknowledge and PSN.
    bth = struct.pack(">BBHII", service | low, 0x40 | padding << 4, 0xFFFF, 0x000789, 0x800000AB)
    return bth + header + rest + bytes(padding)


def address(number, mapped):
    if mapped:
        return bytes(10) + bytes.fromhex("ffff0a0000") + bytes([number])
    return bytes.fromhex("fe80") + bytes(13) + bytes([number])


def frame(body, version, mapped=False):
    udp = struct.pack(">HHHH", 0xC000, 4791, 0, 0)
    if version == 4:
        ethernet = bytes.fromhex("020000000001020000000002") + b"\x08\x00"
        ip = bytes.fromhex("4500000000004000401100000a0000010a000002")
    else:
        ethernet = bytes.fromhex("030000000001020000000002") + b"\x86\xdd"
        ip = bytes.fromhex("6000000000001140") + address(1, mapped) + address(2, mapped)
    return ethernet + ip + udp + body + bytes(4)


def seeds():
    for name in PACKETS:
        yield f"rc_{name}", frame(packet(name), 4)
        yield f"packet_{name}", packet(name)
    for name in ("send_only", "read", "cmp_swap", "ack", "flush"):
        yield f"ipv6_{name}", frame(packet(name), 6)
    yield "ipv6_mapped", frame(packet("send_only"), 6, mapped=True)
    for name in ("send_only", "write_only_imm"):
        yield f"uc_{name}", frame(packet(name, UC), 4)
    for name in ("send_only", "send_only_imm"):
        yield f"ud_{name}", frame(packet(name, UD, DETH), 4)
    for name in ("send_only_inv", "write_first", "read", "fetch_add", "atomic_write"):
        yield f"xrc_{name}", frame(packet(name, XRC, XRCETH), 4)


folder = pathlib.Path(sys.argv[1])
folder.mkdir(parents=True, exist_ok=True)
for seed, content in seeds():
    (folder / seed).write_bytes(content)
