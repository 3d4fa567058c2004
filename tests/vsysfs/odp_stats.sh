#!/bin/bash
# SPDX-License-Identifier: MIT
# The ODP statistics as cat(1) reads them while ibv_rc_pingpong -o runs.
# Usage: odp_stats.sh LIBANYVERBS
. "$(dirname "$0")/lib.sh"
export ANYVERBS_DEVICES=any0
standard=/sys/class/infiniband_verbs/uverbs0
debug=/sys/kernel/debug/mlx5/anyverbs.0/odp_stats

if ! command -v ibv_rc_pingpong >/dev/null; then
	echo "there is no ibv_rc_pingpong"
	exit 77
fi
require_preload

ANYVERBS_DIR=$(mktemp -d)
export ANYVERBS_DIR
pids=
stop() {
	[ -z "$pids" ] || kill -KILL $pids 2>/dev/null
	wait 2>/dev/null
	pids=
}
trap 'stop; rm -rf "$ANYVERBS_DIR"' EXIT

# number FILE: what it says
number() {
	LD_PRELOAD=$library cat "$1"
}

says_at_least() {
	[ "$(number "$1")" -ge "$2" ]
}

# comes RULE FILE MINIMUM: at last it says at least that
comes() {
	wait_for says_at_least "$2" "$3" && return
	echo "does not hold: $1: $2 says '$(number "$2")'" >&2
	failures=$((failures + 1))
}

# says RULE FILE NUMBER
says() {
	[ "$(number "$2")" = "$3" ] && return
	echo "does not hold: $1: $2 says '$(number "$2")'" >&2
	failures=$((failures + 1))
}

# One of two that go on until they are killed.
start() {
	LD_PRELOAD=$library ibv_rc_pingpong -g 0 -o -s 65536 -n 1000000000 -p "$port" "$@" \
		>/dev/null 2>&1 &
	pids="$pids $!"
}

says nothing_runs $standard/num_page_faults 0
next_port 15000
start
wait_for listens "$port" || exit 1
start localhost
comes both_fault $standard/num_page_faults 2
comes pages_of_both $standard/num_page_fault_pages 32
comes regions_of_both $debug/num_odp_mrs 2
comes their_pages $debug/num_odp_mr_pages 32
says all_is_mapped $debug/num_failed_resolutions 0
says each_key_is_known $debug/num_mrs_not_found 0
stop
LD_PRELOAD=$library ibv_devinfo >/dev/null # the next to open the device finds what the dead had
says no_regions_of_the_dead $debug/num_odp_mrs 0
says counting_begins_anew $standard/num_page_faults 0
finish
