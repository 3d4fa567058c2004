# SPDX-License-Identifier: MIT
"""
Any number of hosts at a switch: network namespaces at a bridge, which has one of its own. This
process' own namespace is the first host's.

    veth.enter()
    with switch.Switch(4) as hosts, pair.Scratch(library, hosts=hosts) as scratch:
        ...
"""
import os
import subprocess

import pair
import veth

BRIDGE = "b0"
PORT = "e0"    # of a host


def link_address(host):
    return "02:00:00:00:%02x:%02x" % divmod(host, 256)


class Switch(pair.OneHost):    # a side that names no other host is on the first
    own_folders = True

    def __init__(self, count):
        self.addresses = ["192.0.2.%d" % (i + 1) for i in range(count)]
        self.bridge = None
        self.holders = []    # of all but the first

    def __enter__(self):
        self.bridge = veth.start_host("switch")
        try:
            self.connect()
        except subprocess.CalledProcessError as error:
            self.end()
            pair.skip("no bridge between network namespaces: " + error.stderr.strip())
        return self

    def __exit__(self, *_):
        self.end()

    def end(self):
        for holder in (*self.holders, self.bridge):
            veth.end_host(holder)

    def at_bridge(self, *words):
        subprocess.run([*veth.inside(self.bridge), "ip", *words], stderr=subprocess.PIPE, text=True,
                       check=True)

    def connect(self):
        self.at_bridge("link", "add", BRIDGE, "mtu", str(veth.MTU), "type", "bridge")
        self.at_bridge("link", "set", BRIDGE, "up")
        for i, address in enumerate(self.addresses):
            if i:
                self.holders.append(veth.start_host("host%d" % (i + 1)))
            port = "p%d" % (i + 1)
            self.at_bridge("link", "add", port, "mtu", str(veth.MTU), "type", "veth", "peer",
                           "name", PORT, "address", link_address(i), "netns", str(self.pid(i)))
            self.at_bridge("link", "set", port, "master", BRIDGE, "up")
            veth.set_up(self.inside(i), PORT, [address + "/24"])

    def introduce(self):
        """
        All hosts know all others, for ever. The kernel has one table of neighbours for all network
        namespaces, in which no more than 1,024 that were learnt stay (gc_thresh3).
        """
        for i in range(len(self.addresses)):
            rows = "".join("neigh replace %s lladdr %s nud permanent dev %s\n" %
                           (address, link_address(j), PORT)
                           for j, address in enumerate(self.addresses) if j != i)
            subprocess.run([*self.inside(i), "ip", "-batch", "-"], input=rows, text=True,
                           check=True)

    def pid(self, host):
        return self.holders[host - 1].pid if host else os.getpid()

    def inside(self, host):
        """Words that go before a command of host number @host."""
        return veth.inside(self.holders[host - 1]) if host else []
