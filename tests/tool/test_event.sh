#!/bin/bash
# SPDX-License-Identifier: MIT
# Events of ports and devices as Debian's ibv_asyncwatch shows them: changes of the host's
# addresses, played in a network namespace of our own, and "anyverbs event".
# Usage: test_event.sh TOOL
. "$(dirname "$0")/lib.sh"

command -v ibv_asyncwatch >/dev/null || skip "no ibv_asyncwatch here"
beside_a_cable
ip link set v0 addrgenmode none
ip addr add 192.0.2.1/32 dev v0
ip link set v0 up
log=$ANYVERBS_DIR/log
watch any0 "$log"

# Waits for so many lines that begin with "  event_type", and prints them all, in one line.
events() {
	wait_for has_events "$log" "$1"
	sed -n 's/.*event_type IBV_EVENT_\([A-Z_]*\).*/\1/p' "$log" | xargs
}

# expect RULE EVENT...: all there have been since the watcher began
expect() {
	local rule=$1
	shift
	seen+=("$@")
	holds "$rule: '$(events ${#seen[@]})'" test "$(events ${#seen[@]})" = "${seen[*]}"
}

gid() {
	"$tool" run -- cat /sys/class/infiniband/any0/ports/1/gids/"$1"
}

state() {
	"$tool" run -- cat /sys/class/infiniband/any0/ports/1/state
}

seen=()
v4=0000:0000:0000:0000:0000:ffff:c000:02
none=0000:0000:0000:0000:0000:0000:0000:0000
ip addr add 192.0.2.2/32 dev v0
expect new_address_changes_gids GID_CHANGE
holds new_address_comes_behind test "$(gid 0) $(gid 1)" = "${v4}01 ${v4}02"
ip addr del 192.0.2.1/32 dev v0
expect lost_address_changes_gids GID_CHANGE
holds others_keep_their_index test "$(gid 0) $(gid 1)" = "$none ${v4}02"
ip addr add 192.0.2.3/32 dev v0
expect next_address_changes_gids GID_CHANGE
holds next_address_takes_the_empty_row test "$(gid 0) $(gid 1)" = "${v4}03 ${v4}02"
ip link set v0 down
expect interface_down_is_port_err PORT_ERR GID_CHANGE
holds interface_down_is_port_down test "$(state)" = "1: DOWN"
ip link set v0 up
expect interface_up_is_port_active PORT_ACTIVE GID_CHANGE
holds interface_up_is_port_up test "$(state)" = "4: ACTIVE"
ip addr del 192.0.2.3/32 dev v0
expect each_lost_address_is_one_event GID_CHANGE
ip addr del 192.0.2.2/32 dev v0
expect losing_all_addresses_is_no_port_err GID_CHANGE
holds port_without_addresses_is_up test "$(state)" = "4: ACTIVE"

says contexts_are_counted '^any0: port-err: 1 context notified$' "$("$tool" event any0 port-err)"
expect port_err_on_demand PORT_ERR
holds port_err_on_demand_is_port_down test "$(state)" = "1: DOWN"
holds port_active "$tool" event any0 port-active
expect port_active_on_demand PORT_ACTIVE
holds port_active_is_port_up test "$(state)" = "4: ACTIVE"
holds device_fatal "$tool" event any0 device-fatal
expect device_fatal_on_demand DEVICE_FATAL
exits device_fails_once 1 "$tool" event any0 device-fatal
exits unknown_event_is_2 2 "$tool" event any0 nosuch
exits unknown_device_is_1 1 "$tool" event nosuch0 port-err
exits too_few_arguments_are_2 2 "$tool" event any0
finish
