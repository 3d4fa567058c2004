#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""iproute2's rdma(8) beside programs that hold objects: what it lists is what there is, as they and
the virtual sysfs say it. And ip(8), which speaks netlink too, says what it says without us."""
import json
import os
import shutil
import time

import cases
import pair
from cases import case, check, run

PATIENCE = 60
IB = "/sys/class/infiniband/"
TWO = "mlx5_0,ib7:link=infiniband:lid=77"
SRQ_PINGPONG = {"ctx": 1, "pd": 1, "cq": 1, "qp": 16, "mr": 1, "srq": 1, "cm_id": 0}
XSRQ_PINGPONG = {"ctx": 1, "pd": 1, "cq": 2, "qp": 2, "mr": 1, "srq": 1, "cm_id": 0}


def equal(found, wanted, what):
    check(found == wanted, what, "is", repr(found), "not", repr(wanted))


def said(scratch, command, status=0, env=None):
    done = run(scratch, command, status, env)
    return done.stdout + done.stderr if status else done.stdout


def rdma(scratch, what, settings=""):
    """The list that rdma -j prints; details are those of -d."""
    return json.loads(said(scratch, "%s rdma -j -d %s" % (settings, what)))


def read(scratch, path, settings=""):
    return said(scratch, "%s cat %s" % (settings, path)).strip()


def summary(scratch):
    found, = rdma(scratch, "resource show")
    return {kind: found[kind] for kind in SRQ_PINGPONG}


class Holder:
    """A program that makes its objects, and waits for a peer. When it listens, it has changed their
    states, too."""

    def __init__(self, scratch, command, objects):
        self.scratch, self.objects = scratch, objects
        self.port = pair.free_port()
        self.command = "%s -p %d" % (command, self.port)
        self.side = pair.Side(scratch, "holder", *pair.split_command(self.command))
        self.pid = self.side.process.pid

    def __enter__(self):
        end = time.monotonic() + PATIENCE
        problem = pair.wait_until_ready(self.side, lambda: pair.listening_by_tcp(self.port), end)
        check(not problem, problem, self.side.tail())
        while summary(self.scratch) != self.objects:
            check(time.monotonic() < end, "there are", summary(self.scratch), "not", self.objects)
            time.sleep(0.05)
        return self

    def __exit__(self, *_):
        self.side.process.kill()
        self.side.process.wait()


def srq_pingpong(scratch):
    return Holder(scratch, "ibv_srq_pingpong -g 0 -d any0", SRQ_PINGPONG)


def listed(scratch, kind, holder):
    """All objects of a kind, each of which is the holder's."""
    found = rdma(scratch, "resource show " + kind)
    equal(len(found), holder.objects[kind], "number of " + kind)
    for entry in found:
        equal((entry["ifname"], entry["pid"]), ("any0", holder.pid), kind)
    return found


@case
def devices_are_those_of_sysfs(scratch):
    one, two = rdma(scratch, "dev show", "ANYVERBS_DEVICES=" + TWO)
    equal((one["ifname"], two["ifname"]), ("mlx5_0", "ib7"), "names")
    check(one["ifindex"] != two["ifindex"], "both have index", one["ifindex"])
    for found in (one, two):
        folder = IB + found["ifname"]
        equal(found["node_type"], "ca", "node type")
        for key in ("node_guid", "sys_image_guid"):
            equal(found[key], read(scratch, "%s/%s" % (folder, key), "ANYVERBS_DEVICES=" + TWO),
                  key)
        equal(found["fw"], read(scratch, folder + "/fw_ver", "ANYVERBS_DEVICES=" + TWO), "firmware")
    found, = rdma(scratch, "dev show ib7", "ANYVERBS_DEVICES=" + TWO)
    equal(found["ifindex"], two["ifindex"], "index of ib7")


