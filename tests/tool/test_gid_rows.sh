#!/bin/bash
# SPDX-License-Identifier: MIT
# gid_rows=mlx5 while the host's addresses change, in a network namespace of our own; beside a
# process that has the same device with single rows. Usage: test_gid_rows.sh TOOL
export ASAN_OPTIONS=detect_leaks=0 # programs that are not ours may leak
. "$(dirname "$0")/lib.sh"

command -v ibv_asyncwatch >/dev/null || skip "no ibv_asyncwatch here"
beside_a_cable
paired=any0:gid_rows=mlx5:guid=0011223344556677 log=$ANYVERBS_DIR/log plain=$ANYVERBS_DIR/plain

# rows SPEC: the first six rows, as VERSION=GID with the zeros in front left out; "-": empty
rows() {
	"$tool" run -d "$1" -- bash -c '
		cd /sys/class/infiniband/any0/ports/1 || exit
		for i in 0 1 2 3 4 5; do
			type=$(cat gid_attrs/types/$i 2>/dev/null) || { echo -; continue; }
			echo "${type##* }=$(sed "s/^\(0000:\)*//" gids/$i)"
		done' | xargs
}

# changed RULE NUMBER: so many events of the watcher with paired rows, all of one kind
changed() {
	wait_for has_events "$log" "$2"
	holds "$1" test "$(grep -c event_type "$log")" = "$2"
	holds "$1: kind" test "$(grep -c IBV_EVENT_GID_CHANGE "$log")" = "$2"
}

pair() {
	echo "v1=$1 v2=$1"
}

guid=$(pair fe80:0000:0000:0000:0211:2233:4455:6677)
local6=$(pair fe80:0000:0000:0000:0000:0000:0000:0005)
first=$(pair ffff:c000:0201) second=$(pair ffff:c000:0202)
global6=$(pair fd00:0000:0000:0000:0000:0000:0000:0001)

ip link set v0 addrgenmode none
ip link set v0 up
holds loopback test "$(rows $paired)" = "$guid $(pair ffff:7f00:0001) $(pair 0001)"
ip addr add 192.0.2.1/32 dev v0
holds one_address test "$(rows $paired)" = "$guid $first - -"

watch "$paired" "$log"
watch any0 "$plain"
ip addr add 192.0.2.2/32 dev v0
changed new_address 1
holds new_address_comes_behind test "$(rows $paired)" = "$guid $first $second"
holds single_rows_beside_it test "$(rows any0)" = "v2=ffff:c000:0201 v2=ffff:c000:0202 - - - -"
ip addr add fe80::5/64 dev v0 nodad
changed link_local_address 2
holds link_local_address_replaces_the_guids test "$(rows $paired)" = "$local6 $first $second"
ip addr del 192.0.2.1/32 dev v0
changed lost_address 3
holds lost_address_leaves_its_rows_empty test "$(rows $paired)" = "$local6 - - $second"
ip addr add fd00::1/128 dev v0 nodad
changed next_address 4
holds next_address_takes_the_empty_rows test "$(rows $paired)" = "$local6 $global6 $second"
ip addr del fe80::5/64 dev v0
changed lost_link_local_address 5
holds the_guids_is_back test "$(rows $paired)" = "$guid $global6 $second"
wait_for has_events "$plain" 5
holds others_have_heard_of_all test "$(grep -c IBV_EVENT_GID_CHANGE "$plain")" = 5
finish
