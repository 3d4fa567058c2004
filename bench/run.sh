#!/bin/bash
# SPDX-License-Identifier: MIT
# run.sh BUILD-FOLDER: run all benchmarks of our own, and print a table. The unit is part of the
# name: _us, _ns and _KiB are of one call or object, a/b is a ratio. SPREAD is (maximum - minimum) /
# median, of seven.
set -euo pipefail
build=${1:?usage: run.sh BUILD-FOLDER}

# Shared files of their own: other programs that use the device neither disturb nor are disturbed.
shm=/dev/shm
[[ -w $shm ]] || shm=/tmp
ANYVERBS_DIR=$(mktemp -d "$shm/anyverbs-bench-XXXXXX")
export ANYVERBS_DIR
trap 'rm -rf "$ANYVERBS_DIR"' EXIT
trap 'exit 1' HUP INT TERM

table=$ANYVERBS_DIR/table
printf '%-28s %10s %12s %8s %12s\n' BENCHMARK SIZE MEDIAN SPREAD EXPECTED
failed=0
for source in "$(dirname "$0")"/bench_*.c; do
	name=$(basename "$source" .c)
	echo "$name, after $SECONDS s" >&2
	if ! "$build/bench/$name" | tee -a "$table"; then
		echo "run.sh: $name failed" >&2
		failed=1
	fi
done
echo "$(grep -c ' met$' "$table") of $(grep -cE ' (met|NOT)$' "$table") met, in $SECONDS s"
exit "$failed"
