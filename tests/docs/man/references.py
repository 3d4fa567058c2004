#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""
What pages refer to is there. Usage: references.py PAGE...

In manual pages, .Xr NAME SECTION is one of the pages given, or a row of foreign.txt beside this
file: NAME SECTION PACKAGE. If that package is installed here, with its manual, it must have the
page. In Markdown, a link to a file leads to one, and a `name` that begins with a folder of tests/
is a file there (or, of a folder of that name, in src/).
"""

import glob
import os
import re
import subprocess
import sys

faults = []
TREE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..")


def foreign():
    """{(name, section): package}"""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "foreign.txt")
    with open(path, encoding="utf-8") as table:
        rows = [line.split() for line in table if line.strip() and not line.startswith("#")]
    return {(name, section): package for name, section, package in rows}


def files_of(package, known={}):
    """Manual pages of an installed package; empty where they were left out or dpkg is not."""
    if package not in known:
        try:
            text = subprocess.run(["dpkg", "-L", package], capture_output=True, text=True,
                                  check=False).stdout
        except FileNotFoundError:
            text = ""
        known[package] = set(re.findall(r"/man/man\d[a-z]*/(.*?)(?:\.gz)?$", text, re.M))
    return known[package]


def check_foreign(where, name, section, package):
    if not package:
        faults.append(f"{where}: there is no {name}({section})")
    elif files_of(package) and f"{name}.{section}" not in files_of(package):
        faults.append(f"{where}: {package} has no {name}({section})")


def check_manual(path, own, others, used):
    with open(path, encoding="utf-8") as page:
        for number, line in enumerate(page, 1):
            for reference in re.findall(r"\bXr (\S+) (\d)", line) if line.startswith(".") else ():
                if reference not in own:
                    used.add(reference)
                    check_foreign(f"{path}:{number}", *reference, others.get(reference))


def check_markdown(path):
    with open(path, encoding="utf-8") as page:
        for number, line in enumerate(page, 1):
            for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", line):
                if target.startswith(("http:", "https:")):
                    continue
                if not os.path.exists(os.path.join(os.path.dirname(path), target)):
                    faults.append(f"{path}:{number}: there is no {target}")
            for name in re.findall(r"`([a-z]+/[\w*/-]+\.(?:c|h|sh|py|txt))`", line):
                if is_missing(name):
                    faults.append(f"{path}:{number}: there is no {name}")


def is_missing(name):
    """A file of a folder of tests/ that is not there. Names may be patterns."""
    return os.path.isdir(os.path.join(TREE, "tests", name.split("/")[0])) and not any(
        glob.glob(os.path.join(TREE, root, name)) for root in ("tests", "src"))


def main(pages):
    manual = [page for page in pages if not page.endswith(".md")]
    own = {tuple(os.path.basename(page).rsplit(".", 1)) for page in manual}
    others, used = foreign(), set()
    for page in manual:
        check_manual(page, own, others, used)
    for page in set(pages) - set(manual):
        check_markdown(page)
    faults.extend(f"foreign.txt: nothing refers to {name}({section})"
                  for name, section in sorted(set(others) - used))
    print("\n".join(faults) or f"{len(pages)} pages: all references lead somewhere")
    return 1 if faults else 0


sys.exit(main(sys.argv[1:]))
