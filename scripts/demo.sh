#!/bin/bash
# SPDX-License-Identifier: MIT
# demo.sh BUILD-FOLDER: Debian's unmodified RDMA programs on anyverbs,
# two processes each, in some seconds.
set -euo pipefail
anyverbs=$1/bin/anyverbs
work=$(mktemp -d)
results=()
device=any0
export ANYVERBS_DEVICES=$device
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

give_up() {
	echo "demo: $1 failed. 'anyverbs doctor' may know why:" >&2
	"$anyverbs" doctor 2>&1 | grep -A 2 -E '^(limited|missing)' | sed 's/^/    /' >&2 || true
	exit 1
}

# pair PROGRAM ARGUMENT...: what both sides write is shown, and in $work/pair
pair() {
	echo
	echo "\$ anyverbs pair -- $*"
	"$anyverbs" pair --timeout 60 -- "$@" | tee "$work/pair" | sed 's/^/    /' || give_up "$1"
}

echo "\$ anyverbs run -- ibv_devices"
"$anyverbs" run -- ibv_devices | tee "$work/devices" | sed 's/^/    /'
grep -qw "$device" "$work/devices" || give_up "ibv_devices"
results+=("ibv_devices       sees $device")

pair ibv_rc_pingpong -d $device -g 0 -n 10000 -c
latency=$(sed -n 's/^client| .* \([0-9.]* usec\/iter\)$/\1/p' "$work/pair")
results+=("ibv_rc_pingpong   $latency for 4 KiB there and back, contents checked")

pair ib_write_bw -d $device -F -s 65536 -n 20000
rate=$(awk '$1 == "client|" && $2 == 65536 { printf "%.1f GB/s", $5 * 1.048576 / 1000 }' \
	"$work/pair")
results+=("ib_write_bw       $rate in messages of 64 KiB, one process into another's memory")

echo
echo "Summary: no RDMA adapter, no kernel module, and these programs are as Debian ships them:"
printf '    %s\n' "${results[@]}"
echo "Next: $anyverbs pair -- PROGRAM, $anyverbs doctor, man/anyverbs.7"
