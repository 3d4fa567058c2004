#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""
A cable that is not perfect: carries frames between the interfaces v0 and v1, which it makes in its
network namespace, and does to packets of RoCEv2 what its argument says; all else arrives.

    relay.py "lose 2% double 1% swap 5% spoil 1% seed 7"

lose, double; swap: comes behind the next packets, or later; spoil: one bit of what is behind the
BTH changes, and UDP's checksum fits all the same, so that the ICRC has to tell. The same seed
makes the same decisions in the same sequence of packets.
Prints a line when the interfaces are there; ends with its standard input, and says on standard
error what it has done.
"""
import fcntl
import os
import random
import select
import struct
import sys
import time

TUNSETIFF, IFF_TAP, IFF_NO_PI = 0x400454CA, 2, 0x1000
FRAME_MAX = 65536
PORT = 4791
ETHERNET, UDP, BTH, ICRC = 14, 8, 12, 4
IPV4, IPV6, OF_UDP = 0x0800, 0x86DD, 17
HELD_SECONDS = 0.005
HELD_PACKETS = 3
FAULTS = ("lose", "double", "swap", "spoil")


def parse(text):
    """Return: chances by fault, and the seed."""
    chances, seed = dict.fromkeys(FAULTS, 0.0), 1
    words = text.split()
    for name, value in zip(words[::2], words[1::2]):
        if name == "seed":
            seed = int(value)
        elif name in chances and value.endswith("%"):
            chances[name] = float(value[:-1]) / 100
        else:
            raise ValueError("not understood: %s %s" % (name, value))
    if len(words) % 2:
        raise ValueError("not understood: " + words[-1])
    return chances, seed


def open_interface(name):
    fd = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(fd, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TAP | IFF_NO_PI))
    return fd


def udp_header(frame):
    """Where it begins in a packet of RoCEv2; None for all others."""
    kind = int.from_bytes(frame[12:14], "big")
    if kind == IPV4 and len(frame) > ETHERNET + 20 and frame[ETHERNET + 9] == OF_UDP:
        at = ETHERNET + (frame[ETHERNET] & 15) * 4
    elif kind == IPV6 and len(frame) > ETHERNET + 40 and frame[ETHERNET + 6] == OF_UDP:
        at = ETHERNET + 40
    else:
        return None
    return at if int.from_bytes(frame[at + 2:at + 4], "big") == PORT else None


def spoiled(frame, udp, chance):
    """
    With one bit changed, of the ICRC if there is nothing else behind the BTH. A one's complement
    sum changes by as much as the word does.
    """
    frame = bytearray(frame)
    end = udp + int.from_bytes(frame[udp + 4:udp + 6], "big")
    at = chance.randrange(udp + UDP + BTH, end)
    word = at - (at - udp) % 2
    before = int.from_bytes(frame[word:word + 2].ljust(2, b"\0"), "big")
    frame[at] ^= 1 << chance.randrange(8)
    after = int.from_bytes(frame[word:word + 2].ljust(2, b"\0"), "big")
    checksum = int.from_bytes(frame[udp + 6:udp + 8], "big")
    if checksum:
        total = (checksum ^ 0xFFFF) + (before ^ 0xFFFF) + after
        total = (total & 0xFFFF) + (total >> 16)
        total = (total & 0xFFFF) + (total >> 16)
        frame[udp + 6:udp + 8] = ((total ^ 0xFFFF) or 0xFFFF).to_bytes(2, "big")
    return bytes(frame)


class Direction:
    """From one interface to the other."""

    def __init__(self, source, target, chances, chance):
        self.source, self.target = source, target
        self.chances, self.chance = chances, chance
        self.held = []    # (when it is sent at the latest, packets that go before, frame)
        self.done = dict.fromkeys(FAULTS + ("packets",), 0)

    def strikes(self, fault):
        struck = self.chance.random() < self.chances[fault]
        self.done[fault] += struck
        return struck

    def send(self, frame):
        """A full interface drops it, as any does."""
        try:
            os.write(self.target, frame)
        except OSError:
            pass

    def carry(self, frame):
        udp = udp_header(frame)
        if udp is None:
            self.send(frame)
            return
        self.done["packets"] += 1
        # Each packet takes as many decisions: one fault more changes no other's.
        lose, double, swap, spoil = (self.strikes(fault) for fault in FAULTS)
        if lose:
            return
        if spoil:
            frame = spoiled(frame, udp, self.chance)
        if swap:
            self.held.append([time.monotonic() + HELD_SECONDS, HELD_PACKETS, frame])
        else:
            self.send(frame)
        if double:
            self.send(frame)
        for held in self.held:
            held[1] -= 1
        self.release()

    def release(self):
        now = time.monotonic()
        due = [held for held in self.held if held[0] <= now or held[1] < 0]
        self.held = [held for held in self.held if held not in due]
        for held in due:
            self.send(held[2])

    def read(self):
        """All frames that are there."""
        while True:
            try:
                self.carry(os.read(self.source, FRAME_MAX))
            except OSError:    # none, or the interface is down
                return


def main():
    chances, seed = parse(sys.argv[1])
    ends = [open_interface("v0"), open_interface("v1")]
    print(flush=True)
    ways = {source: Direction(source, target, chances, random.Random(seed + source - ends[0]))
            for source, target in (ends, ends[::-1])}
    while True:
        holds = any(way.held for way in ways.values())
        ready = select.select([*ways, sys.stdin], [], [], HELD_SECONDS if holds else None)[0]
        if sys.stdin in ready:
            break
        for source in ready:
            ways[source].read()
        for way in ways.values():
            way.release()
    for name, way in zip(("v0 to v1", "v1 to v0"), ways.values()):
        print("%s: %s" % (name, ", ".join("%d %s" % (count, what)
                                          for what, count in way.done.items())), file=sys.stderr)


if __name__ == "__main__":
    main()
