#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""The cable of relay.py does to numbered datagrams what it says, and the same again."""
import select
import socket
import subprocess
import sys
import time

import relay
import veth

FAULTS = "lose 5% double 5% swap 5% spoil 5% seed 3"
COUNT = 2000
TAIL = bytes(range(97))    # an odd length
HEAD = bytes(relay.BTH)
BURST = 50    # they fit into what a socket holds
OTHER_PORT = relay.PORT + 1
PATIENCE = 2    # for what the relay holds back
# Before each burst, a datagram that is no packet of RoCEv2, which overtakes none and is not lost.
# Then it is told to go on, and its neighbour is known: packets that wait for an address may be
# overtaken.
SENDER = """
import socket, sys
to, port, head, tail = sys.argv[1], int(sys.argv[2]), *map(bytes.fromhex, sys.argv[3:5])
count, burst, other_port = map(int, sys.argv[5:])
s = socket.socket(socket.AF_INET6 if ":" in to else socket.AF_INET, socket.SOCK_DGRAM)
for i in range(count):
    if i % burst == 0:
        s.sendto(b"", (to, other_port))
        sys.stdin.readline()
    s.sendto(head + i.to_bytes(4, "big") + tail, (to, port))
"""


def receiver(port):
    s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    s.bind(("::", port))
    s.setblocking(False)
    return s


def drain(s):
    """All that is there."""
    while True:
        try:
            yield s.recv(relay.FRAME_MAX)
        except BlockingIOError:
            return


def send_all(hosts, to):
    """Return: what arrives, in its order."""
    arrived = []
    with receiver(relay.PORT) as s, receiver(OTHER_PORT) as other, subprocess.Popen(
            [*veth.inside(hosts.holder), sys.executable, "-c", SENDER, to, str(relay.PORT),
             HEAD.hex(), TAIL.hex(), str(COUNT), str(BURST), str(OTHER_PORT)],
            stdin=subprocess.PIPE) as sender:
        ready = True
        while ready or sender.poll() is None:
            ready = select.select([s, other], [], [], PATIENCE)[0]
            bursts = list(drain(other))
            arrived += drain(s)
            if bursts:
                sender.stdin.write(b"\n")
                sender.stdin.flush()
    return arrived


def differing_bits(a, b):
    return (int.from_bytes(a, "big") ^ int.from_bytes(b, "big")).bit_count()


def judge(arrived):
    """Return: what happened, as comparable things; ends the program if that cannot be."""
    sent = [HEAD + i.to_bytes(4, "big") + TAIL for i in range(COUNT)]
    good = set(sent)
    numbers = [int.from_bytes(d[relay.BTH:relay.BTH + 4], "big") for d in arrived if d in good]
    spoiled = [d for d in arrived if d not in good]
    for datagram in spoiled:
        number = int.from_bytes(datagram[relay.BTH:relay.BTH + 4], "big")
        near = sent if number >= COUNT or differing_bits(datagram, sent[number]) != 1 \
            else [sent[number]]
        if not any(len(s) == len(datagram) and differing_bits(s, datagram) == 1 for s in near):
            sys.exit("more than one bit has changed: " + datagram.hex())
        if datagram[:relay.BTH] != HEAD:
            sys.exit("the BTH has changed: " + datagram.hex())
    behind = sum(a > b for a, b in zip(numbers, numbers[1:]))
    doubled = len(numbers) - len(set(numbers))
    missing = COUNT - len(set(numbers)) - len(set(spoiled))
    for what, count in (("missing", missing), ("doubled", doubled), ("behind", behind),
                        ("spoiled", len(set(spoiled)))):
        print("%s: %d of %d" % (what, count, COUNT))
        if not COUNT * 0.025 < count < COUNT * 0.1:
            sys.exit("that is not 5%%: %s" % what)
    return set(numbers), set(spoiled)


def main():
    veth.enter()
    results = []
    for address in veth.ADDRESSES["v0"]:
        for _ in range(2):
            with veth.TwoHosts(True, FAULTS) as hosts:
                time.sleep(0.1)
                results.append(judge(send_all(hosts, address.split("/")[0])))
    if any(result != results[0] for result in results):
        sys.exit("the same seed did something else")


if __name__ == "__main__":
    main()
