# SPDX-License-Identifier: MIT
"""
One server and one client, two unmodified programs of the distribution, each a
process of its own with the library preloaded; and the judgement of what they
printed. Knows nothing of where commands come from.

    with Scratch(library, user="nobody") as scratch:
        verdict = run_pair(scratch, "ibv_rc_pingpong -g 0", "ibv_rc_pingpong -g 0")
"""
import argparse
import contextlib
import glob
import os
import pwd
import random
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

from families import BY_JOINING, JOINED, MANAGER, TCP, family

SKIPPED = 77         # what ctest counts as skipped
POLL_SECONDS = 0.005
FOLLOW_SECONDS = 40  # for one side to end after the other has
TAIL_LINES = 25
FILE_BYTES = 16 << 20
HEAP = "anyverbs/anyverbs-heap.so" # beside the library
PROGRAMS = ("ibv_devices ibv_devinfo ibv_rc_pingpong ibv_srq_pingpong "
            "ib_write_bw ib_write_lat ib_read_bw ib_read_lat "
            "ib_send_bw ib_send_lat ib_atomic_bw ib_atomic_lat").split()

LISTEN = "0A"
ROCE_PORT = ":12B7"

TOO_EARLY = "RDMA_CM_EVENT_REJECTED; error: 8"    # nobody listens
TRIES = 3

# Programs leave them behind, and another user cannot open them.
XRC_FILES = ("/tmp/xrc_domain", "/tmp/xrc_domain_server", "/tmp/xrc_domain_client")


def skip(reason):
    print("SKIPPED:", reason)
    sys.exit(SKIPPED)


def table_lines(path):
    """Of a table, without comments and what is empty."""
    with open(path, encoding="utf-8") as f:
        for line in f:
            if line.strip() and not line.startswith("#"):
                yield line.rstrip("\n")


def parser(description, **how):
    """Of the arguments that every test of clients takes: what is preloaded into them."""
    p = argparse.ArgumentParser(description=description, **how)
    p.add_argument("--library", required=True)
    p.add_argument("--preload", action="append", default=[],
                   help="preloaded before it, such as a sanitizer's library")
    return p


def require_programs():
    missing = [p for p in PROGRAMS if not shutil.which(p)]
    if missing:
        skip("not installed (packages ibverbs-utils, perftest): " + " ".join(missing))


def require_root():
    if os.geteuid() != 0:
        skip("only root can become another user; the tests without that user run as %s already" %
             pwd.getpwuid(os.geteuid()).pw_name)


def identity_of(user):
    """Arguments of Popen() that make the child this user, with no group or capability left over."""
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []} if user else {}


APART = os.path.join(os.path.dirname(os.path.abspath(__file__)), "apart.py")


class OneHost:
    """Both sides are on this host; veth.py has two."""

    server_address = client_address = "127.0.0.1"
    server_address6 = "::1"
    own_folders = False

    def command(self, _name, words, user):
        """Return: the words, and the arguments of Popen(), that run it on that side's host, as
        @user"""
        return words, identity_of(user)


class Apart(OneHost):
    """Neither side may access the other's memory."""

    def command(self, _name, words, user):
        return [sys.executable, "-B", APART, *words], identity_of(user)


