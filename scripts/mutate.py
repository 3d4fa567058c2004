#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Change one operator or constant of the sources at a time, and see whether a test notices.

    mutate.py --list --sources src/queue/ring.c     what would be changed
    mutate.py --sample 20 --seed 1                  20 mutants of each folder
    mutate.py --sources src/memory --tests 'unit.memory|exp.test_odp'
    mutate.py --sources src/queue/ring.c:13         does a new test kill them?

A mutant is killed if a test fails or hangs, and survives if all pass. One that does not compile
does not count. mutate-equal.txt, beside this script, has those that behave like the original; they
count as equal. All is built in a copy of the tree, with the changes that are not committed.
"""

import argparse
import collections
import concurrent.futures
import dataclasses
import errno
import functools
import json
import os
import pathlib
import queue
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
EQUAL = pathlib.Path(__file__).resolve().with_name("mutate-equal.txt")
FOLDERS = ["src/memory", "src/queue", "src/wire", "src/exp"]

# Which tests judge a folder; the module's unit tests if it is not named here.
TESTS = {"exp": r"^exp\.test_"}

TOKEN = re.compile(r"""
    (?P<skip> \s+ | //[^\n]* | /\*.*?\*/ | ^[ \t]*\#(?:\\\n|[^\n])* )
  | (?P<text> "(?:\\.|[^"\\])*" | '(?:\\.|[^'\\])*' )
  | (?P<number> \.?[0-9](?:[eEpP][+-]|[\w.])* )
  | (?P<name> [A-Za-z_]\w* )
  | (?P<sign> <<=|>>=|\.\.\.|->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|. )
""", re.X | re.S | re.M)

SWAPPED = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "&&": "||",
           "||": "&&", "<<": ">>", ">>": "<<", "+": "-", "-": "+", "true": "false",
           "false": "true"}
CONSTANT = {"static_assert", "_Static_assert", "sizeof"}
NO_TYPES = {"return", "case", "else", "do", "goto", "sizeof"}
ERRORS = set(errno.errorcode.values())
ADD_TEST = re.compile(r'^add_test\(\[=*\[(.*?)\]=*\] "([^"]*)"', re.M)  # as CMake writes it
INTEGER = re.compile(r"(0[xX][0-9a-fA-F]+|[0-9]+)([uUlL]*)$")


@dataclasses.dataclass(frozen=True)
class Mutant:
    """The characters from @start to @end of @path become @new."""
    path: str
    line: int
    start: int
    end: int
    new: str
    before: str  # the whole line
    after: str

    def __str__(self):
        return f"{self.path}:{self.line}:\n- {self.before}\n+ {self.after}"


@dataclasses.dataclass(frozen=True)
class Test:
    name: str
    command: tuple
    environment: tuple
    folder: str
    limit: float = 300.0


def tokens(text):
    """What is left without space, comments and the preprocessor's lines: [(kind, text, start)]."""
    return [(t.lastgroup, t.group(), t.start()) for t in TOKEN.finditer(text)
            if t.lastgroup != "skip"]


def is_declared(toks, bracket):
    """Is what stands before this [ a name that is declared there?"""
    at = bracket - 2
    while at >= 0 and toks[at][1] == "*":
        at -= 1
    kind, word, _ = toks[at]
    return at >= 0 and kind == "name" and word not in NO_TYPES


def untouched(toks):
    """The indices of tokens inside of static assertions, sizeof() and declared arrays' sizes."""
    inside, until, depth = set(), None, 0
    for i, (_, word, _) in enumerate(toks):
        again = word == "[" and i - 1 in inside and toks[i - 1][1] == "]"
        if until is None and word in CONSTANT and toks[i + 1][1] == "(":
            until, depth = ")", 0
        elif until is None and word == "[" and (again or is_declared(toks, i)):
            until, depth = "]", 0
        if until is None:
            continue
        inside.add(i)
        depth += (word in "([") - (word in ")]")
        if depth == 0 and word == until:
            until = None
    return inside


