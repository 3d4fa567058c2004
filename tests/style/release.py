#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""
release.py SOURCE: what else than the code is released says the same everywhere, and can be read.

The version is that of CMakeLists.txt, the oldest CMake is that of CMakeLists.txt, there is one
address of the project, and files of JSON, YAML, Python and RPM are well-formed.
Exit status: 0 all is well, 1 not, 77 python3-yaml is missing.
"""
import ast
import json
import pathlib
import re
import shutil
import subprocess
import sys

try:
    import yaml
except ImportError:
    print("python3-yaml is not installed")
    sys.exit(77)

ADDRESS = "https://github.com/anyverbs/anyverbs"
# Each says the version as its only group.
VERSIONS = [
    ("CMakeLists.txt", r"^project\(anyverbs VERSION ([0-9.]+) "),
    ("CHANGELOG.md", r"\A# Changes\n(?:(?!^## ).*\n)*^## ([0-9.]+)$"),
    ("README.md", r"uses: anyverbs/anyverbs@v([0-9.]+)"),
    ("debian/changelog", r"\Aanyverbs \(([0-9.]+)\)"),
    ("docs/guide/anyverbs.yml", r"uses: anyverbs/anyverbs@v([0-9.]+)$"),
    ("docs/guide/github-actions.md", r"uses: anyverbs/anyverbs@v([0-9.]+)$"),
    ("packaging/anyverbs.spec", r"^Version: +([0-9.]+)$"),
    ("packaging/anyverbs.spec", r"--prefix=anyverbs-([0-9.]+)/"),
    ("packaging/spack/packages/anyverbs/package.py", r'version\("([0-9.]+)", tag="v\1"\)'),
]
OLDEST_CMAKE = [
    ("CMakeLists.txt", r"^cmake_minimum_required\(VERSION ([0-9.]+)\)"),
    ("README.md", r"CMake and headers \(([0-9.]+),"),
    ("debian/control", r"cmake \(>= ([0-9.]+)\)"),
    ("packaging/anyverbs.spec", r"cmake >= ([0-9.]+)"),
    ("packaging/spack/packages/anyverbs/package.py", r'depends_on\("cmake@([0-9.]+):'),
]
YAML = ["action.yml", ".github/workflows/*.yml", "docs/guide/*.yml", "packaging/spack/repo.yaml"]
JSON = ["CMakePresets.json", ".devcontainer/devcontainer.json"]


def agree(source, places):
    found = {}
    for path, pattern in places:
        text = (source / path).read_text(encoding="utf-8")
        for value in re.findall(pattern, text, re.MULTILINE) or ["nothing"]:
            found.setdefault(value, []).append(path)
    if len(found) > 1:
        yield "they do not agree: %s" % found


def one_address(source):
    for path in ["README.md", "packaging/anyverbs.spec",
                 "packaging/spack/packages/anyverbs/package.py"]:
        text = (source / path).read_text(encoding="utf-8")
        for found in re.findall(r"https://github\.com/[\w-]+/[\w-]+", text) or ["nothing"]:
            if found != ADDRESS:
                yield "%s: %s is not %s" % (path, found, ADDRESS)


def unreadable(source, patterns, parse):
    for pattern in patterns:
        paths = sorted(source.glob(pattern))
        if not paths:
            yield "no %s" % pattern
        for path in paths:
            try:
                parse(path.read_text(encoding="utf-8"))
            except (ValueError, SyntaxError, yaml.YAMLError) as error:
                yield "%s: %s" % (path, error)


def spec(source):
    if not shutil.which("rpmspec"):
        return
    done = subprocess.run(["rpmspec", "--parse", source / "packaging/anyverbs.spec"],
                          stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        yield done.stderr


def main():
    source = pathlib.Path(sys.argv[1])
    complaints = [*agree(source, VERSIONS), *agree(source, OLDEST_CMAKE), *one_address(source),
                  *unreadable(source, YAML, yaml.safe_load), *unreadable(source, JSON, json.loads),
                  *unreadable(source, ["packaging/spack/packages/*/package.py"], ast.parse),
                  *spec(source)]
    print("\n".join(complaints))
    sys.exit(1 if complaints else 0)


if __name__ == "__main__":
    main()