@case
def links_are_those_of_sysfs(scratch):
    link, = rdma(scratch, "link show")
    equal((link["ifname"], link["port"]), ("any0", 1), "link")
    equal("4: " + link["state"], read(scratch, IB + "any0/ports/1/state"), "state")
    equal(link["physical_state"], "LINK_UP", "physical state")
    equal(link["netdev"], read(scratch, IB + "any0/ports/1/gid_attrs/ndevs/0"), "interface")
    equal(link["netdev_index"], int(read(scratch, "/sys/class/net/%s/ifindex" % link["netdev"])),
          "index of the interface")
    equal(said(scratch, "rdma link show any0/1").split()[:3], ["link", "any0/1", "state"], "text")


@case
def an_infiniband_link_has_a_subnet(scratch):
    links = rdma(scratch, "link show", "ANYVERBS_DEVICES=" + TWO)
    equal([link["ifname"] for link in links], ["mlx5_0", "ib7"], "links")
    equal((links[1]["subnet_prefix"], links[1]["lid"], links[1]["lmc"]),
          ("fe80:0000:0000:0000", 77, 0), "subnet")
    check("netdev" not in links[1] and "lid" not in links[0], links)


@case
def without_programs_there_are_no_objects(scratch):
    equal(set(summary(scratch).values()), {0}, "objects")
    for kind in SRQ_PINGPONG:
        equal(rdma(scratch, "resource show " + kind), [], kind)


@case
def objects_of_a_program(scratch):
    with srq_pingpong(scratch) as holder:
        found = {kind: listed(scratch, kind, holder) for kind in SRQ_PINGPONG}
        context, = found["ctx"]
        domain, = found["pd"]
        equal(domain["ctxn"], context["ctxn"], "context of the domain")
        equal(domain["users"], 16 + 1 + 1, "users of the domain")
        cq, = found["cq"]
        equal((cq["users"], cq["ctxn"]), (2 * 16, context["ctxn"]), "CQ")
        region, = found["mr"]
        equal((region["mrlen"], region["pdn"]), (4096, domain["pdn"]), "region")
        for qp in found["qp"]:
            equal((qp["port"], qp["type"], qp["state"], qp["pdn"], qp["comm"]),
                  (1, "RC", "INIT", domain["pdn"], "ibv_srq_pingpon"), "queue pair")
        srq, = found["srq"]
        equal((srq["type"], srq["pdn"]), ("BASIC", domain["pdn"]), "shared receive queue")
        equal(sorted(map(int, srq["lqpn"])), sorted(qp["lqpn"] for qp in found["qp"]),
              "its queue pairs")
    equal(set(summary(scratch).values()), {0}, "objects of a killed program")


@case
def objects_of_xrc(scratch):
    with Holder(scratch, "ibv_xsrq_pingpong -g 0 -d any0", XSRQ_PINGPONG) as holder:
        equal(sorted(qp["type"] for qp in listed(scratch, "qp", holder)), ["XRC_INI", "XRC_TGT"],
              "queue pairs")
        srq, = listed(scratch, "srq", holder)
        equal(srq["type"], "XRC", "shared receive queue")
        check(srq["cqn"] in [cq["cqn"] for cq in listed(scratch, "cq", holder)], "its CQ")


@case
def one_object_by_its_number(scratch):
    with srq_pingpong(scratch) as holder:
        for kind, number in (("qp", "lqpn"), ("cq", "cqn"), ("mr", "mrn"), ("pd", "pdn"),
                             ("ctx", "ctxn"), ("srq", "srqn")):
            one = listed(scratch, kind, holder)[-1]
            equal(rdma(scratch, "resource show %s %s %d" % (kind, number, one[number])), [one],
                  "%s %d" % (number, one[number]))


@case
def keys_are_those_of_the_region(scratch):
    with srq_pingpong(scratch) as holder:
        region, = listed(scratch, "mr", holder)
        stat = json.loads(said(scratch, "%s stat mr --json" % scratch.tool))
        ours, = stat["devices"][0]["regions"]
        equal(int(region["rkey"], 16), ours["key"], "key")
        # Of an address, Debian 12's prints the lower half.
        equal(int(region["iova"], 16) & 0xffffffff, ours["address"] & 0xffffffff, "address")


