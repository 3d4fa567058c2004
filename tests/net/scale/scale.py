#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Any number of hosts at a switch, one process on each or more, and all talk to all: by reliable
connections, then by datagrams of one queue pair each.

    scale.py --host build/dev/tests/net/scale/scale_host --tool build/dev/bin/anyverbs --hosts 2 4 8

Prints what each number of hosts costs. Fails if a byte is wrong, a completion has an error, or a
connection takes more memory where there are more of them; times are only shown.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections import namedtuple
from contextlib import suppress

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "clients"))

import switch  # pylint: disable=wrong-import-position
import veth  # pylint: disable=wrong-import-position

HOSTS = (2, 4, 8, 16, 32, 64)
TURNS = 100          # in which a datagram is sent again before it is missed
RC_BYTES = 5000      # five packets of the path MTU of 1024
UD_BYTES = 1024

# What a connection or a peer may take beyond the first run's, whatever their number: 5.8 KiB were
# measured, the program's own included. Tables grow by chunks of 64 queue pairs, and by as many
# receive requests as there are peers.
PER_CONNECTION = 8192
CHUNKS = 256 << 10

COUNTERS = ("xmit_packets", "repeated_packets", "duplicate_packets", "timeouts")

Figures = namedtuple("Figures", "memory threads descriptors")


# A descriptor, a file or a thread that ends between its listing and a look at it.
GONE = (FileNotFoundError, ProcessLookupError)


class Wrong(Exception):
    """What a test fails with."""


def blocks_of(path):
    """What files take, the same one once."""
    files = {}
    for folder, _, names in os.walk(path):
        for name in names:
            with suppress(*GONE):
                there = os.lstat(os.path.join(folder, name))
                files[there.st_ino] = there.st_blocks * 512
    return sum(files.values())


