# SPDX-License-Identifier: MIT
"""
Tests that look at what programs say: functions that are marked as cases, each of which is passed a
scratch and fails by check(). main() runs them all.
"""
import re
import subprocess
import sys

import pair

CASES = []


def case(function):
    CASES.append(function)
    return function


class Failed(Exception):
    pass


def check(condition, *what):
    if not condition:
        raise Failed(" ".join(str(w) for w in what))


def run(scratch, command, status=0, env=None):
    """@env: instead of one that has the library in it"""
    settings, words = pair.split_command(command)
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=100, check=False, cwd=scratch.path,
                          env=env or scratch.environment(settings), **scratch.identity())
    check(done.returncode == status, command, "exited", done.returncode, done.stdout, done.stderr)
    return done


def info(scratch, devices, name):
    """The "key: value" lines of ibv_devinfo -v, by key."""
    out = run(scratch, "%sibv_devinfo -v -d %s" % (devices, name)).stdout
    return {key.strip(): value.strip()
            for key, value in re.findall(r"^([^:\n]+):[ \t]+(.*)$", out, re.MULTILINE)}


def expect(found, wanted):
    for key, value in wanted.items():
        check(found.get(key) == str(value), key, "is", repr(found.get(key)), "not", repr(value))


def pair_passes(scratch, server, client):
    verdict = pair.run_pair(scratch, server, client)
    check(verdict.passed, "%s // %s: %s\n%s" % (server, client, verdict.reason, verdict.tails))


def passes(scratch, function):
    name = function.__name__.replace("_", " ")
    try:
        function(scratch)
    except Failed as failed:
        print("FAIL %s: %s" % (name, failed), flush=True)
        return False
    print("PASS", name, flush=True)
    return True


def main(description, add_arguments=None, prepare=None):
    """@prepare: is passed arguments and scratch, before the cases"""
    p = pair.parser(description)
    p.add_argument("--user", help="run as this user")
    if add_arguments:
        add_arguments(p)
    args = p.parse_args()
    pair.require_programs()
    if args.user:
        pair.require_root()
    with pair.Scratch(args.library, args.user, args.preload) as scratch:
        if prepare:
            prepare(args, scratch)
        bad = [c for c in CASES if not passes(scratch, c)]
    sys.exit(1 if bad else 0)
