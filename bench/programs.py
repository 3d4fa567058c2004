# SPDX-License-Identifier: MIT
"""
The programs that are compared: how a pair of them is started, one process per core, and what its
output means. Every measurement returns {(operation, size): value}; latencies are microseconds one
way (a round trip for READ and atomics, which have no other), bandwidths 10^9 bytes/s, rates 10^6
messages/s.

Nothing is judged here; figures.py knows what is compared with what.
"""
import atexit
import functools
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections import namedtuple

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "tests", "clients"))
from host import newer_cmtime                 # pylint: disable=wrong-import-position
from pair import free_port, listening_by_tcp  # pylint: disable=wrong-import-position

# Where the other end runs, and how it reaches the server. @there: words that start it there. On two
# hosts nobody is bound to a core: each side has a thread for packets beside the program's.
Where = namedtuple("Where", "there server")
HERE_TOO = Where([], "localhost")

LIMIT_SECONDS = 120  # for one pair: only a program that hangs meets it
LATENCY_BYTES = 100 << 20    # moved in one measurement, so that each takes about as long
BANDWIDTH_BYTES = 600 << 20
RATE_COUNT = 200000
MODERATED = 32  # messages of a completion; perftest may hang if this does not divide their number
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
    while not listening_by_tcp(port):
        if server.poll() is not None or time.monotonic() > deadline:
            raise Failed("the server does not listen: " + " ".join(server.args))
        time.sleep(0.002)


def bound(words, core, where=HERE_TOO):
    return words if where.there else ["taskset", "-c", str(core), *words]


def pair(server_words, client_words, port, settings=None, where=HERE_TOO):
    """Run both; the client's output. Either's failure is a failure."""
    env = dict(os.environ, LC_ALL="C", **(settings or {}))
    first, second = cores()
    server_words = bound(server_words, first, where)
    client_words = bound([*where.there, *client_words, where.server], second, where)
    with tempfile.TemporaryFile("w+") as said:
        server = subprocess.Popen(server_words, env=env, stdin=subprocess.DEVNULL, stdout=said,
                                  stderr=subprocess.STDOUT)
        try:
            wait_for(server, port)
            client = subprocess.run(client_words, env=env,
                                    text=True, stdin=subprocess.DEVNULL, capture_output=True,
                                    timeout=LIMIT_SECONDS, check=False)
            if client.returncode:
                said_last = (client.stdout + client.stderr)[-500:]
                raise Failed("%s: %s" % (" ".join(client_words), said_last))
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


