# SPDX-License-Identifier: MIT
"""
Two machines that share nothing but a cable: each has its own network, processes, host name and
/dev/shm.

    veth.enter()
    env = install(folder, tool, library)
    with Pair(("a", "b"), folder, env, as_nobody()) as both:
        job = both["a"].start(["ping", "-c", "1", "b"])
"""
import os
import pwd
import shutil
import signal
import subprocess
import time

import pair
import veth

INTERFACE = "eth0"
ADDRESSES = (("192.0.2.1/24", "fd00::1/64"), ("192.0.2.2/24", "fd00::2/64"))
SHM = "64m"    # what container engines give
NAMESPACES = "--net --uts --ipc --mount --pid --fork --mount-proc --kill-child".split()
# Users may ping, as systemd and container engines have it.
SET_UP = """
set -e
hostname %s
mount -t tmpfs -o size=%s tmpfs /dev/shm
chmod 1777 /dev/shm
mount --bind %s /etc/hosts
for last in 65534 0; do
	! echo 0 $last >/proc/sys/net/ipv4/ping_group_range || break
done 2>/dev/null
echo
exec sleep infinity
"""
POLL_SECONDS = 0.05


class Job:
    """A command that runs on a machine; its output goes to a file."""

    def __init__(self, words, env, log):
        self.log = log
        with open(log, "wb") as out:
            self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=out,
                                            stderr=subprocess.STDOUT, env=env, cwd="/",
                                            start_new_session=True)

    def wait(self, seconds):
        """Return: the exit status, None if it is still running."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def end(self):
        """A number that has been waited for may be another's by now."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def output(self):
        with open(self.log, encoding="utf-8", errors="replace") as log:
            return log.read()


class Machine:
    def __init__(self, name, folder, names, env, words=()):
        """
        @names: path of its /etc/hosts
        @words: what goes before each command of an ordinary user
        """
        self.name, self.folder, self.env, self.words = name, folder, env, list(words)
        self.jobs = []
        self.started = 0
        self.holder = subprocess.Popen(
            ["unshare", *NAMESPACES, "sh", "-c", SET_UP % (name, SHM, names)],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            preexec_fn=veth.end_with_parent)
        if not self.holder.stdout.readline():
            pair.skip("no machine of namespaces: " + self.holder.stderr.read().strip())

    def inside(self):
        """Words that go before a command of this machine."""
        ns = "/proc/%d/ns/" % self.holder.pid
        return ["nsenter", *("--%s=%s%s" % (kind, ns, file) for kind, file in (
            ("net", "net"), ("uts", "uts"), ("ipc", "ipc"), ("mount", "mnt"),
            ("pid", "pid_for_children")))]

    def administer(self, *words, text=None):
        subprocess.run([*self.inside(), *words], input=text, text=True, check=True)

    def start(self, words, root=False):
        self.started += 1
        log = os.path.join(self.folder, "%s.%d" % (self.name, self.started))
        before = [] if root else self.words
        self.jobs.append(Job([*self.inside(), *before, *words], self.env, log))
        return self.jobs[-1]

    def listeners(self):
        found = set()
        for table in ("tcp", "tcp6"):
            with open("/proc/%d/net/%s" % (self.holder.pid, table), encoding="ascii") as rows:
                found |= {row.split()[1] for row in rows if row.split()[3] == pair.LISTEN}
        return found

    def await_listener(self, job, before, seconds):
        """Wait until something listens that is not in @before, or until the job has ended."""
        deadline = time.monotonic() + seconds
        while job.wait(POLL_SECONDS) is None and time.monotonic() < deadline:
            if self.listeners() - before:
                return

    def end_jobs(self):
        for job in self.jobs:
            job.end()
        self.jobs = []

    def end(self):
        self.end_jobs()
        self.holder.kill()
        self.holder.communicate()


class Pair:
    """A dictionary of two machines, by name."""

    def __init__(self, names, folder, env, words=(), mtu=1500):
        self.names, self.folder, self.env, self.words, self.mtu = names, folder, env, words, mtu
        self.machines = {}

    def __enter__(self):
        hosts = os.path.join(self.folder, "hosts")
        with open(hosts, "w", encoding="ascii") as file:
            file.write("127.0.0.1 localhost\n")
            for name, (v4, _) in zip(self.names, ADDRESSES):
                file.write("%s %s\n" % (v4.split("/")[0], name))
        try:
            for name in self.names:
                self.machines[name] = Machine(name, self.folder, hosts, self.env, self.words)
            self.lay_cable()
        except subprocess.CalledProcessError as error:
            self.__exit__()
            pair.skip("no cable between network namespaces: %s" % error)
        return self.machines

    def __exit__(self, *_):
        for machine in self.machines.values():
            machine.end()

    def lay_cable(self):
        one, other = (str(machine.holder.pid) for machine in self.machines.values())
        subprocess.run(["ip", "link", "add", INTERFACE, "netns", one, "type", "veth",
                        "peer", "name", INTERFACE, "netns", other], check=True)
        for machine, addresses in zip(self.machines.values(), ADDRESSES):
            machine.administer("ip", "link", "set", "lo", "up")
            for address in addresses:
                machine.administer("ip", "addr", "add", address, "dev", INTERFACE,
                                   *veth.without_delay(address))
            machine.administer("ip", "link", "set", INTERFACE, "mtu", str(self.mtu), "up")


def install(folder, tool, library):
    """
    Put command and library where nobody can reach them.
    Return: the environment of a user who has just logged in.
    """
    os.chmod(folder, 0o755)
    for file, name in ((tool, "bin/anyverbs"), (library, "lib/libanyverbs.so.1"),
                       (os.path.join(os.path.dirname(library), pair.HEAP), "lib/" + pair.HEAP)):
        place = os.path.join(folder, name)
        os.makedirs(os.path.dirname(place), mode=0o755, exist_ok=True)
        if os.path.exists(file): # sanitized builds have no heap
            os.chmod(shutil.copy(file, place), 0o755)
    env = {k: v for k, v in os.environ.items()
           if not k.startswith(("ANYVERBS_", "MLX_")) and k != "LD_PRELOAD"}
    env.update(PATH=os.path.join(folder, "bin") + ":" + env.get("PATH", "/usr/bin:/bin"),
               ANYVERBS_LIBRARY=os.path.join(folder, "lib", "libanyverbs.so.1"),
               HOME="/dev/shm", LC_ALL="C")
    return env


def as_nobody():
    """Words that make a command nobody's. Only root can become another user; others keep
    themselves."""
    with open("/proc/self/uid_map", encoding="ascii") as rows:
        ours = sum(int(row.split()[2]) for row in rows)
    user = pwd.getpwnam("nobody")
    if ours <= user.pw_uid:
        return []
    return ["setpriv", "--reuid", str(user.pw_uid), "--regid", str(user.pw_gid), "--clear-groups"]
