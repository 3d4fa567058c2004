#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""columns.py FILE...: lines of more than 100 columns, a tab being 8; fails if there are any.

Looks at C, shell, Python, CMake, make and Markdown; other files are passed over. A line may be
longer where nothing can break it: an address of the web, and in Markdown a row of a table or of an
indented block, which shows what a program printed. So it may where clang-format is switched off,
which is for tables.
"""
import os
import re
import sys

COLUMNS = 100
KINDS = (".c", ".cc", ".h", ".map", ".sh", ".bash", ".py", ".cmake", ".md")
NAMES = ("CMakeLists.txt", "Makefile", "rules", "run", "_anyverbs")


def looked_at(path):
    return path.endswith(KINDS) or os.path.basename(path) in NAMES


def long_lines(path):
    table = False
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            line = line.rstrip("\n").expandtabs(8)
            if re.search(r"clang-format (off|on) \*/", line):
                table = "clang-format off" in line
            shown = path.endswith(".md") and line.startswith(("|", "    "))
            exempt = table or shown or "://" in line
            if len(line) > COLUMNS and not exempt:
                yield number, len(line)


def main(paths):
    failed = False
    for path in filter(looked_at, paths):
        for number, length in long_lines(path):
            print(f"{path}:{number}: {length} columns")
            failed = True
    return 1 if failed else 0


sys.exit(main(sys.argv[1:]))
