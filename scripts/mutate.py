#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Change one operator or constant of the sources at a time, and see whether a test notices.

    mutate.py --list --sources src/queue/ring.c     what would be changed
    mutate.py --sample 20 --seed 1                  20 mutants of each folder
    mutate.py --sample 20 --tier full               what do quick tests miss that others notice?
    mutate.py --sources src/memory --tests 'unit.memory|exp.test_odp'
    mutate.py --sources src/queue/ring.c:13         does a new test kill them?

A mutant is killed if a test fails or hangs, and survives if all pass. One that does not compile
does not count. mutate-equal.txt, beside this script, has those that behave like the original; they
count as equal. All is built in a copy of the tree, with the changes that are not committed.

The judges, of which --tier names the last one: "unit", the module's own quick tests; "quick", all
others of this tier; "full", the tests that make check-all adds. A mutant meets the next judge if it
survives this one. Since their tests take long, the last two see many mutants in one program first,
and each alone only with the tests that fail there.
"""

import argparse
import collections
import concurrent.futures
import contextlib
import dataclasses
import errno
import functools
import hashlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
EQUAL = pathlib.Path(__file__).resolve().with_name("mutate-equal.txt")
FOLDERS = ["src/memory", "src/queue", "src/wire", "src/exp", "src/transport", "src/cm"]

JUDGES = ["unit", "quick", "full"]

# A folder's own tests; the module's unit tests if it is not named here.
OWN = {"exp": r"^exp\.test_"}

# They judge text, measure, or build all of it again.
NO_JUDGES = re.compile(r"(style|man|bench|install|fuzz|scale)\.")
ENOUGH = 10  # so many tests that fail say nothing of one mutant among many

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
ADD_TEST = re.compile(r'^add_test\(\[=*\[(.*?)\]=*\] (.*)\)$', re.M)  # as CMake writes it
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
    tier: str
    command: tuple
    environment: tuple
    folder: str
    seconds: float = 30.0  # without a change


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
    """A copy of the repository, and its build, in which @jobs tests run at a time."""

    def __init__(self, folder, jobs, wire):
        self.folder = folder
        self.build = folder / "build" / "dev"
        self.jobs = jobs
        self.kills = collections.Counter()  # by the tests' names
        listed = subprocess.run(["git", "ls-files", "-zco", "--exclude-standard"], cwd=ROOT,
                                check=True, stdout=subprocess.PIPE, text=True).stdout
        for name in filter(None, listed.split("\0")):
            source, copy = ROOT / name, folder / name
            if source.is_file() and not (copy.is_file() and
                                         copy.read_bytes() == source.read_bytes()):
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(source, copy)
        self.configure(wire)

    def configure(self, wire):
        # Without optimisation that takes time, and without debug information. Warnings are no
        # reason for a mutant not to compile, and a new library none to link programs again.
        done = subprocess.run(["cmake", "--preset", "dev", "-DAV_WERROR=OFF",
                               "-DCMAKE_C_FLAGS_RELWITHDEBINFO=-O1",
                               "-DCMAKE_LINK_DEPENDS_NO_SHARED=ON",
                               f"-DAV_TEST_WIRE={'ON' if wire else 'OFF'}"], cwd=self.folder,
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                              check=False)
        if done.returncode:
            sys.exit(done.stderr)

    def targets(self, pattern):
        """The programs and libraries of the build that the tests of this name run."""
        words = {word for file in self.build.rglob("CTestTestfile.cmake")
                 for name, command in ADD_TEST.findall(file.read_text())
                 if re.search(pattern, name) for word in re.findall(r'"([^"]*)"', command)}
        return sorted(os.path.relpath(word, self.build) for word in words
                      if pathlib.Path(word).is_relative_to(self.build))

    def make(self, targets):
        done = subprocess.run(["cmake", "--build", self.build, f"-j{self.jobs}", "--target",
                               *targets], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              check=False)
        return done.returncode == 0

    def tests(self, pattern):
        """The tests of this name whose programs are built."""
        shown = subprocess.run(["ctest", "--show-only=json-v1", "-R", pattern], cwd=self.build,
                               check=True, stdout=subprocess.PIPE, text=True).stdout
        for test in json.loads(shown)["tests"]:
            properties = {p["name"]: p["value"] for p in test["properties"]}
            tiers = [label for label in properties.get("LABELS", [])
                     if label in ("full", "nightly")]
            if "command" in test and not NO_JUDGES.match(test["name"]):
                yield Test(test["name"], *(tiers or ["quick"]), tuple(test["command"]),
                           tuple(properties.get("ENVIRONMENT", [])),
                           properties["WORKING_DIRECTORY"])

    def run(self, test):
        """The test's exit status, or None if it hangs. Its processes are gone afterwards."""
        environment = os.environ | dict(row.split("=", 1) for row in test.environment)
        with subprocess.Popen([*own_shm(), *test.command], cwd=test.folder, env=environment,
                              stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL, start_new_session=True) as process:
            try:
                status = process.wait(10 + 10 * test.seconds)
            except subprocess.TimeoutExpired:
                status = None
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        return status

    def fails(self, test):
        """How it fails, twice, or "": a busy machine is no reason."""
        for _ in range(2):
            status = self.run(test)
            if status in (0, 77):
                return ""
        return test.name + (" (hangs)" if status is None else "")

    def failing(self, tests, enough):
        """Those of the tests that fail, or some of them if these are enough: [(how, test)]."""
        found = []
        rows = iter(tests)
        lock = threading.Lock()

        def work():
            while len(found) < enough:
                with lock:
                    test = next(rows, None)
                if not test:
                    break
                failure = self.fails(test)
                if failure:
                    self.kills[test.name] += 1
                    found.append((failure, test))

        with concurrent.futures.ThreadPoolExecutor(self.jobs) as pool:
            for done in [pool.submit(work) for _ in range(self.jobs)]:
                done.result()
        return found

    @contextlib.contextmanager
    def changed(self, mutants_of_it):
        """The sources with these changes, until the end."""
        originals = {m.path: (self.folder / m.path).read_text(encoding="utf-8")
                     for m in mutants_of_it}
        try:
            for m in sorted(mutants_of_it, key=lambda m: -m.start):
                path = self.folder / m.path
                text = path.read_text(encoding="utf-8")
                path.write_text(text[:m.start] + m.new + text[m.end:], encoding="utf-8")
            yield
        finally:
            for path, text in originals.items():
                (self.folder / path).write_text(text, encoding="utf-8")

    def judge(self, mutant, targets, tests):
        """By which test it is killed, "" if by none, or None if it does not compile."""
        with self.changed([mutant]):
            if not self.make(targets):
                return None
            failed = self.failing(self.nearest_first(mutant.path, tests), 1)
        return failed[0][0] if failed else ""

    def suspects(self, left, tests):
        """Which tests may notice a mutant: those that fail with it and others, few of them."""
        together = apart(left)
        with self.changed(together):
            built = self.make(["all"])
            failed = [test for _, test in self.failing(tests, ENOUGH)] if built else tests
        if len(together) == 1 or len(failed) < ENOUGH:
            rest = [m for m in left if m not in together]
            return dict.fromkeys(together, failed) | (self.suspects(rest, tests) if rest else {})
        half = len(left) // 2
        return self.suspects(left[:half], tests) | self.suspects(left[half:], tests)

    def nearest_first(self, path, tests):
        """Those first that are called like the file, then those that killed most."""
        words = set(pathlib.Path(path).stem.split("_")) - {"exp"}
        return sorted(tests, key=lambda test: (-len(words & set(re.split(r"[._]", test.name))),
                                               -self.kills[test.name], test.seconds))


