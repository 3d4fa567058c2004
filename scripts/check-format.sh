#!/bin/bash
# SPDX-License-Identifier: MIT
# check-format.sh [K N]: is every C and C++ file laid out as clang-format does it, and every line at
# most 100 columns long? Says where not. With K and N: the Kth of N parts of the files.
# Exit status: 0 yes, 1 no, 77 there is no clang-format, or this is no checkout.
set -euo pipefail
cd "$(dirname "$0")/.."
if ! command -v clang-format >/dev/null || ! git rev-parse --git-dir >/dev/null 2>&1; then
	echo "check-format: there is no clang-format, or this is no checkout" >&2
	exit 77
fi
part=${1:-1} parts=${2:-1}

files() {
	git ls-files -z "$@" | awk -v RS='\0' -v ORS='\0' "NR % $parts == $part % $parts"
}

failed=0
files '*.c' '*.h' '*.cc' | xargs -0 clang-format --dry-run -Werror || failed=1
files | xargs -0 scripts/columns.py || failed=1
exit $failed
