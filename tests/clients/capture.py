#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""
Unmodified programs under ANYVERBS_CAPTURE, and what Debian's tshark says of the file: nothing
malformed, no warning, the opcodes that the program's requests should have. PSNs and the invariant
CRC are looked at here, since tshark 4.0 checks neither; the CRC by zlib, over fields masked as the
annex on RoCEv2 says.
"""
import argparse
import collections
import os
import re
import shutil
import socket
import struct
import subprocess
import sys
import zlib

import pair

IB = "ANYVERBS_DEVICES=any0:link=infiniband "
IPV4, IPV6 = 0x0800, 0x86DD
BLOCK_OF_PACKET = 6
RC, UC, UD, XRC = 0x00, 0x20, 0x60, 0xA0
FIRST_OF_READ_RESPONSE, LAST_OPCODE_OF_RESPONSES, READ_REQUEST = 0x0D, 0x12, 0x0C

MANAGEMENT = 1  # the queue pair of messages of the connection manager, whose PSN is always 0
OF_CONNECTION = "0x0010 0x0013 0x0014 0x0015 0x0016".split()  # REQ, REP, RTU, DREQ, DREP
TAKES_ITS_TIME = "0x0011"  # MRA, the answer to one that has come again
TRIES = 10


def own_address():
    """One that leads to a device; a loopback address where this host has no other."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        try:
            s.connect(("192.0.2.1", 9))  # nothing is sent
        except OSError:
            return "127.0.0.1"
        return s.getsockname()[0]


OWN_ADDRESS = own_address()

# Protocols of a frame in which tshark has guessed what the payload is; it may guess wrong.
GUESSED = re.compile(r"infiniband:(?!data|_ws)")

# Command, and the opcodes that there must be: all of them, and no other.
ROWS = (
    ("ibv_rc_pingpong -g 0 -n 50", RC, (0x00, 0x01, 0x02, 0x11)),
    ("ibv_rc_pingpong -g 0 -n 50 -s 100 -e", RC, (0x04, 0x11)),
    ("ibv_srq_pingpong -g 0 -n 200 -q 4 -s 2000", RC, (0x00, 0x02, 0x11)),
    ("ibv_uc_pingpong -g 0 -n 50", UC, (0x00, 0x01, 0x02)),
    ("ibv_ud_pingpong -g 0 -n 50", UD, (0x04,)),
    ("ib_write_bw -n 50 -s 5001 -m 1024", RC, (0x06, 0x07, 0x08, 0x11)),
    ("ib_write_lat -n 50 -s 3 -I 0", RC, (0x0A, 0x11)),
    ("ib_write_bw -c UC -n 50 -s 5001 -m 2048", UC, (0x06, 0x07, 0x08)),
    ("ib_read_bw -n 50 -s 5001 -m 256", RC, (0x0C, 0x0D, 0x0E, 0x0F)),
    ("ib_read_lat -n 50 -s 255 -m 256", RC, (0x0C, 0x10)),
    ("ib_atomic_bw -n 50 -A CMP_AND_SWAP", RC, (0x13, 0x12)),
    ("ib_atomic_lat -n 50 -A FETCH_AND_ADD", RC, (0x14, 0x12)),
    ("ib_send_bw -n 50 -s 5001 -m 512 -q 3", RC, (0x00, 0x01, 0x02, 0x11)),
    ("ib_send_lat -c UD -n 50 -s 1021", UD, (0x04,)),
    ("ANYVERBS_DEVICES=any0:mtu=4096 ib_send_lat -c XRC -n 50 -s 5001", XRC, (0x00, 0x02, 0x11)),
    ("ib_read_lat -c XRC -n 50 -s 5001 -m 1024", XRC, (0x0C, 0x0D, 0x0E, 0x0F)),
    ("rping -v -C 3 -a " + OWN_ADDRESS, RC, (UD | 0x04, 0x04, 0x0A, 0x0C, 0x10, 0x11)),
    (IB + "ib_write_lat -n 50 -s 777", RC, (0x0A, 0x11)),
    (IB + "ib_send_lat -c UD -n 50 -s 777", UD, (0x04,)),
    (IB + "ib_atomic_lat -n 50", RC, (0x14, 0x12)),
)

