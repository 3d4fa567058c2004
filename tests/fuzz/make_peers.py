#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""make_peers.py FOLDER: write the seeds of fuzz_peer, the files of corpus/peer.

Steps of eight bytes: who does what, opcode, PSN from the next one, flags, length of the payload,
place, key, the rest. fuzz_peer.c says what each byte means.
"""
import pathlib
import struct
import sys

RC, SHARED, UC, UD, XRC = range(5)
POST, RECEIVE, PACKET, POLL = 0x00, 0x40, 0x80, 0x20
LENGTHS = [0, 1, 3, 4, 8, 64, 1020, 1023, 1024, 1025, 2048, 4095, 4096, 2, 16, 128]
WRITABLE, READABLE, LOCAL = range(3)
ACK_REQUEST, SOLICITED, FENCE = 2, 1, 1
SEND, WRITE, READ, COMPARE, ADD, WRITE_IMM, SEND_INV, SEND_IMM = range(8)


def step(what, opcode=0, psn=0, flags=0, bytes=0, place=0, key=0, more=0):
    return struct.pack("BBbBBBBB", what, opcode, psn, flags, LENGTHS.index(bytes), place, key, more)


def packet(queue, opcode, bytes=0, **rest):
    return step(PACKET | POLL | queue, opcode, bytes=bytes, **rest)


def receive(queue, bytes=4096):
    return step(RECEIVE | queue, bytes=bytes)


def post(queue, opcode, bytes=64, **rest):
    return step(POST | queue, opcode, bytes=bytes, **rest)


def length(bytes):
    return LENGTHS.index(bytes)


def send(queue):
    return receive(queue) + packet(queue, 0, 1024) + packet(queue, 1, 1024) + \
        packet(queue, 2, 64, flags=ACK_REQUEST) + receive(queue) + packet(queue, 4, 3) + \
        receive(queue) + packet(queue, 5, 4, flags=SOLICITED)


def write(queue):
    return packet(queue, 6, 1024, more=length(2048)) + packet(queue, 8, 1024) + \
        packet(queue, 10, 64, more=length(64)) + receive(queue) + \
        packet(queue, 11, 8, more=length(8)) + packet(queue, 10, 8, key=READABLE, more=length(8))


SEEDS = {
    "send": send(RC),
    "send_shared": send(SHARED),
    "send_xrc": send(XRC),
    "send_unreliable": send(UC) + packet(UC, 0, 1024, psn=5) + packet(UC, 2, 8),
    "write": write(RC),
    "write_unreliable": write(UC),
    "write_too_far": packet(RC, 6, 1024, place=4 << 5, more=length(2048)),
    "read": packet(RC, 12, more=length(4096)) + packet(RC, 12, psn=-4, more=length(2048)),
    "atomics": packet(RC, 19) + packet(RC, 20) + packet(RC, 20, psn=-1) + packet(RC, 19, psn=-2),
    "flush": packet(RC, 28, more=length(64)) + packet(RC, 29, 8),
    "invalidate": receive(RC) + packet(RC, 23, 8, key=LOCAL),
    "order": packet(RC, 1, 1024),
    "ahead": packet(RC, 4, 8, psn=3) + packet(RC, 4, 8, psn=2) + receive(RC) + packet(RC, 4, 8),
    "no_receive": packet(RC, 4, 8) + receive(RC) + packet(RC, 4, 8),
    "datagram": receive(UD) + packet(UD, 4, 64) + receive(UD, 8) + packet(UD, 5, 64),
    "acknowledged": post(RC, SEND) + post(RC, WRITE, 2048) + packet(RC, 17, psn=2, more=0x1F),
    "answered": post(RC, READ, 2048) + packet(RC, 13, 1024, more=0x1F) +
        packet(RC, 15, 1024, more=0x1F),
    "atomic_answered": post(RC, ADD) + packet(RC, 18, more=0x1F),
    "answers_missing": post(RC, READ) + post(RC, SEND) + packet(RC, 17, psn=1, more=0x1F) +
        packet(RC, 16, 64, more=0x1F) + packet(RC, 17, more=0x1F),
    "refused": post(RC, WRITE) + packet(RC, 17, more=0x62),
    "not_ready": post(RC, SEND) + packet(RC, 17, more=0x21) + packet(RC, 17, more=0x1F),
    "sequence": post(RC, SEND, 2048) + packet(RC, 17, psn=1, more=0x60),
    "both": post(RC, READ, 128) + packet(RC, 12, more=length(128)) +
        packet(RC, 16, 128, more=0x1F),
    "stranger": packet(RC, 4, 8, flags=0x38) + packet(RC, 4, 8, flags=0xC0),
}

folder = pathlib.Path(sys.argv[1])
folder.mkdir(parents=True, exist_ok=True)
for name, seed in SEEDS.items():
    (folder / name).write_bytes(seed)
