#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Does check-layers.py find each kind of violation, and nothing in a tree that has none?

    layers.py CHECK-LAYERS
"""

import pathlib
import subprocess
import sys
import tempfile

ONCE = "#pragma once\n"

GOOD = {
    "src/base/low.h": ONCE,
    "src/queue/one.h": ONCE,
    "src/queue/two.h": ONCE,
    "src/queue/three.h": ONCE,
    "src/verbs/top.h": ONCE,
    "src/queue/one.c": '#include "queue/one.h"\n#include "queue/two.h"\n#include "base/low.h"\n',
    "src/queue/two.c": '#include "queue/two.h"\n#include "queue/one.h"\n',
    "tools/anyverbs/own.h": ONCE,
    "tools/anyverbs/own.c": '#include "own.h"\n#include "queue/one.h"\n',
    "bench/speed.c": "",
    "include/public.h": "#ifndef PUBLIC_H\n#define PUBLIC_H\n#endif\n",
    "tests/unit/a.c": "",
    "tests/multi/b.c": "",
}

# What is changed, and the line that it is answered with.
BAD = [
    ({"src/base/low.c": '#include "queue/one.h"\n'},
     "src/base/low.c: base does not use queue: queue/one.h"),
    ({"src/host/hook.c": '#include "verbs/top.h"\n'},
     "src/host/hook.c: host does not use verbs: verbs/top.h"),
    ({"src/verbs/top.c": '#include "host/hook.h"\n', "src/host/hook.h": ONCE},
     "src/verbs/top.c: verbs does not use host: host/hook.h"),
    ({"tools/anyverbs/own.c": '#include "verbs/top.h"\n'},
     "tools/anyverbs/own.c: tools does not use verbs: verbs/top.h"),
    ({"src/queue/four.c": '#include "queue/five.h"\n'},
     "src/queue/four.c: there is no header queue/five.h"),
    ({"src/attic/old.c": ""}, "src/attic: not a room of the layout"),
    ({"src/queue/two.c": '#include "queue/three.h"\n',
      "src/queue/three.c": '#include "queue/four.h"\n',
      "src/queue/four.h": ONCE,
      "src/queue/four.c": '#include "queue/one.h"\n'},
     "src/queue: 4 modules include each other: four, one, three, two; "
     "for instance three -> four -> one -> two -> three"),
    ({"src/queue/two.h": ONCE + '#include "base/low.h"\n'},
     "src/queue/one.c: queue/two.h includes base/low.h"),
    ({"bench/one.c": ""}, "one.c: one name for several files: src/queue/one.c, bench/one.c"),
    ({"src/base/low.c": "static int find(int a,\n\t\tint b)\n{\n}\n",
      "src/queue/two.c": "void two(void)\n{\n}\n\nstatic int *find(void)\n{\n}\n"},
     "find(): one name for several functions: src/base/low, src/queue/two"),
    ({"src/base/low.c": "/* park */\nextern int av_park_it;\n"},
     "src/base/low.c: av_park_it: say wait, not park"),
    ({"src/base/low.h": ""}, "src/base/low.h: there is no #pragma once"),
    ({"include/public.h": ONCE}, "include/public.h: there is no #ifndef PUBLIC_H"),
]
BAD_TESTS = ({"tests/multi/a.c": ""},
             "a.c: one name for several files: tests/multi/a.c, tests/unit/a.c")


def answer(check, files, *options):
    """Exit status and output for a repository of these files."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in files.items():
            path = pathlib.Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        done = subprocess.run([sys.executable, "-B", check, "--root", folder, *options],
                              stdout=subprocess.PIPE, text=True, check=False)
        return done.returncode, done.stdout.splitlines()


def main():
    check = sys.argv[1]
    cases = [({}, None, []), ({}, None, ["--tests"]), (*BAD_TESTS, ["--tests"])]
    cases += [(change, line, []) for change, line in BAD]
    failed = 0
    for change, line, options in cases:
        expected = (1, [line]) if line else (0, [])
        got = answer(check, GOOD | change, *options)
        if got != expected:
            print(f"{sorted(change)} {options}: {got}, not {expected}")
            failed = 1
    return failed


if __name__ == "__main__":
    sys.exit(main())
