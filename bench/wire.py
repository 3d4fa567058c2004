#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
wire.py BUILD-FOLDER [--rounds N] [--seconds N] [--mtu N] [--loss PERCENT]

Unmodified perftest programs over the wire, between two network namespaces with a cable (veth) of
MTU 9000 or that of --mtu: beside UDP packets of the same size, and UCX and libfabric over TCP. In
each round, what is compared is measured one right after the other. What is not installed is left
out and named. --seconds is as of compare.py. --loss: so much of what comes to either host is lost,
of TCP and UDP alike; bandwidths only, beside UCX over TCP.

Exit status: 1 if one of our programs failed; 77 if there can be no such namespaces.
"""
import argparse
import os
import shutil
import subprocess
import sys
import tempfile

import compare
import figures
import programs
import report
import pair  # of tests/clients, by way of programs, as the next
import veth


# A datagram or segment that the kernel has not cut yet counts as one.
LOSS = """
table inet loss {
    chain input {
        type filter hook input priority 0
        meta l4proto { tcp, udp } numgen random mod 1000 < %d drop
    }
}
"""


def lose(percent, hosts):
    if not shutil.which("nft"):
        pair.skip("not installed (package nftables): nft")
    for within in [], veth.inside(hosts.holder):
        subprocess.run([*within, "nft", "-f", "-"], input=LOSS % round(10 * percent), text=True,
                       check=True)


def udp(args, where):
    """Packets of the size that RoCE's have by this MTU."""
    def measure(operation, size):
        packet = size if args.mtu > figures.PACKET else figures.SMALL_PACKET
        value, = programs.udp(args.build, operation, packet, where).values()
        return {(operation, size): value}
    return measure


def sources(args, where):
    """By source: a function that measures, or why there is none."""
    few = {"bandwidth_bytes": programs.SLOW_BANDWIDTH_BYTES} if args.loss else {}
    ours = programs.our_perftest(args.build, where=where, **few)
    found = {figures.ANYVERBS: compare.by_perftest(ours),
             figures.UDP: udp(args, where),
             figures.UCX_TCP: compare.NO_UCX, figures.FABRIC_TCP: compare.NO_FABRIC}
    if programs.present("ucx_perftest"):
        # Each has one of the two interfaces, and looks for it in its own /sys.
        own_sys = ["unshare", "-m", "sh", "-c", 'mount -t sysfs sysfs /sys && exec "$@"', "-"]
        found[figures.UCX_TCP] = lambda operation, size: programs.ucx(
            "tcp", operation, size, own_sys, {"UCX_NET_DEVICES": "v0,v1"}, where=where)
    if programs.present("fi_pingpong"):
        found[figures.FABRIC_TCP] = lambda _, size: programs.fabric(size, ("tcp", "msg"), where)
    return found


def expected(args):
    return figures.EXPECTED_LOSS if args.loss else figures.EXPECTED_WIRE


def measure(args, where, complaints):
    found = sources(args, where)
    able = {source: measure for source, measure in found.items() if callable(measure)}
    for source, why in found.items():
        if source not in able:
            print("not compared with %s: %s" % (source, why))
    return compare.repeat(
        args, "two hosts",
        lambda: compare.one_round(expected(args), able, lambda: 1, complaints))


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--mtu", type=int, default=veth.MTU)
    parser.add_argument("--loss", type=float, metavar="PERCENT")
    args = parser.parse_args()
    veth.enter()
    complaints = {}
    with tempfile.TemporaryDirectory() as here, tempfile.TemporaryDirectory() as there, \
            veth.TwoHosts(own_folders=True, mtu=args.mtu) as hosts:
        os.environ["ANYVERBS_DIR"] = here
        if args.loss:
            lose(args.loss, hosts)
        words = [*veth.inside(hosts.holder), "env", "ANYVERBS_DIR=" + there]
        rounds = measure(args, programs.Where(words, hosts.server_address), complaints)
    report.print_rows("Between two hosts", figures.rows(expected(args), rounds))
    for source, complaint in complaints.items():
        print("%s failed at least once: %s" % (source, complaint))
    sys.exit(1 if any(source in complaints for source in figures.OURS) else 0)


if __name__ == "__main__":
    main()