def apart(found):
    """All but those that change the same characters as another one."""
    kept = []
    for m in found:
        if not any(m.path == k.path and m.start < k.end and k.start < m.end for k in kept):
            kept.append(m)
    return kept


def measured(tree, tests):
    """Those that pass on the unchanged sources, with the time they take."""
    def measure(test):
        begin = time.monotonic()
        status = tree.run(test)
        if status not in (0, 77):
            print(f"left out, since it fails without a change: {test.name}", file=sys.stderr)
        return dataclasses.replace(test, seconds=time.monotonic() - begin) if status == 0 else None

    with concurrent.futures.ThreadPoolExecutor(tree.jobs) as pool:
        passed = filter(None, pool.map(measure, tests))
        return sorted(passed, key=lambda test: test.seconds)


def folder_of(path):
    return str(pathlib.Path(path).parent)


def chosen(args):
    """The mutants that are asked for. Those of a sample stay, whatever other lines become."""
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

    def lot(mutant):
        key = f"{args.seed} {mutant.path} {mutant.before} {mutant.after}"
        return hashlib.sha256(key.encode()).digest()

    result = []
    for found in by_folder.values():
        picked = set(sorted(found, key=lot)[:args.sample])
        result += [m for m in found if m in picked]
    return result


def own_tests(folder):
    name = pathlib.Path(folder).name
    return OWN.get(name, rf"^unit\.{name}\.")