class Process:
    """One of those that talk. Those of one host share its folder."""

    def __init__(self, options, hosts, rank, folder, words):
        self.rank = rank
        self.options = options
        self.host, self.beside = divmod(rank, options.processes)
        self.folder = os.path.join(folder, "host%d" % self.host)
        if self.beside == 0:
            os.mkdir(self.folder, 0o700)
        self.environment = dict(os.environ, ANYVERBS_DIR=self.folder)
        self.popen = subprocess.Popen(
            [*hosts.inside(self.host), options.host, *words], env=self.environment, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, preexec_fn=veth.end_with_parent)

    def hear(self, step):
        """Return: the words behind that one, which begins its next line"""
        for line in self.popen.stdout:
            words = line.split()
            if words and words[0] == step:
                return words[1:]
            print(line, end="")    # of what is wrong
        raise Wrong("process %d ended with %d instead of '%s'" %
                    (self.rank, self.popen.wait(), step))

    def answer(self, line=""):
        self.popen.stdin.write(line + "\n")
        self.popen.stdin.flush()

    def memory(self):
        """Bytes of its private memory, of its segments, and of its share of the folder."""
        pid, memfds = self.popen.pid, {}
        for fd in os.listdir("/proc/%d/fd" % pid):
            path = "/proc/%d/fd/%s" % (pid, fd)
            with suppress(*GONE):
                if os.readlink(path).startswith("/memfd:"):
                    there = os.stat(path)
                    memfds[there.st_ino] = there.st_blocks * 512
        return (self.status("RssAnon") * 1024 + sum(memfds.values()) +
                blocks_of(self.folder) // self.options.processes)

    def status(self, name):
        with open("/proc/%d/status" % self.popen.pid, encoding="ascii") as f:
            return next(int(line.split()[1]) for line in f if line.startswith(name + ":"))

    def figures(self):
        return Figures(self.memory(), self.status("Threads"),
                       len(os.listdir("/proc/%d/fd" % self.popen.pid)))

    def processor(self):
        """Nanoseconds that its threads have run."""
        tasks, total = "/proc/%d/task" % self.popen.pid, 0
        for task in os.listdir(tasks):
            with suppress(*GONE), \
                    open(os.path.join(tasks, task, "schedstat"), encoding="ascii") as f:
                total += int(f.read().split()[0])
        return total

    def counted(self):
        done = subprocess.run([self.options.tool, "stat", "--json"], env=self.environment,
                              check=True, capture_output=True, text=True)
        rows = json.loads(done.stdout)["devices"][0]["counters"]
        there = {row["counter"]: row["value"] for row in rows}
        return {name: there[name] for name in COUNTERS}

    def carried(self):
        """What the host's interface has sent: the kernel counts packets that it has joined as
        one."""
        with open("/proc/%d/net/dev" % self.popen.pid, encoding="ascii") as f:
            row = next(line for line in f if line.strip().startswith(switch.PORT + ":"))
        return int(row.split(":")[1].split()[9])

    def end(self):
        self.popen.kill()
        self.popen.wait()
        self.popen.stdin.close()
        self.popen.stdout.close()


class All:
    """All processes, step by step."""

    def __init__(self, options, hosts, count, folder, words):
        self.count = count
        self.all = []
        self.started = lambda rank: Process(options, hosts, rank, folder,
                                         [words[0], str(rank), str(count), *words[1:]])

    def __enter__(self):
        try:
            for rank in range(self.count):
                self.all.append(self.started(rank))
        except OSError:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for process in self.all:
            process.end()

    def hear(self, step):
        return [process.hear(step) for process in self.all]

    def answer(self, line=""):
        for process in self.all:
            process.answer(line)

    def figures(self):
        return [process.figures() for process in self.all]

    def counted(self):
        each = [first.counted() for first in self.firsts()]
        return {name: sum(row[name] for row in each) for name in COUNTERS}

    def processor(self):
        return sum(process.processor() for process in self.all)

    def carried(self):
        return sum(first.carried() for first in self.firsts())

    def firsts(self):
        """One of each host."""
        return [process for process in self.all if process.beside == 0]

    def others(self, rank):
        """The other processes, in the order of their numbers as peers of that one."""
        return [other for other in range(self.count) if other != rank]

    def connect(self):
        """Each is told the others' addresses, and the numbers of what is meant for it."""
        said = self.hear("numbers")
        heads = 3 if len(said[0]) > 2 else 1    # address, and memory if there are connections
        for process in self.all:
            words = []
            for other in self.others(process.rank):
                numbers = said[other][heads:]
                each = len(numbers) // (self.count - 1) or 1
                at = self.others(other).index(process.rank) * each if heads > 1 else 0
                words += said[other][:heads] + numbers[at:at + each]
            process.answer(" ".join(words))

    def send_lacking(self, each):
        """All datagrams of a round. Return: how many had to be sent again, and processor time"""
        turns = again = 0
        ran = self.processor()
        while any(lacking := self.hear("lacking")):
            turns += 1
            if turns > TURNS:
                raise Wrong("datagrams are missing after %d turns" % TURNS)
            orders = [[] for _ in self.all]
            for rank, words in enumerate(lacking):
                for number in map(int, words):
                    sender = self.others(rank)[number // each]
                    orders[sender].append(
                        self.others(sender).index(rank) * each + number % each)
            again += sum(map(len, orders)) if turns > 1 else 0
            for process, order in zip(self.all, orders):
                process.answer(" ".join(map(str, [len(order), *order])))
            self.hear("done")
            self.answer()
        spent = self.processor() - ran
        self.answer("end")
        return again, spent

    def send_connected(self):
        """The messages of a round. Return: as send_lacking()"""
        self.hear("ready")
        ran = self.processor()
        self.answer()
        self.hear("done")
        spent = self.processor() - ran
        self.answer()
        return 0, spent


Row = namedtuple("Row", "way hosts connections create connect wall before made used threads "
                        "descriptors messages spent counted carried again twice")


def median(values):
    return statistics.median(values)


def microseconds(said, connections):
    """Of the processor and of the clock, for each connection of a host."""
    return [median(int(words[i]) for words in said) / connections / 1000 for i in (0, 1)]


def run(options, hosts, count, way, folder):
    """Return: what it was like"""
    connected = way == "connected"
    each = options.each if connected else options.datagrams
    size = options.bytes if connected else UD_BYTES
    processes = count * options.processes
    connections = (processes - 1) * (each if connected else 1)
    again = spent = 0
    with All(options, hosts, processes, folder,
             [way, *map(str, (each, size, options.rounds, options.together))]) as every:
        every.hear("open")
        before = every.figures()
        every.answer()
        create = microseconds(every.hear("created"), connections if connected else 1)
        every.answer()
        every.connect()
        connect = microseconds(every.hear("connected"), connections)
        made, sent = every.figures(), every.carried()
        every.answer()
        for _ in range(options.rounds):
            more = every.send_connected() if connected else every.send_lacking(each)
            again, spent = again + more[0], spent + more[1]
            wrong, twice = (sum(map(int, column)) for column in zip(*every.hear("checked")))
            if wrong:
                raise Wrong("%d messages were wrong" % wrong)
            used, counted, carried = every.figures(), every.counted(), every.carried() - sent
            every.answer()
        every.hear("end")
        for process in every.all:
            if process.popen.wait() != 0:
                raise Wrong("process %d ended with %d" % (process.rank, process.popen.returncode))
    messages = processes * (processes - 1) * each * options.rounds * (3 if connected else 1)
    return Row(way, count, connections, create[0], connect[0], connect[1],
               median(f.memory for f in before), median(f.memory for f in made),
               median(f.memory for f in used), max(f.threads for f in used),
               max(f.descriptors for f in used), messages, spent, counted, carried, again, twice)


# Title, form, and the value in a row.
COLUMNS = (
    ("way", "%-10s", lambda r: r.way),
    ("hosts", "%6d", lambda r: r.hosts),
    ("each has", "%9d", lambda r: r.connections),
    ("create us", "%10.1f", lambda r: r.create),
    ("connect us", "%11.1f", lambda r: r.connect),
    ("of clock", "%9.1f", lambda r: r.wall),
    ("process KiB", "%12.0f", lambda r: r.before / 1024),
    ("B per one", "%10.0f", lambda r: (r.made - r.before) / r.connections),
    ("used", "%8.0f", lambda r: (r.used - r.before) / r.connections),
    ("threads", "%8d", lambda r: r.threads),
    ("fds", "%4d", lambda r: r.descriptors),
    ("messages", "%9d", lambda r: r.messages),
    ("us", "%6.1f", lambda r: r.spent / r.messages / 1000),
    ("packets", "%8.2f", lambda r: r.counted["xmit_packets"] / r.messages),
    ("sent as", "%8.2f", lambda r: r.carried / r.messages),
    ("repeated", "%9d", lambda r: r.counted["repeated_packets"] + r.again),
    ("twice", "%6d", lambda r: r.counted["duplicate_packets"] + r.twice),
    ("timeouts", "%9d", lambda r: r.counted["timeouts"]),
)
LEGEND = """\
each has: connections of a process, or peers of its datagram queue pair. create, connect: processor
time of one, to INIT, and from there to RTS (of the datagram queue pair, and of an address handle);
of clock: the same as connect, while the others do it, too. process: memory before; B per one: what
a connection or peer adds, and when all is used. us, packets, sent as: per message, processor time
of both sides, packets, and what the kernel was given: it takes several as one. repeated: packets
that were sent once more; twice: came twice.
"""


def show_titles():
    print(LEGEND)
    print("".join(form.replace(".1f", "s").replace(".2f", "s").replace(".0f", "s")
                  .replace("d", "s") % title for title, form, _ in COLUMNS), flush=True)


def show(row):
    print("".join(form % value(row) for _, form, value in COLUMNS), flush=True)


def judge_memory(rows):
    """What all connections of a process have taken, beyond the first row's."""
    for way in ("connected", "datagrams"):
        first, *more = [row for row in rows if row.way == way]
        for row in more:
            room = CHUNKS + PER_CONNECTION * (row.connections - first.connections)
            takes = (row.used - row.before) - (first.used - first.before)
            if takes > room:
                raise Wrong("%s, %d hosts: %d bytes more than with %d, where %d are the most" %
                            (way, row.hosts, takes, first.hosts, room))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--host", required=True, help="the program scale_host")
    parser.add_argument("--tool", required=True, help="the program anyverbs")
    parser.add_argument("--hosts", type=int, nargs="+", default=HOSTS)
    parser.add_argument("--processes", type=int, default=1, help="of each host")
    parser.add_argument("--each", type=int, default=1, help="queue pairs to each process")
    parser.add_argument("--bytes", type=int, default=RC_BYTES, help="of a message on them")
    parser.add_argument("--datagrams", type=int, default=4, help="to each process in a round")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--together", type=int, default=1 << 20,
                        help="connections of a process that have requests at a time")
    parser.add_argument("--no-memory", action="store_true", help="only show what it takes")
    options = parser.parse_args()
    veth.enter()
    rows = []
    with switch.Switch(max(options.hosts)) as hosts:
        hosts.introduce()
        show_titles()
        for count in options.hosts:
            for way in ("connected", "datagrams"):
                with tempfile.TemporaryDirectory(prefix="anyverbs-scale-") as folder:
                    rows.append(run(options, hosts, count, way, folder))
                    show(rows[-1])
    if not options.no_memory:
        judge_memory(rows)


if __name__ == "__main__":
    try:
        main()
    except Wrong as wrong:
        sys.exit("FAILED: %s" % wrong)
