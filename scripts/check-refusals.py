#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""check-refusals.py [SRC]: every refusal names the rule that was broken.

"anyverbs explain" can say of an errno value alone only "an argument is invalid". Therefore an
errno value of that kind stands in SRC beside the check that was made: in one statement with
AV_CHECK_..., with a variable "check", with av_refuse_as() or AV_EXP_KNOWN(), which name one; or in
a call of a function of the same file that names a check, and whose own name begins with refuse_ or
contains _refuse_.
Comparisons, "case" and comments do not count. What else there is, is listed; the exit status is 1
then.
"""
import pathlib
import re
import sys

FOLDERS = ("verbs", "exp", "cm", "queue", "memory", "transport", "registry")
VALUE = re.compile(r"(?<![!=]= )(?<!case )\b(EINVAL|EOPNOTSUPP|ENOTSUP)\b")

# Functions whose value is no verb's: (file, function): why no check is named.
OTHERS = {
    ("memory/klm.c", "*"): "likewise; or a check of the caller's, exp/exp_send.c",
    ("memory/odp_notify.c", "*"): "userfaultfd(2) of an old kernel, on which we do without",
    ("memory/vma.c", "*"): "to callers: the kernel cannot populate, which is no failure",
    ("registry/multicast.c", "*"): "the caller names the check: verbs/ibv_ah.c, verbs/ibv_pd.c",
    ("registry/folder.c", "*"): "of ANYVERBS_DIR: opening the device says so itself",
    ("cm/channel.c", "read_command"): "no command of librdmacm, and so of no verb",
    ("cm/conn.c", "*"): "the caller names the id's state",
    ("cm/cm_mad.c", "forward_cm_mad"): "a message of ours always fits",
    ("cm/cm.c", "attend_one"): "ANYVERBS_TRANSPORT=host: there is no other host",
    ("verbs/query.c", "ibv_query_port_speed"): "the system's library is too old to have the verb",
    ("verbs/ops.c", "*"): "the verb is missing as a whole, and NOT_SUPPORTED says that",
    ("verbs/next.h", "*"): "the system's library is too old to have the verb",
    ("verbs/ibv_buf.c", "ibv_export_buf_dmabuf_fd"): "likewise",
}


def blank(text):
    """The text without comments, strings, and what the preprocessor reads."""
    pattern = r"/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|//[^\n]*"
    return re.sub(pattern, lambda m: re.sub(r"[^\n]", " ", m[0]), text, flags=re.S)


def functions(text):
    """(name, first, end) of each function's body."""
    for m in re.finditer(r"^(?!\s|#|})[^\n;={]*?\b(\w+)\((?:[^;{}]*?)\)\n{\n", text, flags=re.M):
        end = text.find("\n}\n", m.end())
        yield m[1], m.end(), end if end >= 0 else len(text)


def refusals(path, name):
    text = blank(path.read_text())
    bodies = list(functions(text))
    naming = {f for f, first, end in bodies if re.match("refuse_|.*_refuse_", f)
              and re.search("AV_CHECK_|av_refuse", text[first:end])}
    for m in VALUE.finditer(text):
        first = max(text.rfind(c, 0, m.start()) for c in ";{}") + 1
        ends = [e for e in (text.find(c, m.end()) for c in ";{}") if e >= 0]
        statement = text[first:min(ends, default=len(text))]
        if re.search(r"AV_CHECK_|\bcheck\b(?! *\()|\b(av_refuse_as|AV_EXP_KNOWN)\(", statement):
            continue
        if any(re.search(rf"\b{f}\(", statement) for f in naming):
            continue
        where = next((f for f, first, end in bodies if first <= m.start() < end), "")
        if (name, "*") in OTHERS or (name, where) in OTHERS:
            continue
        line = text.count("\n", 0, m.start()) + 1
        yield f"src/{name}:{line}: {where}: {m[1]} without a check"


def main():
    src = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else f"{sys.path[0]}/../src")
    found = []
    for folder in FOLDERS:
        for path in sorted((src / folder).glob("*.[ch]")):
            found += refusals(path, str(path.relative_to(src)))
    print(*found, sep="\n", end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
