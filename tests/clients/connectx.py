#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""ANYVERBS_DEVICES=connectx: programs print what they print on a host with ConnectX adapters, and
use the GIDs by the numbers that they have there."""
import re
import shutil
import socket

import cases
import pair
from cases import case, check, expect, info, pair_passes, run

EIGHT = "ANYVERBS_DEVICES=connectx:8 "
ONE = "ANYVERBS_DEVICES=connectx "
NAMES = ["mlx5_%d" % i for i in range(8)]

# One device, GUIDs left out, as ibstat prints it on such a host; but for the capabilities, which
# are those of this device.
IBSTAT = """CA 'mlx5_0'
\tCA type: MT4125
\tNumber of ports: 1
\tFirmware version: 22.39.1002
\tHardware version: 0
\tNode GUID: GUID
\tSystem image GUID: GUID
\tPort 1:
\t\tState: Active
\t\tPhysical state: LinkUp
\t\tRate: 100
\t\tBase lid: 0
\t\tLMC: 0
\t\tSM lid: 0
\t\tCapability mask: 0x04000000
\t\tPort GUID: GUID
\t\tLink layer: Ethernet
"""

IBSTATUS = """Infiniband device 'mlx5_0' port 1 status:
\tdefault gid:\t GID
\tbase lid:\t 0x0
\tsm lid:\t\t 0x0
\tstate:\t\t 4: ACTIVE
\tphys state:\t 5: LinkUp
\trate:\t\t 100 Gb/sec (4X EDR)
\tlink_layer:\t Ethernet

