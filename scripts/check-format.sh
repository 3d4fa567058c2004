#!/bin/bash
# SPDX-License-Identifier: MIT
# check-format.sh: is every C and C++ file laid out as clang-format does it, and every line at most
# 100 columns long? Says where not.
# Exit status: 0 yes, 1 no, 77 there is no clang-format, or this is no checkout.
set -euo pipefail
cd "$(dirname "$0")/.."
if ! command -v clang-format >/dev/null || ! git rev-parse --git-dir >/dev/null 2>&1; then
	echo "check-format: there is no clang-format, or this is no checkout" >&2
	exit 77
fi

failed=0
git ls-files -z '*.c' '*.h' '*.cc' | xargs -0 clang-format --dry-run -Werror || failed=1
git ls-files -z | xargs -0 scripts/columns.py || failed=1
exit $failed
