# SPDX-License-Identifier: MIT
"""What only some machines have, and some tests need."""
import ctypes
import glob
import re
import subprocess

HUGE_PAGE = 2 << 20
HUGE_POOL = "/sys/kernel/mm/hugepages/hugepages-2048kB/"
IPC_CREAT, SHM_HUGETLB, IPC_RMID = 0o1000, 0o4000, 0


def free_huge_pages():
    """Those that anybody can have: free, and not promised."""
    def number(name):
        with open(HUGE_POOL + name, encoding="ascii") as f:
            return int(f.read())
    try:
        return number("free_hugepages") - number("resv_hugepages")
    except OSError:
        return 0


def shared_huge_memory():
    """Shared memory of huge pages is for privileged users.
    Return: None, or why this process cannot have it."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.shmget.argtypes = (ctypes.c_int, ctypes.c_size_t, ctypes.c_int)
    segment = libc.shmget(0, 16 * HUGE_PAGE, IPC_CREAT | SHM_HUGETLB | 0o600)
    if segment < 0:
        return "shmget(SHM_HUGETLB) fails with errno %d" % ctypes.get_errno()
    libc.shmctl(segment, IPC_RMID, None)
    return None


def rsockets():
    """The path of librspreload.so, or None."""
    return next(iter(glob.glob("/usr/lib/*/rsocket/librspreload.so")), None)


def newer_cmtime():
    """Is it rdma-core 59's or later, in which a controller coordinates both sides?"""
    usage = subprocess.run(["cmtime", "-h"], capture_output=True, text=True, timeout=60,
                           check=False).stdout
    return "controller" in usage


def ipv6():
    """Has this network an IPv6 address?"""
    try:
        with open("/proc/net/if_inet6", encoding="ascii") as f:
            return f.read() != ""
    except OSError:
        return False


def gids(scratch):
    """any0's GID table: index and address of each row, as text"""
    done = subprocess.run(["ibv_devinfo", "-v", "-d", "any0"], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=100, check=True,
                          env=scratch.environment(), cwd=scratch.path, **scratch.identity())
    return re.findall(r"GID\[\s*(\d+)\]:\s+(\S+),", done.stdout)


def gid(scratch, family):
    """Index of the first row of any0's GID table that is an "IPv4" or "IPv6" address;
    None if there is no such row."""
    return next((int(index) for index, text in gids(scratch)
                 if text.startswith("::ffff:") == (family == "IPv4")), None)


def address(scratch):
    """The first IPv4 address in any0's GID table; None if there is none"""
    mapped = "::ffff:"
    return next((text[len(mapped):] for _, text in gids(scratch) if text.startswith(mapped)),
                None)