"""


def cat(scratch, path):
    return run(scratch, ONE + "cat /sys/class/infiniband/mlx5_0/" + path).stdout.rstrip("\n")


@case
def ibstat(scratch):
    out = run(scratch, ONE + "ibstat").stdout
    check(re.sub("0x[0-9a-f]{16}", "GUID", out) == IBSTAT, "ibstat prints\n", out)
    out = run(scratch, EIGHT + "ibstat -l").stdout
    check(out.split() == NAMES, "ibstat -l prints", out)


@case
def ibstatus(scratch):
    for arguments in ("", " mlx5_0", " mlx5_0:1"):
        out = run(scratch, ONE + "ibstatus" + arguments).stdout
        check(re.sub("fe80(:[0-9a-f]{4}){7}", "GID", out) == IBSTATUS, "ibstatus prints\n", out)
    out = run(scratch, EIGHT + "ibstatus").stdout
    check(re.findall("device '(.*)' port 1 status", out) == NAMES, "ibstatus prints\n", out)


@case
def ibv_devinfo(scratch):
    found = info(scratch, ONE, "mlx5_0")
    expect(found, {"hca_id": "mlx5_0", "transport": "InfiniBand (0)", "fw_ver": "22.39.1002",
                   "vendor_id": "0x02c9", "vendor_part_id": 4125, "hw_ver": "0x0",
                   "board_id": "MT_0000000359", "phys_port_cnt": 1, "port": 1,
                   "state": "PORT_ACTIVE (4)", "max_mtu": "4096 (5)", "sm_lid": 0, "port_lid": 0,
                   "port_lmc": "0x00", "link_layer": "Ethernet", "active_width": "4X (2)",
                   "active_speed": "25.0 Gbps (32)", "phys_state": "LINK_UP (5)"})
    out = run(scratch, EIGHT + "ibv_devinfo -l").stdout
    check(out.split()[3:] == NAMES, "ibv_devinfo -l prints", out)


@case
def rows_of_the_gid_table(scratch):
    found = info(scratch, ONE, "mlx5_0")
    rows = [found["GID[%3d]" % i].rsplit(", ", 1) for i in range(4)]
    check([version for _, version in rows] == ["RoCE v1", "RoCE v2"] * 2, "rows are", rows)
    check(rows[0][0].startswith("fe80:") and rows[1][0].startswith("fe80:"), "rows are", rows)
    check(rows[2][0].startswith("0000:0000:0000:0000:0000:ffff:"), "row 2 is", rows[2])
    check(rows[3][0].startswith("::ffff:"), "row 3 is", rows[3])


@case
def files_of_the_gid_table_agree(scratch):
    for row, version in enumerate(["IB/RoCE v1", "RoCE v2"] * 2):
        found = cat(scratch, "ports/1/gid_attrs/types/%d" % row)
        check(found == version, "type of row", row, "is", found)
    for row in (0, 2):
        first, second = (cat(scratch, "ports/1/gids/%d" % i) for i in (row, row + 1))
        check(first == second, "rows", row, row + 1, "are", first, second)
    interface = cat(scratch, "ports/1/gid_attrs/ndevs/3")
    check(interface in run(scratch, ONE + "ls /sys/class/infiniband/mlx5_0/device/net").stdout
          .split(), "row 3 is of", interface)


@case
def files_that_scripts_read(scratch):
    """ibdev2netdev and its like."""
    for path, content in (("hca_type", "MT4125"), ("board_id", "MT_0000000359"),
                          ("fw_ver", "22.39.1002"), ("hw_rev", "0"), ("node_type", "1: CA"),
                          ("node_desc", socket.gethostname() + " mlx5_0"),
                          ("device/vendor", "0x15b3"), ("device/device", "0x101d"),
                          ("ports/1/state", "4: ACTIVE"), ("ports/1/phys_state", "5: LinkUp"),
                          ("ports/1/rate", "100 Gb/sec (4X EDR)")):
        found = cat(scratch, path)
        check(found == content, path, "is", found)


@case
def pingpong_by_each_row(scratch):
    for row in (3, 1, 2, 0):
        for program in ("ibv_rc_pingpong -c", "ibv_ud_pingpong"):
            command = "%s%s -d mlx5_0 -g %d" % (ONE, program, row)
            pair_passes(scratch, command, command)


@case
def ends_that_use_different_rows(scratch):
    for server, client in ((3, 2), (0, 1)):
        command = ONE + "ibv_rc_pingpong -c -d mlx5_0 -g %d"
        pair_passes(scratch, command % server, command % client)
    pair_passes(scratch, "ibv_rc_pingpong -c -g 0", ONE + "ibv_rc_pingpong -c -d mlx5_0 -g 3")


@case
def devices_of_one_host(scratch):
    command = EIGHT + "ibv_rc_pingpong -c -g 3 -d "
    pair_passes(scratch, command + "mlx5_0", command + "mlx5_7")


@case
def perftest(scratch):
    for program in ("ib_write_bw -x 3", "ib_write_bw -x 1", "ib_write_lat", "ib_read_bw",
                    "ib_send_lat -x 3", "ib_send_bw -c UD -x 3", "ib_atomic_bw"):
        command = "%s%s -n 100 -d mlx5_0" % (ONE, program)
        pair_passes(scratch, command, command)


@case
def ucx(scratch):
    """It tries mlx5's own ways by the vendor's number, and goes on with verbs."""
    if not shutil.which("ucx_perftest"):
        print("not installed (package ucx-utils): ucx_perftest")
        return
    for transports in ("ib", "rc_verbs,ud_verbs", "ud_verbs"):
        command = ONE + "UCX_NET_DEVICES=mlx5_0:1 UCX_TLS=%s ucx_perftest -f -n 1000 -t tag_lat"
        pair_passes(scratch, command % transports, command % transports)
    out = run(scratch, ONE + "ucx_info -d").stdout
    check(set(re.findall(r"Transport: (\w+_(?:verbs|mlx5))", out)) == {"rc_verbs", "ud_verbs"},
          "ucx_info -d prints", out)


if __name__ == "__main__":
    for name in ("ibstat", "ibstatus"):
        if not shutil.which(name):
            pair.skip("not installed (package infiniband-diags): " + name)
    cases.main(__doc__)
