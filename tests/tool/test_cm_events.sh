#!/bin/bash
# SPDX-License-Identifier: MIT
# What ids of librdmacm hear when their interface has another hardware address, and when their
# device is gone; in a network namespace of our own.
# Usage: test_cm_events.sh TOOL HEAR_CM
export HEAR_CM=${2:-$HEAR_CM} # the namespace's has one argument
. "$(dirname "$0")/lib.sh"

on_a_host_of_our_own
log=$ANYVERBS_DIR/log
in=$ANYVERBS_DIR/in
mkfifo "$in"

"$tool" run -- "$HEAR_CM" 192.0.2.1 <"$in" >"$log" &
server=$!
exec 3>"$in"

# is_ready NUMBER: the program has made its ids so many times
is_ready() {
	[ "$(grep -c ready "$log")" = "$1" ]
}

# told EVENT: the states of the ids that have heard it, in one line
told() {
	sed -n "s/: RDMA_CM_EVENT_$1\$//p" "$log" | sort | xargs
}

# have_heard EVENT NUMBER: so many times, or more
have_heard() {
	[ "$(grep -c "$1\$" "$log")" -ge "$2" ]
}

# expect RULE EVENT TIMES: all ids that have a device have heard it so often, and nobody else
expect() {
	local wanted=()
	for state in active bound listener passive resolved routed; do
		for ((i = 0; i < $3; i++)); do
			wanted+=("$state")
		done
	done
	wait_for have_heard "$2" ${#wanted[@]}
	holds "$1: '$(told "$2")'" test "$(told "$2")" = "${wanted[*]}"
}

holds ids_are_made wait_for is_ready 1
ip link set dev v0 address 02:00:00:00:00:01
expect another_hardware_address ADDR_CHANGE 1
ip link set dev v1 address 02:00:00:00:00:09
ip link set dev v0 mtu 1400
ip addr add 192.0.2.7/24 dev v0
ip link set dev v0 address 02:00:00:00:00:02
expect nothing_else_but_the_next_one ADDR_CHANGE 2

exits a_reset_is_refused 1 "$tool" reset -d any0
holds a_forced_one_is_not "$tool" reset -d any0 --force
expect a_forced_reset DEVICE_REMOVAL 1
holds commands_fail wait_for grep -q '^routed: rdma_disconnect: No such device or address$' "$log"
says and_explain_it 'rdma_disconnect.*the device of this id is gone' "$("$tool" explain)"
echo >&3
holds the_device_is_there_again wait_for is_ready 2
holds the_device_fails "$tool" event any0 device-fatal
expect a_device_that_fails DEVICE_REMOVAL 2
echo >&3
holds the_device_is_there_once_more wait_for is_ready 3
exec 3>&-
holds ids_end wait "$server"
server=
expect no_other_removal DEVICE_REMOVAL 2
finish