class Scratch:
    """
    A folder for one test: the library, the device's own folder and the logs. Both are private:
    other tests, other builds and the user's own programs do not meet here. The library is a copy,
    because an unprivileged user need not be able to reach the build folder.
    """

    def __init__(self, library, user=None, also_preload=(), hosts=None):
        self.user = pwd.getpwnam(user) if user else None
        self.hosts = hosts or OneHost()
        if not os.path.isfile(library):
            sys.exit("no library " + library)
        self.path = tempfile.mkdtemp(prefix="anyverbs-client-")
        self.library = self.copy(library, "libanyverbs.so.1")
        heap = self.copy(os.path.join(os.path.dirname(library), HEAP), "anyverbs-heap.so")
        self.preload = " ".join([*also_preload, self.library, *([heap] if heap else [])])
        if self.user:
            self.give_away(self.path)
        self.devices = self.private_folder("devices")
        self.clients_devices = (self.private_folder("clients_devices") if self.hosts.own_folders
                                else self.devices)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.path, ignore_errors=True)

    def copy(self, file, name):
        """Return: the copy; None: there is no such file (sanitized builds have no heap)"""
        if not os.path.isfile(file):
            return None
        path = shutil.copy(file, os.path.join(self.path, name))
        os.chmod(path, 0o755)
        return path

    def give_away(self, path):
        os.chown(path, self.user.pw_uid, self.user.pw_gid)

    def private_folder(self, name):
        path = os.path.join(self.path, name)
        os.mkdir(path, 0o700)
        if self.user:
            self.give_away(path)
        return path

    def identity(self):
        """Arguments of Popen() that make the child this scratch's user."""
        return identity_of(self.user)

    def file(self, name, size=FILE_BYTES):
        """A sparse file of zeros."""
        path = os.path.join(self.path, name)
        with open(path, "wb") as f:
            f.truncate(size)
        if self.user:
            self.give_away(path)
        return path

    def random_file(self, name, size=FILE_BYTES - 1):
        path = self.file(name)
        with open(path, "wb") as f:
            f.write(random.Random(1).randbytes(size))
        return path

    def environment(self, settings=None):
        env = dict(os.environ, LD_PRELOAD=self.preload, ANYVERBS_DIR=self.devices, LC_ALL="C")
        env.pop("ANYVERBS_DEVICES", None)
        settings = dict(settings or {})
        if "LD_PRELOAD" in settings:  # of a row: behind ours
            settings["LD_PRELOAD"] = self.preload + " " + settings["LD_PRELOAD"]
        env.update(settings)
        return env


def split_command(text):
    """"A=1 prog -x" -> ({"A": "1"}, ["prog", "-x"])"""
    words = shlex.split(text)
    settings = {}
    while "=" in words[0]:
        name, value = words.pop(0).split("=", 1)
        settings[name] = value
    return settings, words


class Side:
    """
    One running process and its logs. Standard error has its own: it says why a program gave up, and
    standard output, which the C library writes late, would push it out of what is shown.
    """

    def __init__(self, scratch, name, settings, words):
        self.name = name
        self.stopped = False
        if name == "client":
            settings = dict(settings, ANYVERBS_DIR=scratch.clients_devices)
        words, identity = scratch.hosts.command(name, words, scratch.user)
        self.logs = [os.path.join(scratch.path, name + end) for end in (".out", ".err")]
        with open(self.logs[0], "wb") as out, open(self.logs[1], "wb") as err:
            self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                                            env=scratch.environment(settings), cwd=scratch.path,
                                            start_new_session=True, **identity)

    def texts(self):
        for log in self.logs:
            with open(log, encoding="utf-8", errors="replace") as f:
                yield f.read()

    def output(self):
        return "\n".join(self.texts())

    def code(self):
        return self.process.poll()

    def wait_until(self, deadline):
        """True if it has ended."""
        try:
            self.process.wait(max(0, deadline - time.monotonic()))
            return True
        except subprocess.TimeoutExpired:
            return False

    def end(self):
        if self.code() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def stop(self):
        self.stopped = True
        self.end()

    def ending(self):
        code = self.code()
        if code is None:
            return "%s still running" % self.name
        if code < 0:
            return "%s killed by %s" % (self.name, signal.Signals(-code).name)
        return "%s exited %d" % (self.name, code)

    def tail(self):
        lines = [line for text in self.texts() for line in text.splitlines()[-TAIL_LINES:]]
        return "\n".join("    %s| %s" % (self.name, line) for line in lines)


class Verdict:
    """What became of a pair.
    @clean: nobody crashed and nobody had to be stopped, whatever the result."""

    def __init__(self, passed, clean, reason, seconds, tails):
        self.passed = passed
        self.clean = clean
        self.reason = reason
        self.seconds = seconds
        self.tails = tails


