#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Does check-refusals.py find a refusal without a check, and none where each has one?

    refusals.py CHECK-REFUSALS
"""

import pathlib
import subprocess
import sys
import tempfile

GOOD = """
#define OTHER EINVAL
/* Return: 0 or EINVAL */
static int refuse_range(int err)
{
	return av_refuse(err, AV_CHECK_DM_RANGE, 0, 0);
}

int av_good(int x)
{
	const char *text = "EINVAL"; // EINVAL
	if (x == EINVAL)
		return av_refuse(x ? EOPNOTSUPP : EINVAL,
				 AV_CHECK_FLAGS, 0, 0);
	switch (x) {
	case EINVAL:
		return refuse_range(EINVAL);
	}
	return x ? av_refuse_as(EINVAL) : 0;
}
"""

# A function's body, and what is found in it.
BAD = [
    ("return EINVAL;", "EINVAL without a check"),
    ("return -EINVAL;", "EINVAL without a check"),
    ("return av_fail_errno(AV_VERB_REG_MR,\n\t\tEINVAL);", "EINVAL without a check"),
    ("int err = x ? ENOTSUP : 0;\n\n\treturn err;", "ENOTSUP without a check"),
    ("if (x)\n\t\treturn av_refuse(EINVAL, AV_CHECK_FLAGS, 0, 0);\n\treturn EOPNOTSUPP;",
     "EOPNOTSUPP without a check"),
    ("return refuse_elsewhere(EINVAL);", "EINVAL without a check"),
]


def run(script, source):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "verbs/one.c"
        path.parent.mkdir()
        path.write_text(source)
        ran = subprocess.run([sys.executable, "-B", script, folder], capture_output=True, text=True)
        return ran.returncode, ran.stdout + ran.stderr


def main():
    script = sys.argv[1]
    failed = []
    status, said = run(script, GOOD)
    if status or said:
        failed.append(f"good: {status} {said}")
    for body, found in BAD:
        status, said = run(script, GOOD + f"\nint av_bad(int x)\n{{\n\t{body}\n}}\n")
        if status != 1 or said.count("\n") != 1 or f": av_bad: {found}\n" not in said:
            failed.append(f"{body!r}: {status} {said}")
    print(*failed, sep="\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
