# SPDX-License-Identifier: MIT
"""Ordinary commands under "anyverbs run", without the heap, with it from the first device on, and
from the beginning. Output, exit status and the files left must be the same.

  ordinary.py TOOL: commands that open no device (ordinary.txt), as without the library, too. The
    shared folder stays empty.
  ordinary.py TOOL USER: commands that open one (opened.txt).

What is not installed (exit status 127), or not possible here (77), is left out."""
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile

LEAST = 190  # commands that open no device

# A client may come before its server listens.
BOTH = r'''
client() {
	bash -c "$1" >.client 2>&1
	came=$?
	[ $came = 0 ] || ! kill -0 $server 2>/dev/null
}
both() {
	command -v ${1%% *} >/dev/null || exit 127
	bash -c "exec $1" >.server 2>&1 &
	server=$!
	wait_for client "$2"
	wait $server && [ $came = 0 ]
	done=$?
	sed -E -e 's/(QPN|PSN|RECV|SEND|SRQN) (0x)?[0-9a-f]+/\1 N/g; s/0x[0-9a-f]*/N/g' \
		-e 's/-?[0-9][0-9a-f.:]*/N/g; s/ +/ /g' \
		-e '/onflicting CPU|DISCONNECT|RDMA_READ_ADV/d' .server .client # by chance
	rm .server .client
	return $done
}
'''
LIMIT = 100  # seconds


def run(command, before, scratch):
    """Return: exit status, output, messages, files; as values to compare."""
    shutil.rmtree(scratch, ignore_errors=True)
    os.mkdir(scratch)
    with subprocess.Popen(before + ["bash", "-c", command], cwd=scratch, start_new_session=True,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE) as done:
        try:
            output, messages = done.communicate(timeout=LIMIT)
        except subprocess.TimeoutExpired:
            os.killpg(done.pid, signal.SIGKILL)
            output, messages = done.communicate()
    files = sorted(os.path.relpath(os.path.join(folder, name), scratch)
                   for folder, _, names in os.walk(scratch) for name in names
                   if "/.git/" not in folder + "/")
    return {"status": done.returncode, "output": output, "messages": messages, "files": files}


def table(name):
    here = os.path.dirname(os.path.abspath(__file__))
    with open(os.path.join(here, name), encoding="ascii") as f:
        return [line.strip("\n") for line in f if line.strip() and line[0] != "#"]


def differences(command, prelude, ways, scratch):
    """Return: their number; None: it cannot be run here."""
    want = run(prelude + command, ways[0], scratch)
    if want["status"] in (77, 127):
        print("not possible here: %s" % command)
        return None
    failed = 0
    if prelude and want["status"] != 0:
        print("%s: %s" % (command, want))
        failed = 1
    for way in ways[1:]:
        got = run(prelude + command, way, scratch)
        for what in want:
            if got[what] != want[what]:
                print("%s under \"anyverbs %s\": %s\n    is    %.500s\n    not   %.500s"
                      % (command, " ".join(way[1:-1]), what, got[what], want[what]))
                failed += 1
    return failed


def main():
    tool = os.path.abspath(sys.argv[1])
    ways = [[tool, "run", "--shared-heap=" + when, "--"] for when in ("never", "open", "always")]
    if len(sys.argv) == 2:
        commands, prelude, least = table("ordinary.txt"), "", LEAST
        ways.insert(0, [])
    else:
        commands, least = table("opened.txt"), 1
        prelude = ". %s\nuser=%s%s" % (
            shlex.quote(os.path.abspath(os.path.dirname(__file__)) + "/../lib/wait.sh"),
            shlex.quote(os.path.abspath(sys.argv[2])), BOTH)
    with tempfile.TemporaryDirectory() as folder:
        shared, scratch = os.path.join(folder, "shared"), os.path.join(folder, "scratch")
        os.mkdir(shared)
        os.environ.update(ANYVERBS_DIR=shared, LC_ALL="C", HOME=folder)
        found = [differences(command, prelude, ways, scratch) for command in commands]
        compared = [number for number in found if number is not None]
        left = os.listdir(shared) if len(sys.argv) == 2 else []
    print("%d commands, %d left out, %d differences, %d files left"
          % (len(compared), len(found) - len(compared), sum(compared), len(left)))
    return sum(compared) > 0 or left != [] or len(compared) < least


if __name__ == "__main__":
    sys.exit(main())
