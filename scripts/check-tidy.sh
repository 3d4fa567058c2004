#!/bin/bash
# SPDX-License-Identifier: MIT
# check-tidy.sh [--quick] BUILD-FOLDER [REGEX]: clang-tidy (.clang-tidy) over the files of src/ and
# tools/, or over those of them that match; fails if it finds anything, or if no file matches. The
# folder is the preset "clang"'s. --quick: without the static analyzer, which takes nine tenths of
# the time.
set -euo pipefail
cd "$(dirname "$0")/.."
checks=
if [ "${1:-}" = --quick ]; then
	checks=-clang-analyzer-*
	shift
fi
here=$(printf '%s' "$PWD" | sed 's/[][\.*^$+?(){}|]/\\&/g') # as a regular expression
files="$here/(src|tools)/.*${2:-}"
run-clang-tidy -quiet -p "$1" -j "$(nproc)" "-checks=$checks" "$files" 2>/dev/null | awk '
	/clang-tidy[-0-9]* .*-p=/ { files++; next }
	NF
	END { print "clang-tidy: " files + 0 " files"; exit files == 0 }'
