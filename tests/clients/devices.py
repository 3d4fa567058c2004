#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""What ibv_devices and ibv_devinfo say about the devices of ANYVERBS_DEVICES,
and traffic between two of them."""
import os
import re
import shutil

import cases
from cases import case, check, expect, info, pair_passes, run

LIMITS = {"max_qp": 16, "max_qp_wr": 600, "max_sge": 4, "max_cq": 8, "max_cqe": 2000, "max_mr": 32,
          "max_pd": 4}
TWO = "mlx5_0,rxe0:mtu=1024:gids=2:" + ":".join("%s=%d" % item for item in LIMITS.items())
TWO_IB = "a0:link=infiniband,a1:link=infiniband:lid=77"

def listed(scratch, devices):
    """{name: GUID as 16 hex digits}, in the order of ibv_devices."""
    out = run(scratch, devices + "ibv_devices").stdout
    return dict(re.findall(r"^\s+(\S+)\s+([0-9a-f]{16})$", out, re.MULTILINE))


@case
def the_default_is_one_device_any0(scratch):
    found = listed(scratch, "")
    check(list(found)[:1] == ["any0"], "ibv_devices lists", found)
    check(int(found["any0"], 16) != 0, "its GUID is zero")
    check("any0" in run(scratch, "ibv_devinfo -l").stdout, "ibv_devinfo -l does not list any0")


@case
def devinfo_of_any0(scratch):
    found = info(scratch, "", "any0")
    guid = listed(scratch, "")["any0"]
    expect(found, {"hca_id": "any0", "transport": "InfiniBand (0)",
                   "node_guid": ":".join(re.findall("....", guid)),
                   "phys_port_cnt": 1, "port": 1, "state": "PORT_ACTIVE (4)",
                   "phys_state": "LINK_UP (5)", "max_mtu": "4096 (5)",
                   "link_layer": "Ethernet", "port_lid": 0})
    for key in ("max_qp", "max_qp_wr", "max_sge", "max_sge_rd", "max_cq", "max_cqe", "max_mr",
                "max_pd",
                "max_qp_rd_atom", "max_qp_init_rd_atom", "max_pkeys", "pkey_tbl_len", "gid_tbl_len",
                "num_comp_vectors"):
        check(int(found[key]) > 0, key, "is", found[key])
    for key in ("max_mr_size", "page_size_cap", "max_msg_sz"):
        check(int(found[key], 16) > 0, key, "is", found[key])
    check(found["atomic_cap"].startswith(("ATOMIC_HCA", "ATOMIC_GLOB")), "atomic_cap is",
          found["atomic_cap"])
    check(found.get("GID[  0]", "").endswith("RoCE v2"), "GID 0 is", found.get("GID[  0]"))


@case
def a_name_that_is_not_there(scratch):
    done = run(scratch, "ibv_devinfo -d any1", status=255)
    check("any1" in done.stderr, "nothing about any1 in:", done.stderr)


@case
def names_are_what_was_asked_for(scratch):
    found = listed(scratch, "ANYVERBS_DEVICES=%s " % TWO)
    check(list(found)[:2] == ["mlx5_0", "rxe0"], "ibv_devices lists", found)
    check("any0" not in found, "any0 is there too")
    check(found["mlx5_0"] != found["rxe0"], "both have GUID", found["rxe0"])


@case
def limits_are_what_was_asked_for(scratch):
    devices = "ANYVERBS_DEVICES=%s " % TWO
    small = info(scratch, devices, "rxe0")
    expect(small, LIMITS)
    expect(small, {"active_mtu": "1024 (3)", "max_mtu": "1024 (3)", "gid_tbl_len": 2})
    large = info(scratch, devices, "mlx5_0")
    expect(large, {"max_mtu": "4096 (5)"})
    for key, limit in LIMITS.items():
        check(int(large[key]) > limit, "the limit of rxe0 also holds for mlx5_0:", key)


@case
def a_guid_can_be_chosen(scratch):
    guid = "00112233aabbccdd"
    found = listed(scratch, "ANYVERBS_DEVICES=any0:guid=%s " % guid)
    check(found == {"any0": guid}, "ibv_devices lists", found)


@case
def infiniband_has_lids(scratch):
    devices = "ANYVERBS_DEVICES=%s " % TWO_IB
    expect(info(scratch, devices, "a0"), {"link_layer": "InfiniBand", "port_lid": 1})
    expect(info(scratch, devices, "a1"), {"link_layer": "InfiniBand", "port_lid": 77})


@case
def nonsense_is_named_and_left_out(scratch):
    done = run(scratch, "ANYVERBS_DEVICES=any0:nope=1,.. ibv_devinfo -l")
    check("any0" in done.stdout, "any0 is lost:", done.stdout)
    check("nope" in done.stderr and "'..'" in done.stderr, "no complaint in:", done.stderr)


@case
def limits_hold(scratch):
    """ibv_rc_pingpong posts 500 receives."""
    enough = "ANYVERBS_DEVICES=rxe0:max_qp_wr=500 ibv_rc_pingpong -g 0 -d rxe0"
    pair_passes(scratch, enough, enough)
    done = run(scratch, "ANYVERBS_DEVICES=rxe0:max_qp_wr=499 ibv_rc_pingpong -g 0 -d rxe0",
               status=1)
    check("QP" in done.stderr, "refused for another reason:", done.stderr)


@case
def traffic_between_two_devices_of_one_list(scratch):
    for program in ("ibv_rc_pingpong -g 0 -c", "ib_write_bw -n 100", "ib_read_lat -n 100",
                    "ib_atomic_bw -n 100",
                    "ib_send_bw -n 100"):
        command = "ANYVERBS_DEVICES=%s %s -d " % (TWO, program)
        pair_passes(scratch, command + "mlx5_0", command + "rxe0")


@case
def traffic_between_processes_with_different_lists(scratch):
    pair_passes(scratch, "ANYVERBS_DEVICES=mlx5_0 ibv_rc_pingpong -g 0 -c -d mlx5_0",
                "ANYVERBS_DEVICES=rxe0 ibv_rc_pingpong -g 0 -c -d rxe0")


@case
def traffic_between_two_infiniband_devices(scratch):
    for program in ("ibv_rc_pingpong -c", "ib_read_bw -n 100"):
        command = "ANYVERBS_DEVICES=%s %s -d " % (TWO_IB, program)
        pair_passes(scratch, command + "a0", command + "a1")


@case
def names_of_vendors_are_only_names(scratch):
    """perftest chooses its ways by these prefixes."""
    for name in ("mlx4_0", "mlx5_0", "efa_0", "rxe0", "siw0"):
        command = "ANYVERBS_DEVICES=%s ib_send_lat -n 100 -d %s" % (name, name)
        pair_passes(scratch, command, command)


@case
def a_program_that_opens_libibverbs_itself(scratch):
    here = os.path.dirname(os.path.abspath(__file__))
    program = shutil.copy(os.path.join(here, "ctypes_verbs.py"), scratch.path)
    done = run(scratch, "ANYVERBS_DEVICES=%s python3 -B %s" % (TWO, program))
    check(done.stdout.split() == ["mlx5_0", "rxe0"], "it sees", done.stdout)


if __name__ == "__main__":
    cases.main(__doc__)
