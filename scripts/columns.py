#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""columns.py [--report] FILE...: lines of more than 100 columns, a tab being 8; fails if there are
any. With --report it says how many each file has, and succeeds.

Looks at C, shell, Python, CMake, make and Markdown; other files are passed over. A line may be
longer where nothing can break it (an address of the web, a row of a Markdown table) and where
clang-format is switched off, which is for tables.
"""
import os
import re
import sys

COLUMNS = 100
KINDS = (".c", ".h", ".sh", ".py", ".cmake", ".md")
NAMES = ("CMakeLists.txt", "Makefile", "run")


def looked_at(path):
    return path.endswith(KINDS) or os.path.basename(path) in NAMES


def long_lines(path):
    table = False
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            line = line.rstrip("\n").expandtabs(8)
            if re.search(r"clang-format (off|on) \*/", line):
                table = "clang-format off" in line
            exempt = table or "://" in line or (path.endswith(".md") and line.startswith("|"))
            if len(line) > COLUMNS and not exempt:
                yield number, len(line)


def main(arguments):
    report = arguments[:1] == ["--report"]
    total = 0
    for path in filter(looked_at, arguments[1:] if report else arguments):
        found = list(long_lines(path))
        total += len(found)
        if report and found:
            print(f"{path}: {len(found)} lines of more than {COLUMNS} columns")
        elif not report:
            for number, length in found:
                print(f"{path}:{number}: {length} columns")
    return 1 if total and not report else 0


sys.exit(main(sys.argv[1:]))
