#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Does mutate.py change what it should, and leave alone what it should? Does its list of changes
that make no difference fit the sources?

    mutate.py MUTATE
"""

import pathlib
import subprocess
import sys
import tempfile

# What is left alone.
KEPT = r'''
#if 1 < 2 && \
	3
#endif
/* a < b */ // 1 + 1
static_assert(sizeof(int) == 4 && (1 < 2), "1");
static const char *const names[2][3 + 1];
int *f(int *p, const char *text);
x = sizeof(a[0]), z = sizeof *y;
x->y = -z, f(&x, *p), i++, '1', "\"1 < 2", 1.5;
(void)!f(x);
'''

# A line, and what becomes of it.
CHANGED = [
    ("if (a < b && c >= d)", ["if (a <= b && c >= d)", "if (a < b || c >= d)",
                              "if (a < b && c > d)"]),
    ("x = a <= b || c > d;", ["x = a < b || c > d;", "x = a <= b && c > d;",
                              "x = a <= b || c >= d;"]),
    ("x = a == b;", ["x = a != b;"]),
    ("x = a != b;", ["x = a == b;"]),
    ("x = f(a) + b;", ["x = f(a) - b;"]),
    ("return a[i] - -b;", ["return a[i] + -b;"]),
    ("x = a + 1;", ["x = a - 1;", "x = a;", "x = a + 2;"]),
    ("x[i - 1u] = a;", ["x[i + 1u] = a;", "x[i] = a;", "x[i - 2u] = a;"]),
    ("x = a << b;", ["x = a >> b;"]),
    ("x = a >> b;", ["x = a << b;"]),
    ("return 0;", ["return 1;"]),
    ("x = 0xffull | 07;", ["x = 0x100ull | 07;", "x = 0xffull | 010;"]),
    ("if (!a)", ["if (a)"]),
    ("return EINVAL;", ["return ENOMEM;"]),
    ("return -EPERM;", ["return -EINVAL;"]),
    ("return true;", ["return false;"]),
    ("uint32_t n[4] = {2}, m = n[3];", ["uint32_t n[4] = {3}, m = n[3];",
                                        "uint32_t n[4] = {2}, m = n[4];"]),
]


def listed(script, *paths):
    done = subprocess.run([sys.executable, "-B", script, "--list",
                           *(["--sources", *paths] if paths else [])],
                          stdout=subprocess.PIPE, text=True, check=False)
    return done.returncode, done.stdout


def main():
    script = sys.argv[1]
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "sample.c")
        for text, expected in [(KEPT, []), *CHANGED]:
            path.write_text(text + "\n", encoding="utf-8")
            status, out = listed(script, path)
            got = [line[2:] for line in out.splitlines() if line.startswith("+ ")]
            if status or got != expected:
                print(f"{text}: {status}, {got}, not {expected}")
                failed = 1
    return failed or listed(script)[0]


if __name__ == "__main__":
    sys.exit(main())
