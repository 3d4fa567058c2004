#!/bin/bash
# SPDX-License-Identifier: MIT
# Each function of our own that the library exports is in the manual.
# Usage: test_exports.sh MAP MAN-FOLDER
set -u
map=$1
man=$2
names=$(grep -oE '\b(ibv_exp|anyverbs)_[a-z_]+' "$map" | sort -u)
failures=0
[ "$(wc -w <<<"$names")" -ge 30 ] || failures=1
for name in $names; do
	[ -e "$man/$name.3" ] && continue
	grep -q "^\.It Fn $name " "$man/anyverbs_exp.3" && continue
	echo "no page explains $name" >&2
	failures=$((failures + 1))
done
test "$failures" = 0
