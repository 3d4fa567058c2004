#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""A test waits for a condition, not for time (docs/WRITING_TESTS.md).

    naps.py FOLDER-OF-TESTS

Fails for a file that sleeps and has no row in FOLDER-OF-TESTS/naps.txt, and for a row whose file
does not sleep. A shell's loop of one line that sleeps between two looks at its condition is none,
nor is a program that is to last, 100 seconds or more, until somebody ends it.
"""
import pathlib
import re
import sys

LASTS = r"(?!\d{3})"
C = re.compile(r"\b(?:usleep|nanosleep|clock_nanosleep|sleep)\(|\bpoll\(NULL")
KINDS = {
    ".c": C,
    ".h": C,
    ".cc": C,
    ".py": re.compile(rf"\btime\.sleep\({LASTS}|\bsleep {LASTS}[\d.]"),
    ".sh": re.compile(rf"\btime\.sleep\({LASTS}|^(?!.*\b(?:until|while)\b).*\bsleep {LASTS}[\d.$]"),
}


def sleeps(path):
    return any(KINDS[path.suffix].search(line)
               for line in path.read_text(encoding="utf-8").splitlines())


def allowed(table):
    """The files of the rows "FILE | REASON"."""
    rows = [line.split("|") for line in table.read_text(encoding="utf-8").splitlines()
            if line and not line.startswith("#")]
    for row in rows:
        if len(row) != 2 or not row[1].strip():
            sys.exit(f"{table.name}: no reason: {'|'.join(row)}")
    return {row[0].strip() for row in rows}


def main():
    tests = pathlib.Path(sys.argv[1])
    files = {str(path.relative_to(tests)) for path in tests.rglob("*")
             if path.suffix in KINDS and path.name != "naps.py" and sleeps(path)}
    rows = allowed(tests / "naps.txt")
    for name in sorted(files - rows):
        print(f"{name}: sleeps; wait for a condition, or say why not in naps.txt")
    for name in sorted(rows - files):
        print(f"naps.txt: {name} does not sleep")
    return files != rows


if __name__ == "__main__":
    sys.exit(main())
