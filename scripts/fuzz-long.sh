#!/bin/bash
# SPDX-License-Identifier: MIT
# fuzz-long.sh BUILD SECONDS: each fuzzer of a build with the preset clang searches so long, from
# the seeds on. What it finds is left in BUILD/found.
set -euo pipefail
build=$1 seconds=$2
corpus=$(dirname "$0")/../tests/fuzz/corpus
mkdir -p "$build/found"
for program in "$build"/tests/fuzz/fuzz_*; do
	[ -x "$program" ] && [ -f "$program" ] || continue
	target=${program##*/fuzz_}
	runner=()
	[ "$target" != peer ] || runner=("$(dirname "$0")/../tests/lib/own_network.sh")
	work=$(mktemp -d)
	echo "fuzz $target"
	"${runner[@]}" "$program" -max_total_time="$seconds" -artifact_prefix="$build/found/" \
		-verbosity=0 "$work" "$corpus/$target"
	rm -r "$work"
done
