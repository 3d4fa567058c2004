#!/bin/bash
# SPDX-License-Identifier: MIT
# The MTU of a port follows its interfaces, in a network namespace of our own.
# Usage: test_mtu.sh TOOL
export ASAN_OPTIONS=detect_leaks=0 # programs that are not ours may leak
. "$(dirname "$0")/lib.sh"

command -v ibv_asyncwatch >/dev/null || skip "no ibv_asyncwatch here"
beside_a_cable

# mtus SPEC: the active one and the largest, as ibv_devinfo has them
mtus() {
	"$tool" run -d "$1" -- ibv_devinfo -d any0 | awk '
		$1 == "active_mtu:" { active = $2 }
		$1 == "max_mtu:" { max = $2 }
		END { print active, max }'
}

is() {
	[ "$(mtus "${2:-any0}")" = "$1" ]
}

holds loopback is "4096 4096"
ip link set v0 up
ip addr add 192.0.2.1/24 dev v0

while read -r mtu expected; do
	ip link set v0 mtu "$mtu"
	holds "an interface of $mtu" is "$expected 4096"
	holds "as the tool has it" grep -q " $expected " <<<"$("$tool" devices | tail -1)"
	holds "infiniband beside $mtu" is "4096 4096" any0:link=infiniband
	holds "a configured one beside $mtu" is "2048 2048" any0:mtu=2048
done <<-END
	9000 4096
	4200 4096
	4184 4096
	4183 2048
	2136 2048
	2135 1024
	1500 1024
	1112 1024
	1111 512
	600 512
	599 256
	100 256
END

# While somebody has it open, all see the change, and the smallest one counts.
watch any0 "$ANYVERBS_DIR/log"
ip link set v0 mtu 9000
wait_for is "4096 4096"
holds grows is "4096 4096"
ip link set v1 mtu 1500 up
ip addr add 198.51.100.1/24 dev v1
wait_for is "1024 4096"
holds a_smaller_one_beside_it is "1024 4096"
ip link set v1 down
wait_for is "4096 4096"
holds a_smaller_one_that_is_down is "4096 4096"
finish
