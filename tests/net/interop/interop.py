#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""
Programs of the distribution between anyverbs and the kernel's own RoCEv2 (rdma_rxe): a machine is
emulated, which has Debian's kernel, and runs the rows of a table. guest.sh says how its networks
are made.
"""
import argparse
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections import namedtuple

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "clients"))

import guide  # pylint: disable=wrong-import-position
import pair  # pylint: disable=wrong-import-position
from image import Image, Kernel, Unavailable  # pylint: disable=wrong-import-position
from programs import Command  # pylint: disable=wrong-import-position

# SERVER-CLIENT: the ends that guest.sh has for them, of which each cable has two.
PAIRS = {"rxe-rxe": ("rxe1", "rxe2"), "rxe-any": ("rxe0", "any0"),
         "any-rxe": ("any0", "rxe0"), "any-any": ("any1", "any2")}
SETS = ("core", "full")
CLEAN = "clean"

MODULES = "crc32_generic veth sch_netem rdma_rxe rdma_ucm".split()
COMMANDS = ("bash mount insmod mkdir cat sed grep sleep timeout env ip tc rdma ibv_devinfo "
            "ibv_rc_pingpong ibv_uc_pingpong ibv_ud_pingpong ibv_srq_pingpong "
            "ib_send_bw ib_send_lat ib_write_bw ib_write_lat ib_read_bw ib_read_lat "
            "ib_atomic_bw ib_atomic_lat "
            "rping ucmatose udaddy rdma_server rdma_client rdma_xserver rdma_xclient rstream "
            "riostream rcopy mckey cmtime").split()
OF_THE_HOST = "qemu-system-x86_64 dpkg-deb apt-get apt-cache depmod modprobe ldd tar".split()
NAMES_THE_DRIVER = "/etc/libibverbs.d/rxe.driver"
DRIVER = "/usr/lib/*/libibverbs/librxe-*.so"
ENDS_THREADS = "/lib/*/libgcc_s.so.1"    # libc looks for it in pthread_exit()
TAIL_LINES = 25
# Where this host has no core for it, ticks come late: the kernel would take the timer for broken,
# and speak of processors that are stuck.
ON_A_BUSY_HOST = "no_timer_check nowatchdog"

Case = namedtuple("Case", "set pairs versions network command")


def parse_case(line, where):
    fields = [field.strip() for field in line.split("|", 4)]
    if len(fields) != 5 or fields[0] not in SETS:
        sys.exit("%s: not understood: %s" % (where, line))
    chosen, pairs, versions, network, command = fields
    pairs = list(PAIRS) if pairs == "all" else pairs.split()
    versions = versions.split()
    if not set(pairs) <= set(PAIRS) or not set(versions) <= {"4", "6"}:
        sys.exit("%s: not understood: %s" % (where, line))
    return Case(chosen, pairs, versions, network, command)


def read_cases(path):
    with open(path, encoding="utf-8") as f:
        for number, line in enumerate(f, 1):
            line = line.strip()
            if line and not line.startswith("#"):
                yield parse_case(line, "%s:%d" % (path, number))


def guide_cases(path):
    return [Case("core", ["%s-%s" % (server, client)], ["4"], CLEAN, command)
            for server, client, command in guide.read_pairs(path)]


class Run:
    """One case between two ends."""

    def __init__(self, case, name, version):
        self.case = case
        self.command = Command(case.command)
        self.pair = name
        self.version = version
        self.codes = {}
        self.lines = {"server": [], "client": []}

    def __str__(self):
        network = "" if self.case.network == CLEAN else " (%s)" % self.case.network
        return "%s IPv%s  %s%s" % (self.pair, self.version, self.case.command, network)

    def order(self, number, seconds):
        """The lines that guest.sh reads."""
        head = [str(number), *PAIRS[self.pair], self.version, str(seconds),
                self.command.waits_for(), self.command.servers_end(), self.case.network]
        return "%s\n%s\n%s\n" % (" ".join(head), *self.command.of_both())

    def problem(self):
        """None if all is well."""
        return self.command.problem(self.codes, {name: "\n".join(lines)
                                                 for name, lines in self.lines.items()})

    def tail(self):
        return "\n".join("    %s| %s" % (name, line) for name, lines in self.lines.items()
                         for line in lines[-TAIL_LINES:])


def build_image(args, kernel, runs, path):
    image = Image()
    for command in COMMANDS:
        found = shutil.which(command)
        if not found:
            raise Unavailable("%s is not installed" % command)
        image.program(found, "bin/" + command)
    drivers = glob.glob(DRIVER)
    if not drivers:
        raise Unavailable("no driver of rdma_rxe (package ibverbs-providers)")
    image.program(drivers[0])
    image.copy(NAMES_THE_DRIVER)
    for library in glob.glob(ENDS_THREADS):
        image.copy(library)
    for program in args.programs:
        image.program(program, "bin/" + os.path.basename(program))
    image.program(args.tool, "bin/anyverbs")
    image.program(args.library, "bin/libanyverbs.so.1")
    names = []
    for file in kernel.modules(MODULES):
        names.append("/lib/modules/" + os.path.basename(file))
        image.copy(file, names[-1])
    image.write("modules", "".join(name + "\n" for name in names).encode())
    image.write("rows", "".join(run.order(number, args.row_seconds)
                                for number, run in enumerate(runs)).encode())
    cables = sorted({" ".join(sorted(PAIRS[run.pair], reverse=True)) for run in runs})
    image.write("cables", "".join(cable + "\n" for cable in cables).encode())
    image.copy(os.path.join(HERE, "guest.sh"), "init")
    image.save(path)


def emulate(kernel, image):
    """The machine; what it prints is its console."""
    return subprocess.Popen(
        ["qemu-system-x86_64", "-accel", "tcg,thread=multi", "-cpu", "max", "-smp", "2",
         "-m", "1024", "-nographic", "-no-reboot", "-nic", "none",
         "-kernel", kernel.image, "-initrd", image,
         "-append", "console=ttyS0 quiet loglevel=2 panic=-1 mitigations=off " + ON_A_BUSY_HOST],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        encoding="utf-8", errors="replace")


def report(run, begin, end):
    """Print how it went. Return: whether it went well."""
    problem = run.problem()
    print("%5.1f s  %s  %s" % (end - begin, run, "FAIL (%s)" % problem if problem else "PASS"),
          flush=True)
    if problem:
        print(run.tail(), flush=True)
    return not problem


def listen(console, runs, last, show):
    """Follow the console to its end. Yield whether each row went well; @last: the lines that
    belong to no row."""
    for line in console:
        line = line.rstrip()
        if show:
            print(line, flush=True)
        said = re.match(r"(\d+) (server|client)\| ?(.*)", line)
        code = re.match(r"@ (\d+) (server|client) (\d+)$", line)
        time = re.match(r"@ (\d+) time (\S+) (\S+)$", line)
        if said:
            runs[int(said[1])].lines[said[2]].append(said[3])
        elif code:
            runs[int(code[1])].codes[code[2]] = int(code[3])
        elif time:
            yield report(runs[int(time[1])], float(time[2]), float(time[3]))
        elif line == "@ done":
            return
        else:
            last.append(line)


def run_all(args, runs):
    """Return: whether each row went well, as far as they were run."""
    kernel = Kernel(args.cache)
    last = []
    with tempfile.TemporaryDirectory(prefix="anyverbs-interop-") as folder:
        image = os.path.join(folder, "image")
        build_image(args, kernel, runs, image)
        with emulate(kernel, image) as machine:
            limit = threading.Timer(args.seconds, machine.kill)
            limit.start()
            try:
                results = list(listen(machine.stdout, runs, last, args.console))
            finally:
                limit.cancel()
                machine.kill()
    if len(results) < len(runs):
        print("the machine ended before row %d of %d, or did not finish within %d s; it said last:"
              % (len(results) + 1, len(runs), args.seconds))
        print("\n".join(last[-TAIL_LINES:]))
    return results


def options():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--library", required=True)
    p.add_argument("--tool", required=True)
    p.add_argument("--programs", nargs="*", default=[],
                   help="those of bytes.c and connect.c, if the table has them")
    p.add_argument("--cache", required=True, help="folder in which the kernel stays, unpacked")
    p.add_argument("--set", choices=SETS, default="core", help="full: core and the others")
    p.add_argument("--pairs", nargs="+", choices=PAIRS, default=list(PAIRS))
    p.add_argument("--seconds", type=int, default=1140, help="limit for all of it")
    p.add_argument("--row-seconds", type=int, default=60, help="limit for one program")
    p.add_argument("--only", default="", help="only the cases that contain this text")
    p.add_argument("--console", action="store_true", help="show the machine's console")
    p.add_argument("--table", default=os.path.join(HERE, "cases.txt"))
    p.add_argument("--guide", metavar="PAGE", help="the commands of this page, and no table's")
    return p.parse_args()


def chosen(args):
    return [Run(case, name, version)
            for case in (guide_cases(args.guide) if args.guide else read_cases(args.table))
            if case.set in ("core", args.set)
            for name in case.pairs if name in args.pairs
            for version in case.versions
            if args.only in "%s %s" % (case.command, case.network)]


def main():
    args = options()
    runs = chosen(args)
    if not runs:
        sys.exit("no such rows")
    try:
        missing = [program for program in OF_THE_HOST if not shutil.which(program)]
        if missing:
            raise Unavailable("not installed: " + " ".join(missing))
        results = run_all(args, runs)
    except Unavailable as error:
        pair.skip("all %d rows: %s" % (len(runs), error))
    print("%d of %d rows passed, %d not run"
          % (results.count(True), len(runs), len(runs) - len(results)))
    sys.exit(0 if results.count(True) == len(runs) else 1)


if __name__ == "__main__":
    main()
