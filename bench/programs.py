# SPDX-License-Identifier: MIT
"""
The programs that are compared: how a pair of them is started, one process per core, and what its output means.
Every function returns {(operation, size): value}; latencies are microseconds one way (a round trip for READ and
atomics, which have no other), bandwidths 10^9 bytes/s, rates 10^6 messages/s.

Nothing is judged here; figures.py knows what is compared with what.
"""
import os
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "clients"))
from pair import free_port, listening  # pylint: disable=wrong-import-position

LIMIT_SECONDS = 120  # for one pair: only a program that hangs meets it
LATENCY_BYTES = 100 << 20    # moved in one measurement, so that each takes about as long
BANDWIDTH_BYTES = 600 << 20
SLOW_BANDWIDTH_BYTES = 60 << 20  # by what is known to be slow


class Failed(Exception):
    """A program that did not do what it was asked to; its last words."""


def cores():
    """Two cores for the two sides; the same one twice where there is only one."""
    usable = sorted(os.sched_getaffinity(0))
    return usable[0], usable[1 if len(usable) > 1 else 0]


def rounds_of(size, total, least, most):
    return max(least, min(most, total // size))


def wait_for(server, port):
    deadline = time.monotonic() + LIMIT_SECONDS
    while not listening(port):
        if server.poll() is not None or time.monotonic() > deadline:
            raise Failed("the server of %s does not listen" % server.args[3])
        time.sleep(0.002)


def pair(server_words, client_words, port, settings=None):
    """Run both; the client's output. Either's failure is a failure."""
    env = dict(os.environ, LC_ALL="C", **(settings or {}))
    first, second = cores()
    with tempfile.TemporaryFile("w+") as said:
        server = subprocess.Popen(["taskset", "-c", str(first), *server_words], env=env, stdin=subprocess.DEVNULL,
                                  stdout=said, stderr=subprocess.STDOUT)
        try:
            wait_for(server, port)
            client = subprocess.run(["taskset", "-c", str(second), *client_words], env=env, text=True,
                                    stdin=subprocess.DEVNULL, capture_output=True, timeout=LIMIT_SECONDS, check=False)
            if client.returncode:
                raise Failed("%s: %s" % (" ".join(client_words), (client.stdout + client.stderr)[-500:]))
            if server.wait(LIMIT_SECONDS):
                said.seek(0)
                raise Failed("%s: %s" % (" ".join(server_words), said.read()[-500:]))
        except subprocess.TimeoutExpired as late:
            raise Failed(str(late)) from late
        finally:
            if server.poll() is None:
                server.kill()
                server.wait()
    return client.stdout


# --- Debian's perftest on a verbs device ---

def perftest_row(output):
    """The figures of the one line that begins with a size and a count of iterations."""
    for line in output.splitlines():
        words = line.split()
        if len(words) > 3 and words[0].isdigit() and words[1].isdigit():
            return [float(word) for word in words]
    raise Failed("no result in: " + output[-500:])


class Perftest:
    """On the device of that name; @settings preload the library, or nothing for a device of the kernel's."""

    def __init__(self, device, settings, extra=(), bandwidth_bytes=BANDWIDTH_BYTES):
        self.device = device
        self.settings = settings
        self.extra = list(extra)
        self.bandwidth_bytes = bandwidth_bytes

    def run(self, program, *options):
        port = free_port()
        words = [program, "-d", self.device, "-F", "-p", str(port), *self.extra, *options]
        return perftest_row(pair(words, [*words, "localhost"], port, self.settings))

    def latency(self, operation, size):
        count = rounds_of(size, LATENCY_BYTES, 50, 5000)
        size_option = [] if operation == "atomic" else ["-s", str(size)]
        row = self.run("ib_%s_lat" % operation, *size_option, "-n", str(count))
        return {("%s_lat" % operation, size): row[4]}  # t_typical: the median

    def bandwidth(self, operation, size):
        count = rounds_of(size, self.bandwidth_bytes, 60, 20000)
        row = self.run("ib_%s_bw" % operation, "-s", str(size), "-n", str(count), "--report_gbits")
        return {("%s_bw" % operation, size): row[3] / 8}

    def rate(self, operation, size, depth):
        row = self.run("ib_%s_bw" % operation, "-s", str(size), "-n", "200000", "-t", str(depth), "-Q", "32")
        return {("%s_rate" % operation, size): row[4]}


# --- UCX ---

UCX_LATENCY = {"send_lat": "tag_lat", "write_lat": "ucp_put_lat", "read_lat": "ucp_get", "am_lat": "ucp_am_lat",
               "atomic_lat": "ucp_fadd"}
UCX_BANDWIDTH = {"send_bw": "tag_bw", "write_bw": "ucp_put_bw", "read_bw": "ucp_get", "am_bw": "ucp_am_bw"}


def ucx_lines(sizes):
    """The lines of a batch file: name, then the arguments."""
    for operation, test in UCX_LATENCY.items():
        for size in [8] if operation == "atomic_lat" else sizes:
            count = rounds_of(size, LATENCY_BYTES, 50, 5000)
            yield "%s:%d -t %s -s %d -n %d -w %d" % (operation, size, test, size, count, count // 10)
    for operation, test in UCX_BANDWIDTH.items():
        for size in sizes:
            count = rounds_of(size, BANDWIDTH_BYTES, 60, 20000)
            yield "%s:%d -t %s -s %d -n %d -w %d -O 128" % (operation, size, test, size, count, count // 10)
    for operation, test in (("send_rate", "tag_bw"), ("write_rate", "ucp_put_bw"), ("am_rate", "ucp_am_bw")):
        yield "%s:8 -t %s -s 8 -n 200000 -w 10000 -O 128" % (operation, test)


def ucx_value(operation, fields):
    """Of one line of its CSV output: name, iterations, median, average and overall latency, 2 bandwidths (MiB/s), 2 rates."""
    if operation.endswith("_lat"):
        return float(fields[2])  # of ping-pongs half the round trip, of the others the whole operation
    if operation.endswith("_rate"):
        return float(fields[8]) / 1e6
    return float(fields[6]) * (1 << 20) / 1e9


def ucx(transports, lines):
    """All tests of the batch between one pair of processes."""
    port = free_port()
    with tempfile.NamedTemporaryFile("w", suffix=".ucx") as batch:
        batch.write("\n".join(lines) + "\n")
        batch.flush()
        words = ["ucx_perftest", "-p", str(port), "-b", batch.name]
        output = pair(words, [*words, "-f", "-v", "localhost"], port,
                      {"UCX_TLS": transports, "UCX_LOG_LEVEL": "error", "UCX_WARN_UNUSED_ENV_VARS": "n"})
    values = {}
    for line in output.splitlines():
        fields = line.split(",")
        if len(fields) == 9 and ":" in fields[0]:
            operation, size = fields[0].split(":")
            values[(operation, int(size))] = ucx_value(operation, fields)
    if not values:
        raise Failed("ucx_perftest: " + output[-500:])
    return values


def ucx_cma(sizes):
    """PUT into ordinary memory: the lowest layer's zero-copy put by process_vm_writev()."""
    def lines():
        for size in sizes:
            count = rounds_of(size, LATENCY_BYTES, 50, 5000)
            yield "write_lat:%d -t put_lat -x cma -d memory -D zcopy -s %d -n %d -w 10" % (size, size, count)
            count = rounds_of(size, BANDWIDTH_BYTES, 60, 20000)
            yield "write_bw:%d -t put_bw -x cma -d memory -D zcopy -s %d -n %d -w 10" % (size, size, count)
    return ucx("all", lines())


# --- libfabric ---

UNITS = {"k": 1 << 10, "m": 1 << 20}


def fabric_size(word):
    return int(word[:-1]) * UNITS[word[-1]] if word[-1] in UNITS else int(word)


def fabric_number(word):
    return float(word[:-1]) if word.endswith("s") else float(word)


def fabric(size):
    """fi_pingpong over shared memory: messages; its usec/xfer is half a round trip."""
    port = free_port()
    words = ["fi_pingpong", "-p", "shm", "-e", "rdm", "-S", str(size), "-I",
             str(rounds_of(size, LATENCY_BYTES, 50, 5000))]
    output = pair([*words, "-B", str(port)], [*words, "-P", str(port), "localhost"], port)
    for line in output.splitlines():
        fields = line.split()
        if len(fields) == 8 and fields[0][0].isdigit() and fabric_size(fields[0]) == size:
            return {("send_lat", size): fabric_number(fields[6])}
    raise Failed("fi_pingpong: " + output[-500:])


# --- the machine itself ---

def limit(program, sizes):
    """@program: the build of limit.c"""
    first, second = cores()
    done = subprocess.run([program, str(first), str(second), *map(str, sizes)], text=True, capture_output=True,
                          timeout=LIMIT_SECONDS, check=False)
    if done.returncode:
        raise Failed("%s: %s" % (program, done.stderr))
    values = {}
    for line in done.stdout.splitlines():
        operation, size, value = line.split()
        values[(operation, int(size))] = float(value)
    return values


def present(program):
    return shutil.which(program) is not None
