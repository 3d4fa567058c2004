#!/bin/bash
# SPDX-License-Identifier: MIT
# check-format.sh: is every C file laid out as clang-format does it, and every line at most 100 columns
# long? Says where not, and fails. Of the files of WIDE it only counts the lines that are longer.
set -euo pipefail
cd "$(dirname "$0")/.."
WIDE=('*.md' '*.py' '*.sh' '*.cmake' '*CMakeLists.txt' '*Makefile')

failed=0
git ls-files -z '*.c' '*.h' | xargs -0 clang-format --dry-run -Werror || failed=1
git ls-files -z "${WIDE[@]}" | xargs -0 scripts/columns.py --report
git ls-files -z "${WIDE[@]/#/:!}" | xargs -0 scripts/columns.py || failed=1
exit $failed