Frame = collections.namedtuple("Frame", "bytes ip udp bth opcode psn src dst qpn body")


class Failed(Exception):
    pass


class Repeated(Failed):
    """A message was repeated, as after a tenth of a second in which its receiver had no core."""


def check(condition, *what):
    if not condition:
        raise Failed(" ".join(str(w) for w in what))


def blocks(path):
    """(type, body) of the file's blocks, each of which must be whole."""
    with open(path, "rb") as f:
        data = f.read()
    at = 0
    while at < len(data):
        kind, size = struct.unpack_from("=II", data, at)
        check(size >= 12 and size % 4 == 0 and at + size <= len(data), "a torn block at", at)
        check(struct.unpack_from("=I", data, at + size - 4)[0] == size,
              "two lengths of the block at", at)
        yield kind, data[at + 8:at + size - 4]
        at += size


def parse(data):
    ip = 14
    kind = struct.unpack_from(">H", data, 12)[0]
    check(kind in (IPV4, IPV6), "not IP:", hex(kind))
    udp = ip + (20 if kind == IPV4 else 40)
    bth = udp + 8
    sport, dport, length = struct.unpack_from(">HHH", data, udp)
    qpn = int.from_bytes(data[bth + 5:bth + 8], "big")
    check(dport == 4791 and (sport == 4791 if qpn == MANAGEMENT else sport >= 0xC000),
          "ports", sport, dport)
    check(length == len(data) - udp, "UDP length", length)
    if kind == IPV4:
        addresses = data[ip + 12:ip + 16], data[ip + 16:ip + 20]
    else:
        addresses = data[22:38], data[38:54]
    return Frame(data, ip, udp, bth, data[bth], int.from_bytes(data[bth + 9:bth + 12], "big"),
                 *addresses, qpn, data[bth + 12:-4])


def crc(frame):
    """The invariant CRC of IBTA annex A17.3.3."""
    packet = bytearray(frame.bytes[frame.ip:-4])
    bth = frame.bth - frame.ip
    if packet[0] >> 4 == 4:
        ones = (1, 8, 10, 11)
    else:
        packet[0] |= 0x0F
        ones = (1, 2, 3, 7)
    for at in ones + (bth - 2, bth - 1, bth + 4):
        packet[at] = 0xFF
    return struct.pack("<I", zlib.crc32(b"\xff" * 8 + packet))


def is_response(frame):
    return (frame.opcode >> 5 != UD >> 5
            and FIRST_OF_READ_RESPONSE <= frame.opcode & 0x1F <= LAST_OPCODE_OF_RESPONSES)


def read_frames(path):
    frames = []
    for kind, body in blocks(path):
        if kind != BLOCK_OF_PACKET:
            continue
        captured, length = struct.unpack_from("=II", body, 12)
        check(captured == length, "frame", len(frames) + 1, "is not there whole")
        frames.append(parse(body[20:20 + captured]))
    return frames


