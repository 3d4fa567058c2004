#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""
The examples of a page are run. Usage:

  examples.py --bin FOLDER [--include FOLDER] [--library FOLDER] [--tree FOLDER] [--must] PAGE

PAGE is a manual page in mdoc (literal displays) or Markdown (fenced blocks). In such a block

  - a line that begins with "$ " is a command of bash, continued by lines while it ends with a
    backslash, or until END after <<'END'. It must exit with 0, or with what a comment at its end
    says ("# exit 1"). "# needs PROGRAM..." leaves the rest of its block out where one of these is
    not installed, "# if COMMAND" where that fails. "# not run: WHY" leaves the command out. All
    other lines are what it printed.
  - "&" at the end puts it into the background. If a later command of the block names localhost,
    that waits until something listens that did not before; at the end of the block what is in the
    background must end by itself, with 0, or by the block's own "kill".
  - a block whose first line begins with "#include" and that has a main() is a C program: compiled,
    linked with libanyverbs and libibverbs, and run; it must exit with 0. "/* exit 1 */" on its last
    line: with that.

All blocks of a page run in one folder of their own, in which "examples" and "docs" are those of the
source tree, below a folder of shared files of their own, in a network namespace of their own if
that is permitted, so that ports do not collide.
Exit status: 0, 1: a command failed, 77: nothing could be run.
--must: a page without examples is a failure.
"""

import argparse
import fcntl
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile

BLOCK_SECONDS = 240
TO_THE_END = 86  # the exit status of a block of which all was run

RUNTIME = r"""
set -u
listeners() {
	cat /proc/net/tcp /proc/net/tcp6 2>/dev/null | awk '$4 == "0A" { print $2 "/" $10 }' | sort
}
background=()
# A socket that was not in $before.
await_listener() {
	for ((i_ = 0; i_ < 1200; i_++)); do
		[ -z "$(comm -13 <(echo "$before") <(listeners))" ] || break
		sleep 0.05
	done
}
# status WANTED GOT LINE COMMAND
status() {
	[ "$1" = "$2" ] && return
	echo "line $3: exit status $2, not $1: $4" >&2
	exit 1
}
finish_background() {
	for job_ in "${background[@]}"; do
		wait "$job_"
		got=$?
		[ "$got" = 0 ] || [ "$got" = 143 ] || [ "$got" = 130 ] ||
			status 0 "$got" end "what was in the background"
	done
}
"""


def unmdoc(line):
    """A line of a literal display, as mandoc shows it."""
    line = re.sub(r"^\\&", "", line)
    for escape, char in (("\\e", "\\"), ("\\(aq", "'"), ("\\(dq", '"'), ("\\(ti", "~"),
                         ("\\(ha", "^"), ("\\-", "-"), ("\\&", "")):
        line = line.replace(escape, char)
    return line


def blocks(path):
    """Literal blocks: lists of (line number, text)."""
    markdown = path.endswith(".md")
    inside = None
    with open(path, encoding="utf-8") as page:
        for number, line in enumerate(page, 1):
            line = line.rstrip("\n")
            if inside is None:
                if line.startswith("```") if markdown else re.match(r"\.Bd .*-literal", line):
                    inside = []
            elif (markdown and line.startswith("```")) or (not markdown and line == ".Ed"):
                yield inside
                inside = None
            else:
                inside.append((number, line if markdown else unmdoc(line)))


def commands(block):
    """(line number, command) of the block; continued lines and here-documents are joined."""
    joined, start, end = None, 0, None
    for number, line in block:
        if joined is None and line.startswith("$ "):
            joined, start = line[2:], number
            here = re.search(r"<<'(\w+)'", joined)
            end = here[1] if here else None
        elif joined is not None:
            joined += "\n" + line
        if joined is not None and (line == end if end else not joined.endswith("\\")):
            yield start, joined
            joined = None


def comment(command, word):
    """What stands behind "# WORD " at the end of a line of the command; None: no such comment."""
    for line in command.split("\n"):
        for part in re.split(r"\s#\s", line)[1:]:
            if part.startswith(word + " "):
                return part[len(word):].strip()
    return None


def possible(number, command):
    """Is there what the command, and what comes behind it, needs?"""
    missing = [p for p in (comment(command, "needs") or "").split() if not shutil.which(p)]
    condition = comment(command, "if")
    if condition and subprocess.run(["sh", "-c", condition], stdout=subprocess.DEVNULL,
                                    stderr=subprocess.DEVNULL, check=False).returncode:
        missing.append("success of " + condition)
    if missing:
        print(f"line {number}: left out from here: no {' '.join(missing)}")
    return not missing


def script(block):
    """The block as a script; None if it has nothing to run here."""
    lines, count = [RUNTIME], 0
    rows = list(commands(block))
    for at, (number, command) in enumerate(rows):
        if not possible(number, command):
            break
        if re.search(r"\s# not run: ", command):
            print(f"line {number}: left out: {command}")
            continue
        wanted = comment(command, "exit") or "0"
        bare = re.sub(r"\s+#[^'\"]*$", "", command)
        count += 1
        lines.append(f"echo {shlex.quote('$ ' + command)}")
        if bare.endswith("&") and not bare.endswith("&&"):
            lines += ["before=$(listeners)", bare, "background+=($!)"]
            if any("localhost" in later for _, later in rows[at + 1:]):
                lines.append("await_listener")
            continue
        lines += [command, f"status {wanted} $? {number} {shlex.quote(command)}"]
    lines += ["finish_background", f"exit {TO_THE_END}"]
    return "\n".join(lines) + "\n" if count else None


def run(argv, env, folder):
    """Run it with all it starts. Return: exit status."""
    with subprocess.Popen(argv, env=env, cwd=folder, start_new_session=True,
                          stdin=subprocess.DEVNULL) as child:
        try:
            return child.wait(BLOCK_SECONDS)
        except subprocess.TimeoutExpired:
            print(f"not done after {BLOCK_SECONDS} seconds", file=sys.stderr)
            return 1
        finally:
            try:
                os.killpg(child.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass


def is_program(block):
    return (bool(block) and block[0][1].startswith("#include")
            and any("main(" in line for _, line in block))


def run_program(block, args, env, folder):
    source = os.path.join(folder, f"line{block[0][0]}.c")
    with open(source, "w", encoding="utf-8") as file:
        file.write("\n".join(line for _, line in block) + "\n")
    wanted = re.search(r"/\* exit (\d+) \*/$", block[-1][1])
    program = source[:-2]
    build = [args.cc, "-std=gnu17", "-Wall", "-Wextra", "-Werror", "-O1", "-I" + args.include,
             source, "-o", program, "-L" + args.library, "-Wl,-rpath," + args.library,
             "-Wl,--allow-shlib-undefined", "-lanyverbs", "-libverbs"]
    if subprocess.run(build + args.cflags.split(), check=False).returncode:
        return 1
    print(f"# the program at line {block[0][0]}", flush=True)
    got = run(["anyverbs", "run", "--", program], env, folder)
    if got != int(wanted.group(1) if wanted else 0):
        print(f"line {block[0][0]}: the program exits with {got}", file=sys.stderr)
        return 1
    return 0


def own_network():
    """
    Enter a network namespace with a loopback interface, as whoever we are. Where that is not
    permitted, wait until no other page is run: all of them use the programs' usual ports.
    """
    up = "command -v ip >/dev/null && ip link set lo up"
    if os.environ.get("EXAMPLES_NETWORK"):
        return
    for kinds in "-n", "-rn":  # the first is not permitted to root of a container
        if not subprocess.run(["unshare", kinds, "sh", "-c", up], stderr=subprocess.DEVNULL,
                              check=False).returncode:
            os.environ["EXAMPLES_NETWORK"] = "own"
            os.execvp("unshare", ["unshare", kinds, "sh", "-c", 'ip link set lo up; exec "$@"',
                                  "sh", sys.executable] + sys.argv)
    fcntl.flock(os.open(os.path.abspath(__file__), os.O_RDONLY | os.O_CLOEXEC), fcntl.LOCK_EX)


def environment(args, folder):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("ANYVERBS_", "MLX_"))
           and k not in ("LD_PRELOAD", "XDG_CONFIG_HOME")}
    shared = tempfile.mkdtemp(prefix="anyverbs-test-",
                              dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None)
    env.update(PATH=args.bin + ":" + env.get("PATH", "/usr/bin:/bin"), ANYVERBS_DIR=shared,
               HOME=folder, LC_ALL="C", TERM="dumb")
    for part in ("examples", "docs") if args.tree else ():
        os.symlink(os.path.join(args.tree, part), os.path.join(folder, part))
    return env


def main():
    parse = argparse.ArgumentParser()
    for option in ("--bin", "--include", "--library", "--tree"):
        parse.add_argument(option, default="",
                           type=lambda text: os.path.abspath(text) if text else "")
    parse.add_argument("--cc", default="cc")
    parse.add_argument("--cflags", default="")
    parse.add_argument("--must", action="store_true")
    parse.add_argument("page")
    args = parse.parse_args()
    args.page = os.path.abspath(args.page)
    own_network()

    ran = failed = found = 0
    with tempfile.TemporaryDirectory(prefix="examples-") as folder:
        env = environment(args, folder)
        for block in blocks(args.page):
            program = is_program(block)
            found += program or any(line.startswith("$ ") for _, line in block)
            text = None if program else script(block)
            sys.stdout.flush()
            if program:
                failed += run_program(block, args, env, folder)
            elif text:
                failed += run(["setpriv", "--pdeathsig", "KILL", "bash", "-c", text], env,
                              folder) != TO_THE_END
            ran += program or text is not None
        shutil.rmtree(env["ANYVERBS_DIR"], ignore_errors=True)
    print(f"{os.path.basename(args.page)}: {ran} blocks, {failed} failed")
    if failed or (args.must and not found):
        return 1
    return 0 if ran else 77


if __name__ == "__main__":
    sys.exit(main())
