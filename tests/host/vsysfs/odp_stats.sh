#!/bin/bash
# SPDX-License-Identifier: MIT
# The ODP statistics as cat(1) reads them: while ibv_rc_pingpong -o runs, when all programs have
# ended, and when all have been killed.
# Usage: odp_stats.sh LIBANYVERBS ANYVERBS
. "$(dirname "$0")/lib.sh"
export ANYVERBS_DEVICES=any0
standard=/sys/class/infiniband_verbs/uverbs0
debug=/sys/kernel/debug/mlx5/anyverbs.0/odp_stats
packets=/sys/class/infiniband/any0/ports/1/counters/port_xmit_packets
tool=$2

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

# holds RULE COMMAND...
holds() {
	"${@:2}" && return
	echo "does not hold: $1" >&2
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
faults=$(number $standard/num_page_faults)
LD_PRELOAD=$library ibv_devinfo >/dev/null # the next to open the device finds what the dead had
says no_regions_of_the_dead $debug/num_odp_mrs 0
says what_the_killed_have_counted_stays $standard/num_page_faults "$faults"

# Programs that end by themselves. The second pair begins with memory of its own.
pair() {
	next_port 15000
	LD_PRELOAD=$library ibv_rc_pingpong -g 0 -o -n 100 -p "$port" >/dev/null &
	pids=$!
	wait_for listens "$port" || exit 1
	LD_PRELOAD=$library ibv_rc_pingpong -g 0 -o -n 100 -p "$port" localhost >/dev/null
	wait
	pids=
}
for run in first second; do
	faults=$(number $standard/num_page_faults)
	sent=$(number $packets)
	pair
	comes "faults_of_the_$run" $standard/num_page_faults $((faults + 2))
	comes "packets_of_the_$run" $packets $((sent + 200))
done
faults=$(number $standard/num_page_faults)
says reading_changes_nothing $standard/num_page_faults "$faults"
LD_PRELOAD=$library ibv_devinfo >/dev/null
says opening_changes_nothing $standard/num_page_faults "$faults"
ANYVERBS_DEVICES=any0 "$tool" reset -d any0 >/dev/null
says a_reset_begins_anew $standard/num_page_faults 0
says a_reset_begins_anew $packets 0
holds nothing_is_left test -z "$(ls -A "$ANYVERBS_DIR")"

# What is in use begins anew, too.
next_port 15000
start
wait_for listens "$port" || exit 1
start localhost
comes both_fault $standard/num_page_faults 2
"$tool" reset -d any0 --force >/dev/null
wait
pids=
says the_failed_do_not_count $packets 0
finish