def own_judge(tree, args, left):
    """What to build for each mutant, and its tests: mutant -> (targets, tests)."""
    named = not args.tier and args.tests
    pattern = {m: named or own_tests(folder_of(m.path)) for m in left}
    known = {}
    for one in sorted(set(pattern.values())):
        targets = tree.targets(one)
        if not targets or not tree.make(targets):
            sys.exit(f"mutate.py: the tests {one} are not there, or do not build")
        known[one] = targets, measured(tree, [t for t in tree.tests(one)
                                              if named or t.tier == "quick"])
    return {m: known[pattern[m]] for m in left}


def later_judge(tree, args, judge, left):
    """Likewise, with the tests of this tier."""
    tree.make(["all"])
    tests = measured(tree, [t for t in tree.tests(args.tests or ".") if t.tier == judge])
    return {m: (["all"], row) for m, row in tree.suspects(left, tests).items()}


def judged(args, work, todo, equal):
    """Each mutant with what became of it, as it becomes known: (mutant, what, test)."""
    tree = Tree(work.resolve(), args.jobs, args.tier == "full")
    left = todo
    for judge in JUDGES[:JUDGES.index(args.tier) + 1] if args.tier else ["tests"]:
        if not left:
            break
        places = own_judge(tree, args, left) if judge in ("unit", "tests") else \
            later_judge(tree, args, judge, left)
        passed = []
        for mutant in left:
            test = tree.judge(mutant, *places[mutant])
            if test is None:
                yield mutant, "does not compile", ""
            elif test:
                yield mutant, judge, test
            elif (mutant.path, mutant.before, mutant.after) in equal:
                yield mutant, "equal", ""
            else:
                passed.append(mutant)
        left = passed
    for mutant in left:
        yield mutant, "survived", ""


def show_table(counts):
    kinds = ["unit", "quick", "full", "tests", "survived", "equal", "does not compile"]
    print(f"\n{'':14} {' '.join(f'{kind:>8}' for kind in kinds)}")
    for folder in sorted(counts):
        print(f"{folder:14} {' '.join(f'{counts[folder][kind]:8}' for kind in kinds)}")


def options():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sources", nargs="+", default=FOLDERS, metavar="PATH[:LINE]",
                        help=f"folders, files and lines; by default {', '.join(FOLDERS)}")
    parser.add_argument("--tier", choices=JUDGES, help="the last judge (unit)")
    parser.add_argument("--tests", metavar="REGEX", help="names of ctest: these judge instead, or"
                        " with --tier as the judges behind the first one")
    parser.add_argument("--sample", type=int, metavar="N", help="no more of each folder")
    parser.add_argument("--seed", type=int, default=1, help="chooses the sample (1)")
    parser.add_argument("--jobs", type=int, default=1, help="tests at a time (1)")
    parser.add_argument("--work", type=pathlib.Path, metavar="FOLDER",
                        help="where the copy is, which stays there to be used again")
    parser.add_argument("--list", action="store_true", help="only show the mutants")
    parser.add_argument("--strict", action="store_true", help="exit with 1 if any survives")
    args = parser.parse_args()
    args.tier = args.tier or (None if args.tests else "unit")
    return args


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
        for mutant, what, test in judged(args, args.work or pathlib.Path(folder), todo, equal):
            counts[folder_of(mutant.path)][what] += 1
            survivors += [mutant] if what == "survived" else []
            print(f"{what} {test}\n{mutant}\n", flush=True)
    print(f"{len(survivors)} survivors", *survivors, sep="\n")
    show_table(counts)
    return 1 if args.strict and survivors else 0


if __name__ == "__main__":
    sys.exit(main())