@case
def statistics_are_those_of_sysfs(scratch):
    with srq_pingpong(scratch):
        verdict = pair.run_pair(scratch, "ib_write_bw -n 100 -d any0", "ib_write_bw -n 100 -d any0")
        check(verdict.passed, verdict.reason, verdict.tails)
        found, = rdma(scratch, "statistic show link any0/1")
        folder = IB + "any0/ports/1/hw_counters"
        names = said(scratch, "ls " + folder).split()
        values = read(scratch, " ".join("%s/%s" % (folder, name) for name in names)).split()
        equal({name: found[name] for name in names}, dict(zip(names, map(int, values))), "counters")
        check(found["rx_write_requests"] > 0, "nothing was counted:", found)
        equal(rdma(scratch, "statistic qp show"), [], "counters of queue pairs")


@case
def page_faults_of_regions(scratch):
    """Those of a pair that goes on and on, and touches the same pages all the time."""
    objects = {"ctx": 1, "pd": 1, "cq": 1, "qp": 1, "mr": 1, "srq": 0, "cm_id": 0}
    with Holder(scratch, "ibv_rc_pingpong -g 0 -d any0 -o -n 100000000", objects) as holder:
        client = pair.Side(scratch, "peer", *pair.split_command(holder.command + " 127.0.0.1"))
        try:
            compare_page_faults(scratch)
        finally:
            client.process.kill()
            client.process.wait()


def page_faults_by_rdma(scratch):
    """{pid: faults, invalidations, prefetches} of each region"""
    pids = {region["mrn"]: region["pid"] for region in rdma(scratch, "resource show mr")}
    return {pids.get(region["mrn"]): (region["page_faults"], region["page_invalidations"],
                                      region["page_prefetch"])
            for region in rdma(scratch, "statistic show mr")}


def page_faults_by_us(scratch):
    stat = json.loads(said(scratch, "%s stat mr --json" % scratch.tool))
    return {region["pid"]: (region["page_fault_pages"], region["invalidation_pages"],
                            region["prefetch_pages"]) for region in stat["devices"][0]["regions"]}


def compare_page_faults(scratch):
    """A side that has sent, and has received nothing so far, may fault once more in between."""
    end = time.monotonic() + PATIENCE
    while True:
        found, wanted = page_faults_by_rdma(scratch), page_faults_by_us(scratch)
        if len(found) == 2 and all(faults for faults, *_ in found.values()) and found == wanted:
            break
        check(time.monotonic() < end, "page faults are", found, "not", wanted)
        time.sleep(0.05)


@case
def the_system(scratch):
    words = said(scratch, "rdma system show").split()
    equal(words, ["netns", "shared", "copy-on-fork", "on"], "rdma system show")


@case
def nothing_can_be_set(scratch):
    for command in ("rdma dev set any0 name any1", "rdma system set netns exclusive",
                    "rdma link add rxe9 type rxe netdev lo"):
        answer = said(scratch, command, status=1)
        check("not supported" in answer, command, "says", answer)


@case
def other_netlink_is_the_kernels(scratch):
    plain = dict(os.environ, LC_ALL="C")
    plain.pop("LD_PRELOAD", None)
    for command in ("ip -j link show", "ip -j route show", "ip -j rule show"):
        equal(said(scratch, command), said(scratch, command, env=plain), command)


def add_arguments(parser):
    parser.add_argument("--tool", required=True, help="the command anyverbs")


def take_tool(args, scratch):
    scratch.tool = shutil.copy(args.tool, scratch.path)


def main():
    if not shutil.which("rdma") or not shutil.which("ip"):
        pair.skip("not installed (package iproute2): rdma, ip")
    if os.path.exists(IB):
        pair.skip("the kernel has devices of its own, which are listed, too")
    cases.main(__doc__, add_arguments, take_tool)


if __name__ == "__main__":
    main()