def larger(number):
    """The literal of the next integer, or None for what is none."""
    match = INTEGER.match(number)
    if not match:
        return None
    digits, suffix = match.groups()
    if digits[:2] in ("0x", "0X"):
        return hex(int(digits, 16) + 1) + suffix
    octal = digits.startswith("0") and digits != "0"
    return (f"0{int(digits, 8) + 1:o}" if octal else str(int(digits) + 1)) + suffix


def changes(toks, i):
    """What becomes of token @i: [(how many tokens are replaced, by what)]."""
    kind, word, _ = toks[i]
    before, previous, _ = toks[i - 1] if i else ("", "", 0)
    after = toks[i + 1][1] if i + 1 < len(toks) else ""
    operand = previous in (")", "]") or before == "number" or \
        before == "name" and previous not in NO_TYPES
    if kind == "number":
        new = larger(word)
        return [(1, new)] if new else []
    if word in ERRORS:
        return [(1, "ENOMEM" if word == "EINVAL" else "EINVAL")]
    if word == "!":  # in (void)!f(), the result is of no interest
        return [(1, "")] if previous != ")" else []
    if word not in SWAPPED or word in "+-" and not operand:
        return []
    dropped = [(2, "")] if word in "+-" and re.match("1[uUlL]*$", after) else []
    return [(1, SWAPPED[word]), *dropped]


def mutants(path, text):
    """All mutants of a file."""
    toks = tokens(text)
    kept = untouched(toks)
    for i in range(len(toks)):
        for count, new in changes(toks, i) if i not in kept else ():
            start, (_, last, last_at) = toks[i][2], toks[i + count - 1]
            end = last_at + len(last)
            if not new and text[start - 1] == " " and text[end:end + 1] in tuple(" ;),]"):
                start -= 1
            left, right = text.rfind("\n", 0, start) + 1, text.find("\n", end)
            yield Mutant(path, text.count("\n", 0, start) + 1, start, end, new,
                         text[left:right].strip(), (text[left:start] + new + text[end:right])
                         .strip())


def equal_rows():
    """The changes that make no difference: {(file, line, changed line)}.
    A row is "FILE: REASON", on one line or more, then "- LINE" and "+ CHANGED"."""
    rows, path, old = set(), None, None
    for line in EQUAL.read_text(encoding="utf-8").splitlines():
        if line.startswith("- "):
            old = line[2:]
        elif line.startswith("+ "):
            rows.add((path, old, line[2:]))
        elif re.match(r"\S+\.c: ", line):
            path = line.split(":")[0]
    return rows


@functools.cache
def own_shm():
    """What gives a command a /dev/shm of its own, where a failure leaves no files, if allowed."""
    prefix = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs shm /dev/shm && exec "$0" "$@"']
    try:
        done = subprocess.run([*prefix, "true"], stderr=subprocess.DEVNULL, check=False)
    except FileNotFoundError:
        return []
    return prefix if done.returncode == 0 else []