def packets_of_read(frame, mtu):
    extended = 4 if frame.opcode >= XRC else 0
    length = struct.unpack_from(">I", frame.body, extended + 12)[0]
    return max(1, -(-length // mtu))


def mtu_of(frames):
    """The largest payload of a READ's answers."""
    return max([256] + [1 << (len(f.body) - 4).bit_length() - 1 for f in frames
                        if f.opcode & 0x1F == FIRST_OF_READ_RESPONSE])


def check_psns(frames):
    """
    Requests of one queue pair follow each other without a gap, and READs leave room for their
    answers. An answer is to a PSN that was asked about. Repeated ones are not expected: these
    programs post their receives in time.
    """
    mtu = mtu_of(frames)
    following, asked = {}, collections.defaultdict(set)
    for number, f in enumerate(frames, 1):
        if f.qpn == MANAGEMENT:
            continue
        if is_response(f):
            check(f.psn in asked[f.dst, f.src], "frame", number, "answers PSN", f.psn,
                  "which nobody sent")
            continue
        flow = (f.src, f.dst, f.qpn, f.bytes[f.udp:f.udp + 2])
        check(following.get(flow, f.psn) == f.psn, "frame", number, "has PSN", f.psn, "not",
              following.get(flow))
        count = packets_of_read(f, mtu) if f.opcode & 0x1F == READ_REQUEST else 1
        following[flow] = (f.psn + count) & 0xFFFFFF
        asked[f.src, f.dst].update((f.psn + i) & 0xFFFFFF for i in range(count))


def tshark(path, *words):
    command = ("tshark", "-n", "-r", path, "-o", "ip.check_checksum:TRUE",
               "-o", "udp.check_checksum:TRUE") + words
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=300, check=False)
    check(done.returncode == 0, "tshark exited", done.returncode, done.stderr)
    return done.stdout


def check_with_tshark(path, frames):
    bad = tshark(path, "-Y",
                 "_ws.malformed || _ws.expert.severity >= \"Note\" || ip.checksum.status != 1 || "
                 "(ipv6 && udp.checksum.status != 1)", "-T", "fields", "-e", "frame.number",
                 "-e", "frame.protocols", "-e", "_ws.expert.message")
    bad = [line for line in bad.splitlines() if not GUESSED.search(line)]
    check(not bad, "tshark complains:", *bad[:5])
    fields = tshark(path, "-T", "fields", "-e", "infiniband.bth.opcode",
                    "-e", "infiniband.bth.psn", "-e", "infiniband.bth.destqp")
    rows = [row.split("\t") for row in fields.splitlines()]
    wanted = [[str(f.opcode), str(f.psn), "0x%06x" % f.qpn] for f in frames]
    check(rows == wanted, "tshark reads other opcodes, PSNs or queue pairs")


def check_messages(path):
    """Between processes of one host, those of a connection: each once, in their order. A listener
    at a loopback address opens the device, and with it the file, when the request has come. Who has
    ended the connection may be gone before the last one comes. Repeated is raised for some more."""
    found = tshark(path, "-Y", "infiniband.mad", "-T", "fields", "-e",
                   "infiniband.mad.attributeid").split()
    once = [message for message in dict.fromkeys(found) if message != TAKES_ITS_TIME]
    expected = OF_CONNECTION[1 if OWN_ADDRESS.startswith("127.") else 0:]
    check(once in (expected, expected[:-1]),
          "messages of the connection manager:", *found)
    if found != once:
        raise Repeated("messages of the connection manager: %s" % " ".join(found))


def run_row(args, row, number):
    command, service, opcodes = row
    with pair.Scratch(args.library, None, args.preload) as scratch:
        path = os.path.join(scratch.path, "row%d.pcapng" % number)
        command = "ANYVERBS_CAPTURE=%s %s" % (path, command)
        verdict = pair.run_pair(scratch, command, command)
        check(verdict.passed, verdict.reason, verdict.tails)
        frames = read_frames(path)
        found = {f.opcode for f in frames}
        check(found == {service | o for o in opcodes}, "opcodes", sorted(hex(o) for o in found))
        for i, f in enumerate(frames, 1):
            check(f.bytes[-4:] == crc(f), "frame", i, "has another CRC")
        check_psns(frames)
        if any(f.qpn == MANAGEMENT for f in frames):
            check_messages(path)
        check_with_tshark(path, frames)
        return len(frames)


def run_again(args, row, number):
    """As run_row(), until no message is repeated; but not for ever."""
    for _ in range(TRIES - 1):
        try:
            return run_row(args, row, number)
        except Repeated as e:
            print("again %s: %s" % (row[0], e), flush=True)
    return run_row(args, row, number)


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--library", required=True)
    p.add_argument("--preload", action="append", default=[])
    p.add_argument("--only", default="", help="only the rows that contain this text")
    args = p.parse_args()
    pair.require_programs()
    if not shutil.which("tshark"):
        pair.skip("not installed (package tshark)")
    failures = 0
    for number, row in enumerate(ROWS):
        if args.only not in row[0]:
            continue
        try:
            print("PASS %s (%d frames)" % (row[0], run_again(args, row, number)), flush=True)
        except Failed as e:
            failures += 1
            print("FAIL %s: %s" % (row[0], e), flush=True)
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
