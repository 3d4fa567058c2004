# SPDX-License-Identifier: MIT
"""ordinary.py TOOL: a hundred ordinary commands with and without the library. Each of ordinary.txt
runs in a folder of its own: as it is, under "anyverbs run", whose shared heap does not begin since
no device is opened, and under "anyverbs run --shared-heap". Output, exit status and the files
left must be the same, and the shared folder empty."""
import os
import shutil
import subprocess
import sys
import tempfile

LEAST = 100  # commands


def run(command, before, scratch):
    """Return: exit status, output, messages, files; as values to compare."""
    shutil.rmtree(scratch, ignore_errors=True)
    os.mkdir(scratch)
    done = subprocess.run(before + ["bash", "-c", command], cwd=scratch, stdin=subprocess.DEVNULL,
                          capture_output=True, timeout=100, check=False)
    files = sorted(os.path.relpath(os.path.join(folder, name), scratch)
                   for folder, _, names in os.walk(scratch) for name in names
                   if "/.git/" not in folder + "/")
    return {"status": done.returncode, "output": done.stdout, "messages": done.stderr,
            "files": files}


def main():
    tool = os.path.abspath(sys.argv[1])
    table = os.path.join(os.path.dirname(os.path.abspath(__file__)), "ordinary.txt")
    with open(table, encoding="ascii") as f:
        commands = [line.strip("\n") for line in f if line.strip() and line[0] != "#"]
    failed = compared = 0
    with tempfile.TemporaryDirectory() as folder:
        shared, scratch = os.path.join(folder, "shared"), os.path.join(folder, "scratch")
        os.mkdir(shared)
        os.environ.update(ANYVERBS_DIR=shared, LC_ALL="C", HOME=folder)
        for command in commands:
            want = run(command, [], scratch)
            if want["status"] == 127:
                print("not found here: %s" % command)
                continue
            compared += 1
            for options in ([], ["--shared-heap"]):
                got = run(command, [tool, "run"] + options + ["--"], scratch)
                for what in want:
                    if got[what] != want[what]:
                        print("%s under \"anyverbs run %s\": %s\n    is    %.500s\n    not   %.500s"
                              % (command, " ".join(options), what, got[what], want[what]))
                        failed += 1
        left = os.listdir(shared)
    print("%d commands, %d differences, %d files left" % (compared, failed, len(left)))
    return failed > 0 or left != [] or compared < LEAST


sys.exit(main())