def run_alone(words, env=None):
    """A program of one process, or one that starts the other itself; what it prints."""
    try:
        done = subprocess.run(words, env=env, text=True, stdin=subprocess.DEVNULL,
                              capture_output=True, timeout=LIMIT_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as problem:
        raise Failed(str(problem)) from problem
    if done.returncode:
        raise Failed("%s: %s" % (" ".join(words), (done.stdout + done.stderr)[-500:]))
    return done.stdout


# --- Debian's perftest on a verbs device ---

def perftest_row(output):
    """The figures of the one line that begins with a size and a count of iterations."""
    for line in output.splitlines():
        words = line.split()
        if len(words) > 3 and words[0].isdigit() and words[1].isdigit():
            return [float(word) for word in words]
    raise Failed("no result in: " + output[-500:])


class Perftest:
    """On the device of that name. @settings preload the library; a kernel's device needs none."""

    def __init__(self, device, settings, bandwidth_bytes=BANDWIDTH_BYTES, rate_count=RATE_COUNT,
                 where=HERE_TOO):
        self.device = device
        self.where = where
        self.settings = settings
        self.bandwidth_bytes = bandwidth_bytes
        self.rate_count = rate_count

    def run(self, program, *options):
        port = free_port()
        words = [program, "-d", self.device, "-F", "-p", str(port), *options]
        return perftest_row(pair(words, words, port, self.settings, self.where))

    def latency(self, operation, size):
        count = rounds_of(size, LATENCY_BYTES, 50, 5000)
        size_option = [] if operation == "atomic" else ["-s", str(size)]
        row = self.run("ib_%s_lat" % operation, *size_option, "-n", str(count))
        return {("%s_lat" % operation, size): row[4],    # t_typical: the median
                ("%s99_lat" % operation, size): row[7]}

    def bandwidth(self, operation, size, queue_pairs=1):
        count = rounds_of(size * queue_pairs, self.bandwidth_bytes, 60, 20000)
        row = self.run("ib_%s_bw" % operation, "-s", str(size), "-n", str(count), "-q",
                       str(queue_pairs), "--report_gbits")
        return {("%s_bw" % operation, size): row[3] / 8}

    def rate(self, operation, size, depth, queue_pairs=1):
        count = self.rate_count // queue_pairs // MODERATED * MODERATED
        row = self.run("ib_%s_bw" % operation, "-s", str(size), "-n", str(count), "-q",
                       str(queue_pairs), "-t", str(depth), "-Q", str(MODERATED))
        return {("%s_rate" % operation, size): row[4]}


# --- connections of librdmacm ---

CONNECTIONS = 100
TRIES = 20    # half a second each
STEPS = ("create id", "resolve addr", "resolve route", "create qp", "connect")


def step_us(output, step):
    """Of one connection."""
    for line in output.splitlines():
        name, _, figures = line.partition(":")
        if name.strip() == step and figures:
            return float(figures.split()[-1])
    raise Failed("no step \"%s\" in: %s" % (step, output[-500:]))


def own_address(interface):
    """IPv4"""
    for line in run_alone(["ip", "-4", "-o", "address", "show", "dev", interface]).splitlines():
        return line.split()[3].split("/")[0]
    raise Failed("%s has no address" % interface)


def full_connect_us(output):
    """Of one connection, by cmtime since rdma-core 59. Its first table is of connections with queue
    pairs, the second of some without."""
    for line in output.splitlines():
        if line.startswith("full connect "):
            return float(line.split()[2])
    raise Failed("no step \"full connect\" in: " + output[-500:])


def controlled_connect_us(address, settings):
    """Since rdma-core 59 the server coordinates both sides, and ends."""
    port = free_port()
    words = ["cmtime", "-c", str(CONNECTIONS), "-p", str(port), "-b", address]
    return full_connect_us(pair([*words, "-L", "-C", address], [*words, "-C"], port, settings,
                                Where([], address)))


def connect_us(address, settings):
    """From nothing to a connection, of CONNECTIONS that are made together."""
    measure = controlled_connect_us if newer_cmtime() else older_connect_us
    return measure(address, settings)


def older_connect_us(address, settings):
    """The server never ends, and does not say when it listens: until then, clients are refused."""
    words = ["cmtime", "-c", str(CONNECTIONS), "-p", str(free_port())]
    env = dict(os.environ, LC_ALL="C", **settings)
    with subprocess.Popen([*words, "-b", address], env=env, stdin=subprocess.DEVNULL,
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            for _ in range(TRIES):
                time.sleep(0.5)
                output = run_alone([*words, "-s", address], env)
                if "REJECTED" not in output:
                    return sum(step_us(output, step) for step in STEPS)
        finally:
            server.kill()
    raise Failed("cmtime is refused: " + output[-500:])


# --- UCX ---

UCX_TEST = {"send_lat": "tag_lat", "write_lat": "ucp_put_lat", "read_lat": "ucp_get",
            "atomic_lat": "ucp_fadd",
            "send_bw": "tag_bw", "write_bw": "ucp_put_bw", "read_bw": "ucp_get",
            "send_rate": "tag_bw", "write_rate": "ucp_put_bw", "am_rate": "ucp_am_bw"}


def ucx_line(operation, size, test=None):
    """A line of a batch file: name, then the arguments; @test: other words for what is tested."""
    if operation.endswith("_rate"):
        count, window = RATE_COUNT, " -O 128"
    elif operation.endswith("_bw"):
        count, window = rounds_of(size, BANDWIDTH_BYTES, 60, 20000), " -O 128"
    else:
        count, window = rounds_of(size, LATENCY_BYTES, 50, 5000), ""
    return "%s:%d -t %s -s %d -n %d -w %d%s" % (operation, size, test or UCX_TEST[operation], size,
                                                count, count // 10, window)


def ucx_value(operation, fields):
    """
    Of one line of its CSV output: name, iterations, median, average and overall latency, two
    bandwidths (MiB/s), two rates.
    """
    if operation.endswith("_lat"):
        return float(fields[2])  # half the round trip of ping-pongs, otherwise the whole operation
    if operation.endswith("_rate"):
        return float(fields[8]) / 1e6
    return float(fields[6]) * (1 << 20) / 1e9


def ucx(transports, operation, size, starter=(), settings=None, test=None, where=HERE_TOO):
    """One test between two processes; @starter: words that start them."""
    port = free_port()
    with tempfile.NamedTemporaryFile("w", suffix=".ucx") as batch:
        batch.write(ucx_line(operation, size, test) + "\n")
        batch.flush()
        words = [*starter, "ucx_perftest", "-p", str(port), "-b", batch.name]
        output = pair(words, [*words, "-f", "-v"], port,
                      {"UCX_TLS": transports, "UCX_LOG_LEVEL": "error",
                       "UCX_WARN_UNUSED_ENV_VARS": "n", **(settings or {})}, where)
    for line in output.splitlines():
        fields = line.split(",")
        if len(fields) == 9 and ":" in fields[0]:
            return {(operation, size): ucx_value(operation, fields)}
    raise Failed("ucx_perftest: " + output[-500:])


def ucx_shm(operation, size):
    """Over the shared memory that UCX allocates itself."""
    return ucx("posix,cma", operation, size)


def ucx_cma(operation, size):
    """PUT into ordinary memory: the lowest layer's zero-copy put by process_vm_writev()."""
    test = {"write_lat": "put_lat", "write_bw": "put_bw"}[operation]
    return ucx("all", operation, size, test=test + " -x cma -d memory -D zcopy")


# --- libfabric ---

UNITS = {"k": 1 << 10, "m": 1 << 20}
FABRIC_BYTES = 40 * LATENCY_BYTES  # ofi_rxm connects with the first message, which takes 80 ms


def fabric_size(word):
    return int(word[:-1]) * UNITS[word[-1]] if word[-1] in UNITS else int(word)


def fabric_number(word):
    return float(word[:-1]) if word.endswith("s") else float(word)


def fabric(size, provider=("shm", "rdm"), where=HERE_TOO, settings=None):
    """fi_pingpong of messages, by a provider and a kind of endpoint; its usec/xfer is half a round
    trip."""
    port = free_port()
    words = ["fi_pingpong", "-p", provider[0], "-e", provider[1], "-S", str(size), "-I",
             str(rounds_of(size, FABRIC_BYTES, 50, 100000))]
    output = pair([*words, "-B", str(port)], [*words, "-P", str(port)], port, settings, where)
    for line in output.splitlines():
        fields = line.split()
        if len(fields) == 8 and fields[0][0].isdigit() and fabric_size(fields[0]) == size:
            return {("send_lat", size): fabric_number(fields[6])}
    raise Failed("fi_pingpong: " + output[-500:])


# --- Open MPI ---

AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
MPI_WINDOW = 64  # messages, in mpi_pair.c


@functools.cache
def mpi_pair():
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder)
    program = os.path.join(folder, "mpi_pair")
    run_alone(["mpicc", "-O2", "-o", program, os.path.join(HERE, "mpi_pair.c")])
    return program


def mpi(transports, operation, size, settings=None):
    """Two ranks with UCX's transports."""
    what = operation.split("_")[1]
    count = (rounds_of(size, LATENCY_BYTES, 50, 5000) if what == "lat" else
             rounds_of(size * MPI_WINDOW, BANDWIDTH_BYTES, 5, 300))
    words = ["mpirun", "-n", "2", "--use-hwthread-cpus", "--bind-to", "hwthread", "--oversubscribe",
             "--mca", "pml", "ucx", "--mca", "pml_ucx_tls", "any", "--mca", "pml_ucx_devices",
             "any", "-x", "UCX_TLS=" + transports]
    for name, value in (settings or {}).items():
        words += ["-x", "%s=%s" % (name, value)]
    output = run_alone([*words, mpi_pair(), what, str(size), str(count)],
                       {**os.environ, **AS_ROOT})
    value = float(output.split()[-1])
    return {(operation, size): value if what == "lat" else value / 1000}


# --- others over a device of the library's own, and over their own shared memory ---

OVER = {"UCX_NET_DEVICES": "any0:1"}
OVER_PROGRAMS = {"mpi": ["mpicc", "mpirun"], "fabric": ["fi_pingpong"]}


def missing_over(operation):
    """What of these is not installed; "": all is"""
    wanted = OVER_PROGRAMS.get(operation.split("_")[0], ["ucx_perftest"])
    return " ".join(program for program in wanted if not present(program))


def over(build, operation, size):
    settings = {"LD_PRELOAD": preloaded(build), **OVER}
    if operation.startswith("mpi_"):
        return mpi("rc_verbs,ud_verbs,self", operation, size, settings)
    if operation.startswith("fabric_"):
        value = fabric(size, ("verbs;ofi_rxm", "rdm"), settings=settings)
        return {(operation, size): value[("send_lat", size)]}
    return ucx("rc_verbs,ud_verbs", operation, size, [tool(build), "run", "--"], OVER)


def own(operation, size):
    if operation.startswith("mpi_"):
        return mpi("posix,cma,self", operation, size)
    if operation.startswith("fabric_"):
        return {(operation, size): fabric(size)[("send_lat", size)]}
    return ucx_shm(operation, size)


# --- the kinds of SEND ---

SEND_KINDS = [(kind, size) for kind in ("rq", "srq", "ud", "two_elements", "by_calls")
              for size in (8, 4096, 16384) if (kind, size) != ("ud", 16384)]


def send_kind(program_of, build, kind, size, quick):
    """By the program of one build, with the library of another."""
    env = dict(os.environ, LD_PRELOAD=preloaded(build))
    if quick:
        env["BENCH_QUICK"] = "1"
    program = os.path.join(program_of, "bench", "bench_send_kinds")
    return {("%s_lat" % kind, size): float(run_alone([program, kind, str(size)], env))}


# --- the machine itself ---

def limit(build, sizes):
    """What limit.c measures."""
    program = os.path.join(build, "bench", "limit")
    values = {}
    for line in run_alone([program, *map(str, cores()), *map(str, sizes)]).splitlines():
        operation, size, value = line.split()
        values[(operation, int(size))] = float(value)
    return values


def line_us(build):
    """
    How far apart the two cores are now, as one way of a cache line. A hypervisor may move its
    virtual cores at any moment; whatever two processes exchange is faster or slower then. A single
    core has no distance.
    """
    return limit(build, []).get(("line_lat", 8), 1.0)


def processor():
    """Its name: what was measured on one says little about another."""
    try:
        with open("/proc/cpuinfo", encoding="ascii", errors="replace") as f:
            names = [line.split(":", 1)[1].split() for line in f if line.startswith("model name")]
    except FileNotFoundError:
        names = []
    return " ".join(names[0]) if names else platform.machine()


# --- the network between two hosts ---

def udp(build, operation, size, where):
    """What udp_limit.c measures. The size of latencies is 8, that of bandwidths the packet's."""
    program = os.path.abspath(os.path.join(build, "bench", "udp_limit"))
    words = [operation.removeprefix("udp_"), where.server]
    if operation.endswith("_bw"):
        words.append(str(size))
    first, second = cores()
    server = subprocess.Popen(bound([program, "serve", where.server], first, where))
    try:
        output = run_alone(bound([*where.there, program, *words], second, where))
    finally:
        server.kill()
        server.wait()
    return {(operation, size): float(output)}


# --- what a build has ---

def library(build):
    """Before the folders of the sources were renamed, it was in another one."""
    for folder in ("verbs", "front"):
        path = os.path.abspath(os.path.join(build, "src", folder, "libanyverbs.so.1"))
        if os.path.exists(path):
            return path
    raise Failed("no library in " + build)


def tool(build):
    return os.path.abspath(os.path.join(build, "bin", "anyverbs"))


@functools.cache
def preloaded(build):
    """What `anyverbs run` preloads: the library, and the heap, without which memory is private."""
    return run_alone([tool(build), "run", "--", "printenv", "LD_PRELOAD"]).strip()


def our_perftest(build, **options):
    return Perftest("any0", {"LD_PRELOAD": preloaded(build)}, **options)


def present(program):
    return shutil.which(program) is not None