def free_port():
    """A port outside the range the kernel hands out by itself,
    so that nobody gets it before the server binds it."""
    start = 20000 + (os.getpid() * 37 + time.monotonic_ns() // 1000) % 10000
    for port in range(start, start + 2000):
        with socket.socket() as s:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                s.bind(("", port))
                return port
            except OSError:
                continue
    raise RuntimeError("no free TCP port")


def listening_by_tcp(port):
    suffix = ":%04X" % port
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            with open(table, encoding="ascii") as f:
                rows = [line.split() for line in f]
        except FileNotFoundError:
            continue
        if any(row[1].endswith(suffix) and row[3] == LISTEN for row in rows[1:]):
            return True
    return False


def listening_by_manager(server):
    """Does it have a socket of RoCEv2, or says that others have it? Who connects by librdmacm has
    asked for none before it listens."""
    if "UDP port 4791 of" in server.output():
        return True
    own = set()
    for fd in glob.glob("/proc/%d/fd/*" % server.process.pid):
        with contextlib.suppress(OSError):
            own.add(os.readlink(fd))
    for table in ("/proc/net/udp", "/proc/net/udp6"):
        with contextlib.suppress(FileNotFoundError), open(table, encoding="ascii") as f:
            rows = [line.split() for line in f]
            if any(row[1].endswith(ROCE_PORT) and "socket:[%s]" % row[9] in own
                   for row in rows[1:]):
                return True
    return False


def wait_until_ready(server, ready, deadline):
    """@ready: does it listen?
    Return: None when it does, otherwise what happened instead."""
    while not ready():
        if server.code() is not None:
            return "%s before it listened" % server.ending()
        if time.monotonic() > deadline:
            return "the server did not listen within the time limit"
        time.sleep(POLL_SECONDS)
    return None


def wait_for_listener(server, words, port, deadline):
    """As wait_until_ready(), in the way in which that program listens."""
    ready = {TCP: lambda: listening_by_tcp(port),
             MANAGER: lambda: listening_by_manager(server),
             BY_JOINING: lambda: JOINED.search(server.output())}
    return wait_until_ready(server, ready[family(words).listens(words)], deadline)


def judge(words, sides):
    """None if all is well."""
    outputs = {side.name: side.output() for side in sides}
    if not all(side.stopped or family(words).ended_well(side.code(), outputs[side.name])
               for side in sides):
        return ", ".join(side.ending() for side in sides)
    return family(words).judge(words, outputs)


def wait_for_both(server, client, deadline):
    """None when both have ended; when one has, the other is not worth the whole time limit."""
    while server.code() is None and client.code() is None:
        if time.monotonic() > deadline:
            return "time limit: both still running"
        time.sleep(POLL_SECONDS)
    deadline = min(deadline, time.monotonic() + FOLLOW_SECONDS)
    if all([server.wait_until(deadline), client.wait_until(deadline)]):
        return None
    return "%s, %s" % (server.ending(), client.ending())


def wait_for_client(server, client, deadline):
    """As wait_for_both(); the server is stopped then, if it goes on."""
    if not client.wait_until(deadline):
        return "time limit: %s, %s" % (server.ending(), client.ending())
    if server.code() is None:
        server.stop()
    return None


def run_sides(scratch, server_text, client_text, sides, limit):
    """Start both and wait; @sides is filled as they start.
    Return: None, or what went wrong with their running."""
    port = free_port()
    deadline = time.monotonic() + limit
    settings, words = split_command(server_text)
    sides.append(Side(scratch, "server", settings, family(words).words(words, port, None)))
    problem = wait_for_listener(sides[0], words, port, deadline)
    if problem:
        return problem
    settings, words = split_command(client_text)
    sides.append(Side(scratch, "client", settings,
                      family(words).words(words, port, scratch.hosts.server_address)))
    if family(words).endless:
        return wait_for_client(*sides, deadline)
    return wait_for_both(*sides, deadline)


def was_too_early(sides):
    """With perftest's -R, both sides agree to connect, and then the server begins to listen."""
    return len(sides) == 2 and TOO_EARLY in sides[1].output()


def run_pair(scratch, server_text, client_text, limit=120):
    for _ in range(TRIES):
        sides = []
        verdict = run_once(scratch, server_text, client_text, sides, limit)
        if verdict.passed or not was_too_early(sides):
            break
    return verdict


def run_once(scratch, server_text, client_text, sides, limit):
    """@sides: filled with both."""
    start = time.monotonic()
    try:
        problem = run_sides(scratch, server_text, client_text, sides, limit)
        clean = all(side.stopped or side.code() is not None and side.code() >= 0
                    for side in sides)
    finally:
        for side in sides:
            side.end()
        for name in XRC_FILES:
            with contextlib.suppress(OSError):
                os.unlink(name)
    if problem is None:
        problem = judge(split_command(client_text)[1], sides)
    return Verdict(problem is None, clean, problem or "", time.monotonic() - start,
                   "\n".join(side.tail() for side in sides))
