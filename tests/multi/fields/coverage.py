#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Does fields.txt have a row for every field that a verb is passed, and a test for every row?

Usage: coverage.py VERBS_H FIELDS_TXT TEST_SOURCE...

The structures are those that a function, or a function pointer, of the header takes as an argument,
and those inside them. A row NAME.* stands for a whole structure, for one that verbs only fill in,
or that they make.
"""
import re
import sys

KINDS = {"checked", "ignored", "defaulted", "mask", "used", "out", "object", "unsupported"}
WHOLE = {"out", "object", "unsupported"}


def cleaned(text):
    text = re.sub(r"/\*.*?\*/|//[^\n]*", " ", text, flags=re.S)
    text = re.sub(r"^[ \t]*#(?:[^\n\\]|\\.)*(?:\\\n[^\n]*)*", " ", text, flags=re.M)
    return text


def body_end(text, start):
    """The index behind the brace that closes the one at @start."""
    depth = 0
    for i in range(start, len(text)):
        depth += {"{": 1, "}": -1}.get(text[i], 0)
        if depth == 0:
            return i + 1
    raise ValueError("unbalanced braces")


def declarations(body):
    """Split a structure's body at the semicolons that are not inside braces."""
    start = depth = 0
    for i, c in enumerate(body):
        depth += {"{": 1, "}": -1, "(": 1, ")": -1}.get(c, 0)
        if c == ";" and depth == 0:
            yield body[start:i].strip()
            start = i + 1


def names_of(declaration):
    """The members that a declaration without braces makes."""
    pointer = re.search(r"\(\s*\*\s*(\w+)\s*\)", declaration)
    if pointer:
        return [pointer.group(1)]
    return [re.search(r"(\w+)\s*(?:\[[^]]*\]\s*)*(?::\s*\d+)?\s*$", part).group(1)
            for part in declaration.split(",")]


def fields(body, prefix=""):
    """(field, type) of all members; those of unnamed unions count as the structure's own."""
    for declaration in declarations(body):
        if "{" not in declaration:
            inner = re.match(r"(?:const\s+)?struct\s+(\w+)\s+\w+\s*$", declaration)
            for name in names_of(declaration):
                yield prefix + name, inner.group(1) if inner else None
            continue
        start = declaration.index("{")
        end = body_end(declaration, start)
        name = declaration[end:].strip()
        yield from fields(declaration[start + 1:end - 1], prefix + name + "." if name else prefix)


def structures(text):
    found = {}
    for match in re.finditer(r"^struct\s+(\w+)\s*\{", text, flags=re.M):
        end = body_end(text, match.end() - 1)
        found[match.group(1)] = list(fields(text[match.end():end - 1]))
    return found


def arguments(text):
    """The structures that functions and function pointers take."""
    found = set()
    for match in re.finditer(r"\w\s*\)?\s*\(([^(){};]*)\)", text):
        found |= set(re.findall(r"struct\s+(\w+)", match.group(1)))
    return found


def wanted(text):
    known, todo, seen = structures(text), sorted(arguments(text)), set()
    while todo:
        name = todo.pop()
        if name in seen or name not in known:
            continue
        seen.add(name)
        todo += [inner for _, inner in known[name] if inner]
    return {name: [field for field, _ in known[name]] for name in seen}


def rows_of(path):
    rows, bad = {}, []
    with open(path, encoding="ascii") as table:
        for number, line in enumerate(table, 1):
            if not line.strip() or line.startswith("#"):
                continue
            words = line.split(None, 3)
            if len(words) < 3 or "." not in words[0] or words[1] not in KINDS or words[0] in rows:
                bad.append(f"line {number}: not a row, or one that is there: {line.strip()}")
            else:
                rows[words[0]] = (words[1], words[2])
    return rows, bad


def check_header(rows, header):
    for name, members in sorted(header.items()):
        if name + ".*" in rows:
            if rows[name + ".*"][0] not in WHOLE:
                yield f"{name}.*: only for {', '.join(sorted(WHOLE))}"
            continue
        yield from (f"{name}.{m}: no row" for m in members if f"{name}.{m}" not in rows)


def named_in(source, name):
    """As arguments of a macro: (..., STRUCTURE, FIELD..."""
    return re.search(r"\b%s,\s+%s\s*[,)]" % tuple(map(re.escape, name.split(".", 1))), source)


def check_tests(rows, sources):
    text = {path.rsplit("/", 1)[-1]: open(path, encoding="utf-8").read() for path in sources}
    for name, (_, test) in rows.items():
        if test == "-":
            continue
        test = f"test_{test}.c"
        if test not in text:
            yield f"{name}: there is no {test}"
        elif test.startswith("test_fields") and not named_in(text[test], name):
            yield f"{name}: {test} does not name it"
        elif not re.search(r"\b%s\b" % name.rsplit(".", 1)[-1], text[test]):
            yield f"{name}: {test} does not name the field"


def main():
    header_path, table, *sources = sys.argv[1:]
    with open(header_path, encoding="utf-8") as header:
        found = wanted(cleaned(header.read()))
    rows, bad = rows_of(table)
    bad += list(check_header(rows, found)) + list(check_tests(rows, sources))
    print("\n".join(bad))
    total = sum(len(members) for members in found.values())
    print(f"{len(found)} structures, {total} fields, {len(rows)} rows, {len(bad)} faults")
    return 1 if bad or total < 300 else 0


if __name__ == "__main__":
    sys.exit(main())
