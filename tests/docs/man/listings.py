#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""
The tutorial shows the program that there is, and what it prints.
Usage: listings.py TUTORIAL SOURCE EXPECTED COMMAND...

Each block of TUTORIAL that is marked "c" is found, whole lines, in SOURCE; the one marked
"expected" is EXPECTED, which is what COMMAND prints.
"""

import os
import re
import subprocess
import sys
import tempfile


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def counts_all(tool):
    """Does the library hear of memory that is unmapped? The counters of faults depend on it."""
    said = subprocess.run([tool, "doctor"], stdout=subprocess.PIPE, text=True, check=False).stdout
    return not re.search(r"^limited +Userfaultfd", said, re.M)


def without_counters(text):
    return [line for line in text.splitlines() if not line.endswith(" invalidated")]


def main(tutorial, source, expected, *command):
    text, program, wanted = read(tutorial), read(source), read(expected)
    listings = re.findall(r"^```c\n(.*?)^```$", text, re.M | re.S)
    faults = [f"not in {source}:\n{listing}" for listing in listings
              if "\n" + listing not in program]
    if len(listings) < 5:
        faults.append(f"only {len(listings)} listings")
    if re.findall(r"^```expected\n(.*?)^```$", text, re.M | re.S) != [wanted]:
        faults.append(f"the output that is shown is not {expected}")
    shm = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="anyverbs-test-", dir=shm) as shared:
        env = {k: v for k, v in os.environ.items() if not k.startswith("ANYVERBS_")}
        env["ANYVERBS_DIR"] = shared
        done = subprocess.run(command, env=env, stdout=subprocess.PIPE, text=True, timeout=120,
                              check=False)
    printed = done.stdout
    if printed != wanted and not counts_all(command[0]):
        print("left out: no userfaultfd: the counters of on-demand paging")
        printed, wanted = without_counters(printed), without_counters(wanted)
    if done.returncode or printed != wanted:
        faults.append(f"it exits with {done.returncode}, and prints\n{done.stdout}")
    print("\n".join(faults) or f"{len(listings)} listings")
    return 1 if faults else 0


sys.exit(main(*sys.argv[1:]))
