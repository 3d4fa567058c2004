#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Check what linking does not see of the layout: who includes whom, and what files are called.

    check-layers.py           src/, tools/, bench/ and include/
    check-layers.py --tests   tests/

- A file includes headers of its own room (folder of src/) and of those below it in ROOMS.
- A module is NAME.c and NAME.h.
  Inside a room, no more than three of them include each other, directly or by way of others.
- A file includes nothing that a header of its own room includes for it.
- No two .c files have the same name, and no functions of two modules of src/: a debugger, a
  profile and a search show the name alone.
- A header of ours has "#pragma once"; a public one a guard that says where the header is.
- No identifier of src/ has a word that the field has another one for (WORDS).

One line per violation; exit status 1 if there is any.
"""

import argparse
import collections
import pathlib
import re
import sys

# From top to bottom. Rooms of one line do not know each other.
ROOMS = [
    ["host"],
    ["exp", "heap"],
    ["verbs"],
    ["cm"],
    ["transport"],
    ["queue"],
    ["memory"],
    ["net"],
    ["device"],
    ["segment"],
    ["registry"],
    ["observe"],
    ["wire"],
    ["copy"],
    ["base"],
]
# These use no room above the given one.
HIGHEST = {"host": "cm", "tools": "transport"}
LARGEST_CYCLE = 3

# Folders of headers that no program includes.
PRIVATE = ["src", "tools", "bench"]

# Words of before, and the field's.
WORDS = {"astray": "misrouted", "recall": "revoke", "linger": "deferred", "lingering": "deferred",
         "park": "wait", "parked": "waiting", "handout": "fd_pass", "assist": "coop",
         "overdue": "due", "hush": "stop", "drive": "progress", "inlet": "producer",
         "stage": "bounce", "patient": "timed_out", "patience": "timeout",
         "watched": "observed or tracked", "watching": "tracking", "unwatch": "end"}

RANK = {room: rank for rank, line in enumerate(ROOMS) for room in line}
# A definition: at column 0, its brace in a line of its own.
FUNCTION = re.compile(r"^(?!#|typedef)[A-Za-z_][\w \t*]*?[\s*](\w+)\([^{};]*\)[^{};()]*\n\{$", re.M)
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.M)
ANY_INCLUDE = re.compile(r'^#include [<"]([^>"]+)[>"]', re.M)


def may_use(user, room):
    """May files of @user include headers of @room?"""
    if user == room:
        return True
    if user in HIGHEST and RANK[room] < RANK[HIGHEST[user]]:
        return False
    return user not in RANK or RANK[user] < RANK[room]


def sources(folder):
    return sorted(p for p in folder.rglob("*.[ch]") if p.is_file())


def includes_of(path):
    return INCLUDE.findall(path.read_text(encoding="utf-8"))


def check_room(root, path, user):
    """What one file includes that is not its room's or below.
    The tools' own headers have no room."""
    for header in includes_of(path):
        room = header.split("/")[0]
        if user == "tools" and (path.parent / header).is_file():
            continue
        if room not in RANK or not (root / "src" / header).is_file():
            yield f"{path.relative_to(root)}: there is no header {header}"
        elif not may_use(user, room):
            yield f"{path.relative_to(root)}: {user} does not use {room}: {header}"


def check_layers(root):
    for folder in sorted(p for p in (root / "src").iterdir() if p.is_dir()):
        if folder.name not in RANK:
            yield f"src/{folder.name}: not a room of the layout"
            continue
        for path in sources(folder):
            yield from check_room(root, path, folder.name)
    for path in sources(root / "tools"):
        yield from check_room(root, path, "tools")


def brought(root, header):
    """What a header of src/ includes, directly or by way of others."""
    found, todo = set(), [header]
    while todo:
        path = root / "src" / todo.pop()
        if path.is_file():
            new = set(ANY_INCLUDE.findall(path.read_text(encoding="utf-8"))) - found
            todo += new
            found |= new
    return found


def check_includes(root):
    """The header of the file's own name may be included all the same."""
    for path in sources(root / "src"):
        name = path.relative_to(root / "src")
        wanted = set(ANY_INCLUDE.findall(path.read_text(encoding="utf-8")))
        for header in sorted(wanted):
            if header.split("/")[0] != name.parts[0]:
                continue
            for other in sorted(brought(root, header) & wanted - {str(name.with_suffix(".h"))}):
                yield f"src/{name}: {header} includes {other}"


