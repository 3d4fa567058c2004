#!/bin/bash
# SPDX-License-Identifier: MIT
# run.sh BUILD-FOLDER: measure, and print a table. The unit is part of the name: _us and _ns are times of one call,
# a/b is a ratio. SPREAD is (maximum - minimum) / median.
set -euo pipefail
build=${1:?usage: run.sh BUILD-FOLDER}

# Shared files of their own: programs that use the device meanwhile neither disturb nor are disturbed.
shm=/dev/shm
[[ -w $shm ]] || shm=/tmp
ANYVERBS_DIR=$(mktemp -d "$shm/anyverbs-bench-XXXXXX")
export ANYVERBS_DIR
trap 'rm -rf "$ANYVERBS_DIR"' EXIT
trap 'exit 1' HUP INT TERM

printf '%-24s %10s %12s %12s\n' BENCHMARK SIZE MEDIAN SPREAD
failed=0
for source in "$(dirname "$0")"/bench_*.c; do
	name=$(basename "$source" .c)
	if ! "$build/bench/$name"; then
		echo "run.sh: $name failed" >&2
		failed=1
	fi
done
exit "$failed"
