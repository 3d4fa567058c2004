# SPDX-License-Identifier: MIT
"""
A strict reader of Prometheus' text exposition format: prometheus.py [--list] <METRICS

Each family has HELP, TYPE and samples, in this order and in one piece; names and labels are well
formed; counters end in _total and nothing else does; no sample is there twice. Prints how many
there are, or with --list one sample in a line: name, type, labels, value. Exit status 1 and the
line if something is not so.
"""
import re
import sys

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"'
SAMPLE = re.compile(rf"({NAME})\{{({LABEL}(?:,{LABEL})*)?\}} ([0-9]+)")


def fail(number, line, why):
    sys.exit(f"line {number}: {why}: {line}")


def main():
    text = sys.stdin.read()
    families, samples, family, kind, helped = {}, set(), None, None, None
    if text and not text.endswith("\n"):
        sys.exit("the last line has no end")
    for number, line in enumerate(text.splitlines(), 1):
        if match := re.fullmatch(rf"# HELP ({NAME}) (\S.*)", line):
            helped = match[1]
            if helped in families:
                fail(number, line, "the family is there already")
        elif match := re.fullmatch(rf"# TYPE ({NAME}) (counter|gauge)", line):
            family, kind = match[1], match[2]
            if family != helped or family in families:
                fail(number, line, "no HELP before, or there already")
            if family.endswith("_total") != (kind == "counter"):
                fail(number, line, "counters, and only they, end in _total")
            families[family] = 0
        elif match := SAMPLE.fullmatch(line):
            if match[1] != family:
                fail(number, line, "not of the family")
            labels = re.findall(LABEL, match[2] or "")
            names = {name for name, _ in labels}
            if len(names) != len(labels) or (family, tuple(labels)) in samples:
                fail(number, line, "a label or a sample twice")
            samples.add((family, tuple(labels)))
            families[family] += 1
            if "--list" in sys.argv:
                print(family, kind, *(f"{name}={value}" for name, value in labels),
                      match[match.lastindex])
        else:
            fail(number, line, "not understood")
    empty = [name for name, count in families.items() if not count]
    if empty:
        sys.exit(f"no samples: {empty}")
    if "--list" not in sys.argv:
        print(f"{len(families)} families, {len(samples)} samples")


main()