def modules(folder):
    """Which modules of a room include which: {"room/name": {"room/other", ...}}."""
    graph = collections.defaultdict(set)
    for path in sources(folder):
        name = f"{folder.name}/{path.stem}"
        for header in includes_of(path):
            other = header.removesuffix(".h")
            if other.startswith(folder.name + "/") and other != name:
                graph[name].add(other)
    return graph


def reachable(graph, start):
    """The modules that @start leads to, each with the one it was first reached from."""
    came_from = {}
    todo = collections.deque([start])
    while todo:
        name = todo.popleft()
        for other in sorted(graph.get(name, ())):
            if other not in came_from:
                came_from[other] = name
                todo.append(other)
    return came_from


def circle(came_from, start):
    """A shortest way from @start back to it."""
    way = [start]
    while len(way) == 1 or way[-1] != start:
        way.append(came_from[way[-1]])
    return " -> ".join(name.split("/")[1] for name in reversed(way))


def check_cycles(root):
    for folder in sorted(p for p in (root / "src").iterdir() if p.is_dir()):
        graph = modules(folder)
        reach = {name: reachable(graph, name) for name in graph}
        seen = set()
        for name in sorted(graph):
            ring = {other for other in reach[name] if name in reach.get(other, ())}
            if len(ring) > LARGEST_CYCLE and not ring & seen:
                ways = [circle(reach[member], member) for member in sorted(ring)]
                yield (f"src/{folder.name}: {len(ring)} modules include each other: "
                       f"{', '.join(sorted(m.split('/')[1] for m in ring))}; "
                       f"for instance {max(ways, key=len)}")
            seen |= ring


def check_names(root, folders):
    places = collections.defaultdict(list)
    for folder in folders:
        for path in sorted((root / folder).rglob("*.c")):
            places[path.name].append(str(path.relative_to(root)))
    for name, paths in sorted(places.items()):
        if len(paths) > 1:
            yield f"{name}: one name for several files: {', '.join(paths)}"


def check_function_names(root):
    """Functions of src/ by their names. Two variants in one module, under #if, are one."""
    places = collections.defaultdict(set)
    for path in sources(root / "src"):
        text = re.sub(r"__attribute__\(\(.*?\)\)\s*", "", path.read_text(encoding="utf-8"))
        for name in FUNCTION.findall(text):
            places[name].add(str(path.relative_to(root).with_suffix("")))
    for name, paths in sorted(places.items()):
        if len(paths) > 1:
            yield f"{name}(): one name for several functions: {', '.join(sorted(paths))}"


def check_words(root):
    for path in sources(root / "src"):
        text = re.sub(r'/\*.*?\*/|"(?:\\.|[^"\\\n])*"', "", path.read_text(encoding="utf-8"),
                      flags=re.S)
        for name in sorted(set(re.findall(r"[A-Za-z_]\w*", text))):
            for word in name.lower().split("_"):
                if word in WORDS:
                    yield f"{path.relative_to(root)}: {name}: say {WORDS[word]}, not {word}"


def check_guards(root):
    for folder in [*PRIVATE, "include"]:
        for path in sorted((root / folder).rglob("*.h")):
            guard = re.sub(r"[/.-]", "_", str(path.relative_to(root / folder))).upper()
            once = "#pragma once" if folder in PRIVATE else f"#ifndef {guard}\n#define {guard}"
            if not re.search(f"^{once}$", path.read_text(encoding="utf-8"), re.M):
                yield f"{path.relative_to(root)}: there is no {once.splitlines()[0]}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tests", action="store_true", help="look at tests/ instead")
    parser.add_argument("--root", type=pathlib.Path, metavar="FOLDER",
                        default=pathlib.Path(__file__).resolve().parent.parent,
                        help="the repository; by default the one that this script is in")
    args = parser.parse_args()
    if args.tests:
        found = list(check_names(args.root, ["tests"]))
    else:
        found = [*check_layers(args.root), *check_cycles(args.root),
                 *check_includes(args.root),
                 *check_names(args.root, ["src", "tools", "bench"]),
                 *check_function_names(args.root), *check_guards(args.root),
                 *check_words(args.root)]
    for line in found:
        print(line)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
