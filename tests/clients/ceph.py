#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""A Ceph cluster whose messengers use the device and nothing else: a monitor and two OSDs that hold
their objects in memory, and a pool that has each object twice. Objects of many sizes come back as
they went, rados bench finds what it wrote, and a replica outlives its primary."""
import json
import os
import shutil
import sys
import time
import uuid

import pair

PROGRAMS = {"ceph": "ceph-common", "rados": "ceph-common", "monmaptool": "ceph-common",
            "ceph-mon": "ceph-mon", "ceph-osd": "ceph-osd"}
OSDS = (0, 1)
POOL = "traffic"
OBJECT_BYTES = (1, 100, 4096, 65535, 65536, 131073, 4 << 20)  # Ceph's buffers hold 128 KiB
BENCH_BYTES = (65536, 4096)
BENCH_SECONDS = 3
SETTLE_SECONDS = 0.1
IB_COUNTERS = "/sys/class/infiniband/any0/ports/1/counters/"
IB_WORD = 4  # the unit of port_rcv_data

# A few buffers instead of the 1.1 GiB that each process registers otherwise. One host holds both
# replicas, nobody has a password, and nothing is written below /var. A replica waits for the end of
# its primary's lease, which is 16 s with the default ratio.
SETTINGS = """[global]
fsid = {fsid}
mon_host = [v2:127.0.0.1:{port}]
ms_bind_port_min = {first}
ms_bind_port_max = {last}
public_addr = 127.0.0.1
cluster_addr = 127.0.0.1
ms_type = async+rdma
ms_async_rdma_device_name = any0
ms_async_rdma_receive_buffers = 512
ms_async_rdma_receive_queue_len = 256
ms_async_rdma_send_buffers = 256
auth_cluster_required = none
auth_service_required = none
auth_client_required = none
osd_objectstore = memstore
osd_pool_default_size = 2
osd_pool_default_min_size = 1
osd_pool_default_read_lease_ratio = 0.1
osd_crush_chooseleaf_type = 0
mon_data = {folder}/mon
osd_data = {folder}/osd.$id
run_dir = {folder}
crash_dir = {folder}
admin_socket = {folder}/$name.$pid.asok
log_file = {folder}/$name.log
mon_cluster_log_file = {folder}/cluster.log
"""


class Failed(Exception):
    pass


def require_ceph():
    missing = [program for program in PROGRAMS if not shutil.which(program)]
    if missing:
        pair.skip("not installed (packages %s): %s" % (
            ", ".join(sorted({PROGRAMS[program] for program in missing})), " ".join(missing)))


class Cluster:
    """Its processes end with the block that it is the context of."""

    def __init__(self, scratch, limit):
        self.scratch, self.daemons = scratch, {}
        self.deadline = time.monotonic() + limit
        self.fsid, self.port = str(uuid.uuid4()), pair.free_port()
        self.environment = {"CEPH_CONF": os.path.join(scratch.path, "ceph.conf")}
        with open(self.environment["CEPH_CONF"], "w", encoding="ascii") as f:
            f.write(SETTINGS.format(fsid=self.fsid, port=self.port, first=self.port + 1,
                                    last=self.port + 100, folder=scratch.path))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for side in self.daemons.values():
            side.end()

    def run(self, command):
        """Return: what the program printed."""
        side = pair.Side(self.scratch, "command", self.environment, command.split())
        try:
            ended = side.wait_until(self.deadline)
        finally:
            side.end()
        if not ended or side.code() != 0:
            raise Failed("%s: %s\n%s" % (command, side.ending() if ended else "time limit",
                                         side.tail()))
        return next(side.texts())

    def start(self, name, command):
        self.daemons[name] = pair.Side(self.scratch, name, self.environment, command.split())

    def tails(self):
        return "\n".join(side.tail() for side in self.daemons.values())


def start_monitor(cluster):
    cluster.run("monmaptool --create --fsid %s --addv a [v2:127.0.0.1:%d] monmap" %
                (cluster.fsid, cluster.port))
    cluster.run("ceph-mon --mkfs -i a --monmap monmap")
    cluster.start("mon.a", "ceph-mon -f -i a")
    problem = pair.wait_until_ready(cluster.daemons["mon.a"],
                                    lambda: pair.listening_by_tcp(cluster.port), cluster.deadline)
    if problem:
        raise Failed("mon.a: " + problem)


def start_osd(cluster, osd):
    name = str(uuid.uuid4())
    cluster.run("mkdir osd.%d" % osd)
    cluster.run("ceph-osd --mkfs --no-mon-config -i %d --osd-uuid %s" % (osd, name))
    cluster.run("ceph osd new %s %d" % (name, osd))
    cluster.start("osd.%d" % osd, "ceph-osd -f -i %d" % osd)


def wait_for_osds(cluster, number):
    while json.loads(cluster.run("ceph osd stat -f json"))["num_up_osds"] != number:
        time.sleep(SETTLE_SECONDS)


def the_cluster_comes_up(cluster):
    start_monitor(cluster)
    for osd in OSDS:
        start_osd(cluster, osd)
    wait_for_osds(cluster, len(OSDS))
    cluster.run("ceph osd pool create %s 8 8 replicated" % POOL)


def contents(size):
    """Bytes that no other object has."""
    return (b"%d " % size * (size // 2 + 1))[:size]


def write(path, data):
    with open(path, "wb") as f:
        f.write(data)


def read(path):
    with open(path, "rb") as f:
        return f.read()


def compare_objects(cluster):
    for size in OBJECT_BYTES:
        cluster.run("rados -p %s get object%d back" % (POOL, size))
        if read(os.path.join(cluster.scratch.path, "back")) != contents(size):
            raise Failed("the object of %d bytes has changed" % size)


def objects_come_back_as_they_went(cluster):
    for size in OBJECT_BYTES:
        write(os.path.join(cluster.scratch.path, "forth"), contents(size))
        cluster.run("rados -p %s put object%d forth" % (POOL, size))
    compare_objects(cluster)


def received(cluster):
    """Bytes that all processes have received by the device."""
    return int(cluster.run("cat %sport_rcv_data" % IB_COUNTERS)) * IB_WORD


def figure(text, name):
    for line in text.splitlines():
        if line.startswith(name + ":"):
            return float(line.split()[-1])
    raise Failed("rados bench does not say %s:\n%s" % (name, text))


def bench_finds_what_it_wrote(cluster):
    """Each write goes to one OSD, and from there to the other: all of it by the device."""
    for size in BENCH_BYTES:
        before = received(cluster)
        bench = "rados -p %s bench %d %%s" % (POOL, BENCH_SECONDS)
        said = cluster.run(bench % "write -b %d --no-cleanup" % size)
        writes = figure(said, "Total writes made")
        moved = received(cluster) - before
        if writes == 0 or moved < 2 * writes * size:
            raise Failed("%d writes of %d bytes moved %d" % (writes, size, moved))
        cluster.run(bench % "seq")
        print("        %d writes of %d bytes, %s MB/s" % (writes, size,
                                                          figure(said, "Bandwidth (MB/sec)")))


def a_replica_outlives_its_primary(cluster):
    """Half of the placement groups have this OSD as their primary."""
    cluster.daemons["osd.0"].end()
    cluster.run("ceph osd down 0")
    compare_objects(cluster)


CASES = (the_cluster_comes_up, objects_come_back_as_they_went, bench_finds_what_it_wrote,
         a_replica_outlives_its_primary)


def passes(cluster, case):
    name = case.__name__.replace("_", " ")
    start = time.monotonic()
    try:
        case(cluster)
    except Failed as failed:
        print("FAIL %s: %s\n%s" % (name, failed, cluster.tails()), flush=True)
        return False
    print("%5.1f s  PASS %s" % (time.monotonic() - start, name), flush=True)
    return True


def main():
    p = pair.parser(__doc__)
    p.add_argument("--user", help="run as this user")
    p.add_argument("--limit", type=float, default=600, help="seconds for all of it")
    args = p.parse_args()
    require_ceph()
    if args.user:
        pair.require_root()
    with pair.Scratch(args.library, args.user, args.preload) as scratch:
        with Cluster(scratch, args.limit) as cluster:
            good = all(passes(cluster, case) for case in CASES)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
