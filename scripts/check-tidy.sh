#!/bin/bash
# SPDX-License-Identifier: MIT
# check-tidy.sh BUILD-FOLDER [REGEX]: clang-tidy (.clang-tidy) over the files of src/ and tools/,
# or over those of them that match; fails if it finds anything. The folder is the preset "clang"'s.
set -euo pipefail
cd "$(dirname "$0")/.."
run-clang-tidy -quiet -p "$1" -j "$(nproc)" "$PWD/(src|tools)/.*${2:-}" 2>/dev/null |
	{ grep -vE '^clang-tidy|^$' || true; }
