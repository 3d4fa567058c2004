#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compare the checked-in symbol table with the installed libibverbs,
and with the library that was built.

usage: symbols.py TABLE LIBANYVERBS
Exit status: 0 alike, 1 not, 77 no libibverbs of rdma-core 44 or newer to compare with.
"""
import re
import subprocess
import sys


def exported(path):
    """{(name, node)}; node is "-" for a symbol without a version."""
    out = subprocess.run(["nm", "-D", "--defined-only", path], capture_output=True, text=True,
                         check=True).stdout
    symbols = set()
    for line in out.splitlines():
        kind, symbol = line.split()[-2:]
        if kind not in "TWi":
            continue
        name, _, node = symbol.replace("@@", "@").partition("@")
        symbols.add((name, node or "-"))
    return symbols


def table(path):
    rows = {}
    for line in open(path, encoding="utf-8"):
        if line.startswith("#") or not line.strip():
            continue
        name, node, who, *reason = line.split(maxsplit=3)
        if who not in ("ours", "system") or (who == "system" and not reason):
            sys.exit(f"{path}: bad row: {line}")
        rows[(name, node)] = who
    return rows


def find_system_library():
    out = subprocess.run(["ldconfig", "-p"], capture_output=True, text=True).stdout
    found = re.search(r"libibverbs\.so\.1 .*=> (\S+)", out)
    return found.group(1) if found else None


def main():
    rows, ours = table(sys.argv[1]), exported(sys.argv[2])
    system = find_system_library()
    if not system:
        print("no libibverbs.so.1 installed")
        return 77
    public = {s for s in exported(system) if re.fullmatch(r"IBVERBS_1\.\d+", s[1])}
    if ("ibv_query_qp_data_in_order", "IBVERBS_1.14") not in public:
        print(f"{system} is older than rdma-core 44")
        return 77
    faults = [f"{n}@{v}: in the installed library, not in the table" for n, v in public - set(rows)]
    nodes = {node for _, node in public}  # it cannot have later ones yet, and ours never
    for (name, node), who in rows.items():
        if node in nodes and (name, node) not in public:
            faults.append(f"{name}@{node}: in the table, not in the installed library")
        if (who == "ours") != ((name, node) in ours):
            faults.append(f"{name}@{node}: the table says {who}, the built library says otherwise")
    for name, node in ours:
        known = node == "-" or node.startswith("IBVERBS_1.") or (name, node) in rows
        if not known or name.startswith("av_"):
            faults.append(f"{name}@{node}: exported by us and not in the table")
    print("\n".join(sorted(faults)))
    ours = sum(w == "ours" for w in rows.values())
    print(f"{len(rows)} symbols, {ours} ours, {len(faults)} faults")
    return 1 if faults else 0


sys.exit(main())