class Tree:
    """A copy of the repository, and its build. With @shared modules a mutant costs one object and
    one library, and no test is linked again. Only unit tests can do with them."""

    def __init__(self, folder, shared=True):
        self.folder = folder
        self.build = folder / "build" / "dev"
        listed = subprocess.run(["git", "ls-files", "-zco", "--exclude-standard"], cwd=ROOT,
                                check=True, stdout=subprocess.PIPE, text=True).stdout
        for name in filter(None, listed.split("\0")):
            source, copy = ROOT / name, folder / name
            if source.is_file() and not (copy.is_file() and
                                         copy.read_bytes() == source.read_bytes()):
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(source, copy)
        self.configure(shared)

    def configure(self, shared):
        # Without optimisation that takes time, and without debug information. Warnings are no
        # reason for a mutant not to compile.
        self.shared = shared
        switch = "ON" if shared else "OFF"
        done = subprocess.run(["cmake", "--preset", "dev", "-DAV_WERROR=OFF",
                               "-DCMAKE_C_FLAGS_RELWITHDEBINFO=-O1",
                               f"-DAV_MODULES={'SHARED' if shared else 'STATIC'}",
                               f"-DCMAKE_LINK_DEPENDS_NO_SHARED={switch}",
                               f"-DCMAKE_SKIP_INSTALL_RULES={switch}"], cwd=self.folder,
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                              check=False)
        if done.returncode:
            sys.exit(done.stderr)

    def tests(self, pattern):
        """The tests of this name, built, which are programs of the build alone."""
        found = [row for file in self.build.rglob("CTestTestfile.cmake")
                 for row in ADD_TEST.findall(file.read_text())
                 if re.search(pattern, row[0]) and self.builds(row[1])]
        programs = {program for _, program in found}
        if self.shared and not all(name.startswith("unit.") for name, _ in found):
            self.configure(shared=False)
        if not self.make(*(os.path.relpath(program, self.build) for program in programs)):
            return
        shown = subprocess.run(["ctest", "--show-only=json-v1", "-R", pattern], cwd=self.build,
                               check=True, stdout=subprocess.PIPE, text=True).stdout
        for test in json.loads(shown)["tests"]:
            program, *arguments = test.get("command", [""])
            properties = {p["name"]: p["value"] for p in test["properties"]}
            if self.builds(program):
                yield Test(test["name"], (os.path.relpath(program, self.build), *arguments),
                           tuple(properties.get("ENVIRONMENT", [])),
                           os.path.relpath(properties["WORKING_DIRECTORY"], self.build))

    def builds(self, program):
        return pathlib.Path(program).is_relative_to(self.build)

    def make(self, *targets):
        done = subprocess.run(["cmake", "--build", self.build, "-j1", "--target", *targets],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        return done.returncode == 0

    def run(self, test):
        """The test's exit status, or None if it hangs. Its processes are gone afterwards."""
        environment = os.environ | dict(row.split("=", 1) for row in test.environment)
        with subprocess.Popen([*own_shm(), self.build / test.command[0], *test.command[1:]],
                              cwd=self.build / test.folder, env=environment,
                              stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL, start_new_session=True) as process:
            try:
                status = process.wait(test.limit)
            except subprocess.TimeoutExpired:
                status = None
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        return status

    def judge(self, mutant, tests):
        """"killed" and by which test, "survived", or "does not compile"."""
        path = self.folder / mutant.path
        original = path.read_text(encoding="utf-8")
        path.write_text(original[:mutant.start] + mutant.new + original[mutant.end:],
                        encoding="utf-8")
        try:
            if self.shared and not self.make(*{test.command[0] for test in tests}):
                return "does not compile", ""
            for test in tests:
                if not self.shared and not self.make(test.command[0]):
                    return "does not compile", ""
                status = self.run(test)
                if status not in (0, 77):
                    return "killed", test.name + (" (hangs)" if status is None else "")
            return "survived", ""
        finally:
            path.write_text(original, encoding="utf-8")


def measured(tree, pattern):
    """The tests that pass on the unchanged sources, quick ones first, with their time limits."""
    found = list(tree.tests(pattern))
    if not found:
        sys.exit(f"mutate.py: the tests {pattern} are not there, or do not build")
    passed = []
    for test in found:
        begin = time.monotonic()
        status = tree.run(test)
        seconds = time.monotonic() - begin
        if status == 0:
            passed.append((seconds, dataclasses.replace(test, limit=10 + 10 * seconds)))
        elif status != 77:
            print(f"left out, since it fails without a change: {test.name}", file=sys.stderr)
    if not passed:
        sys.exit(f"mutate.py: none of the tests {pattern} passes")
    return [test for _, test in sorted(passed, key=lambda row: row[0])]


def nearest_first(path, tests):
    """Those first that are called like the file."""
    words = set(pathlib.Path(path).stem.split("_")) - {"exp"}
    return sorted(tests, key=lambda test: -len(words & set(re.split(r"[._]", test.name))))


def folder_of(path):
    return str(pathlib.Path(path).parent)


def chosen(args):
    """The mutants that are asked for."""
    files = []
    for name in args.sources:
        name, _, line = str(name).partition(":")
        path = ROOT / name
        files += [(p, line) for p in (sorted(path.glob("*.c")) if path.is_dir() else [path])]
    by_folder = collections.defaultdict(list)
    for path, line in files:
        name = str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else str(path)
        by_folder[folder_of(name)] += [m for m in mutants(name, path.read_text(encoding="utf-8"))
                                       if line in ("", str(m.line))]
    pick = random.Random(args.seed)
    result = []
    for found in by_folder.values():
        size = min(args.sample or len(found), len(found))
        result += [found[i] for i in sorted(pick.sample(range(len(found)), size))]
    return result


def judged(args, work, todo):
    """Each mutant with what became of it, as it becomes known."""
    first = Tree(work / "0")
    patterns = {folder: args.tests or TESTS.get(pathlib.Path(folder).name,
                                                rf"^unit\.{pathlib.Path(folder).name}\.")
                for folder in {folder_of(m.path) for m in todo}}
    known = {pattern: measured(first, pattern) for pattern in set(patterns.values())}
    trees = queue.SimpleQueue()
    trees.put(first)
    for number in range(1, args.jobs):
        trees.put(Tree(work / str(number), first.shared))

    def judge(mutant):
        tree = trees.get()
        try:
            tests = nearest_first(mutant.path, known[patterns[folder_of(mutant.path)]])
            return mutant, *tree.judge(mutant, tests)
        finally:
            trees.put(tree)

    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        for done in concurrent.futures.as_completed([pool.submit(judge, m) for m in todo]):
            yield done.result()


def show_table(counts):
    kinds = ["killed", "survived", "equal", "does not compile"]
    print(f"\n{'':12} {' '.join(f'{kind:>16}' for kind in kinds)}")
    for folder in sorted(counts):
        print(f"{folder:12} {' '.join(f'{counts[folder][kind]:16}' for kind in kinds)}")


def options():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sources", nargs="+", default=FOLDERS, metavar="PATH[:LINE]",
                        help=f"folders, files and lines; by default {', '.join(FOLDERS)}")
    parser.add_argument("--tests", metavar="REGEX", help="names of ctest; by default the module's"
                        " unit tests, and exp.test_* for src/exp")
    parser.add_argument("--sample", type=int, metavar="N", help="no more of each folder")
    parser.add_argument("--seed", type=int, default=1, help="chooses the sample (1)")
    parser.add_argument("--jobs", type=int, default=1, help="copies of the tree at a time (1)")
    parser.add_argument("--work", type=pathlib.Path, metavar="FOLDER",
                        help="where the copies are, which stay there to be used again")
    parser.add_argument("--list", action="store_true", help="only show the mutants")
    parser.add_argument("--strict", action="store_true", help="exit with 1 if any survives")
    return parser.parse_args()


def main():
    args = options()
    todo = chosen(args)
    equal = equal_rows()
    if args.list:
        print(*todo, sep="\n")
        whole = args.sources == FOLDERS and not args.sample
        stale = equal - {(m.path, m.before, m.after) for m in todo} if whole else ()
        for path, before, after in sorted(stale):
            print(f"{EQUAL.name}: no such change: {path}\n- {before}\n+ {after}",
                  file=sys.stderr)
        return 1 if stale else 0
    counts = collections.defaultdict(collections.Counter)
    survivors = []
    with tempfile.TemporaryDirectory(prefix="mutate.") as folder:
        for mutant, what, test in judged(args, args.work or pathlib.Path(folder), todo):
            if what == "survived" and (mutant.path, mutant.before, mutant.after) in equal:
                what = "equal"
            counts[folder_of(mutant.path)][what] += 1
            survivors += [mutant] if what == "survived" else []
            print(f"{what} {test}\n{mutant}\n", flush=True)
    print(f"{len(survivors)} survivors", *survivors, sep="\n")
    show_table(counts)
    return 1 if args.strict and survivors else 0


if __name__ == "__main__":
    sys.exit(main())
