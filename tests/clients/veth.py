# SPDX-License-Identifier: MIT
"""
Two hosts instead of one: two network namespaces with a cable between them. This
process' own is the server's host; the other one is the client's, and a process holds it.

    veth.enter()
    with veth.TwoHosts(own_folders=True) as hosts, Scratch(library, hosts=hosts) as scratch:
        ...
"""
import ctypes
import os
import shutil
import signal
import subprocess
import sys

import pair

RELAY = os.path.join(os.path.dirname(os.path.abspath(__file__)), "relay.py")
MARK = "ANYVERBS_TEST_HOST"
PROGRAMS = "ip unshare nsenter".split()
MTU = 9000
# By the interface that has them.
ADDRESSES = {"v0": ("192.0.2.1/24", "fd00::1/64"), "v1": ("192.0.2.2/24", "fd00::2/64")}
PR_SET_PDEATHSIG = 1


def enter():
    """
    Execute this program again in a network namespace of its own, as its root; the test is skipped
    where that is not permitted.
    """
    if os.environ.pop(MARK, None):
        return
    missing = [program for program in PROGRAMS if not shutil.which(program)]
    if missing:
        pair.skip("not installed (packages iproute2, util-linux): " + " ".join(missing))
    for kinds in "-n", "-rn":  # the first is not permitted to root of a container
        if not subprocess.run(["unshare", kinds, "true"], stderr=subprocess.DEVNULL,
                              check=False).returncode:
            os.environ[MARK] = "1"
            os.execvp("unshare", ["unshare", kinds, sys.executable, "-B", *sys.argv])
    pair.skip("no permission to create a network namespace")


def end_with_parent():
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def start_host(name="client"):
    """Return: a process that holds a host's namespaces until it is killed"""
    holder = subprocess.Popen(
        ["unshare", "-n", "-u", "sh", "-c", "hostname %s; echo; exec sleep infinity" % name],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, preexec_fn=end_with_parent)
    holder.stdout.readline()    # it is in them
    return holder


def end_host(holder):
    holder.kill()
    holder.wait()


def inside(holder):
    """Words that go before a command of that host."""
    return ["nsenter", "--net=/proc/%d/ns/net" % holder.pid, "--uts=/proc/%d/ns/uts" % holder.pid]


def set_up(within, interface, addresses, mtu=MTU):
    """@within: words that go before a command of the host that has the interface"""
    for words in (["link", "set", "lo", "up"],
                  ["link", "set", interface, "mtu", str(mtu), "txqueuelen", "10000", "up"],
                  *(["addr", "add", address, "dev", interface, *without_delay(address)]
                    for address in addresses)):
        subprocess.run([*within, "ip", *words], check=True)


class TwoHosts:
    """
    @own_folders: each host has its folder of shared files, as hosts have; else both have one, as
      two containers on a host may
    @faults: what becomes of packets in the cable (relay.py); None: nothing, and it is veth
    """

    server_address, server_address6 = (with_mask.split("/")[0] for with_mask in ADDRESSES["v0"])
    client_address = ADDRESSES["v1"][0].split("/")[0]

    def __init__(self, own_folders, faults=None, mtu=MTU):
        self.mtu = mtu
        self.own_folders = own_folders
        self.faults = faults
        self.holder = self.relay = None

    def __enter__(self):
        self.holder = start_host()
        try:
            self.lay_cable()
        except subprocess.CalledProcessError as error:
            self.end()
            pair.skip("no cable between network namespaces: " + error.stderr.strip())
        for within, interface in (([], "v0"), (inside(self.holder), "v1")):
            set_up(within, interface, ADDRESSES[interface], self.mtu)
        return self

    def __exit__(self, *_):
        self.end()

    def lay_cable(self):
        there = ["netns", str(self.holder.pid)]
        make = ["link", "add", "v0", "type", "veth", "peer", "name", "v1", *there]
        if self.faults:
            self.relay = subprocess.Popen(
                [sys.executable, "-B", RELAY, self.faults],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            self.relay.stdout.readline()
            make = ["link", "set", "v1", *there]
        subprocess.run(["ip", *make], stderr=subprocess.PIPE, text=True, check=True)

    def end(self):
        if self.relay:
            self.relay.stdin.close()
            self.relay.wait()
        end_host(self.holder)

    def command(self, name, words, user):
        """Return: the words, and the arguments of Popen(), that run it on that side's host, as
        @user"""
        if name != "client":
            return words, pair.identity_of(user)
        as_user = ["-S", str(user.pw_uid), "-G", str(user.pw_gid)] if user else []
        return [*inside(self.holder), *as_user, *words], {}


def without_delay(address):
    """IPv6 looks first whether others have it."""
    return ["nodad"] if ":" in address else []
