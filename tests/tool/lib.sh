# SPDX-License-Identifier: MIT
# For the tests of the tool.
# Usage: TEST TOOL; a rule that does not hold is printed, and makes the exit status 1.
set -u
tool=$1
failures=0
unset ANYVERBS_DEVICES ANYVERBS_LIBRARY ANYVERBS_LOG LD_PRELOAD
export LC_ALL=C
. "$(dirname "${BASH_SOURCE[0]}")/../lib/wait.sh"

# holds RULE COMMAND...: the command succeeds
holds() {
	local rule=$1
	shift
	"$@" && return
	echo "does not hold: $rule ($*)" >&2
	failures=$((failures + 1))
}

# exits RULE STATUS COMMAND...: the command ends with that status
exits() {
	local rule=$1 wanted=$2 status=0
	shift 2
	"$@" >/dev/null 2>&1 || status=$?
	holds "$rule" test "$status" = "$wanted"
}

# says RULE PATTERN TEXT: a line of the text matches the extended regular expression
says() {
	holds "$1" grep -qE -e "$2" <<<"$3"
}

skip() {
	echo "$1"
	exit 77
}

# The test goes on in a network namespace of its own, as its root, or is skipped.
in_network_namespace() {
	[ "${IN_NAMESPACE:-}" = yes ] && return
	command -v ip >/dev/null || skip "no ip(8) here"
	unshare -rn true 2>/dev/null || skip "no permission to create a network namespace"
	"$tool" run -- ibv_devices >/dev/null 2>&1 || skip "the library cannot be preloaded here"
	IN_NAMESPACE=yes exec unshare -rn "$0" "$tool"
}

# The same, with a folder of its own, and the ends of a cable, v0 and v1, which are down. $server
# and ${watchers[@]}, processes that the test starts, end with it.
beside_a_cable() {
	in_network_namespace
	ANYVERBS_DIR=$(mktemp -d)
	export ANYVERBS_DIR
	server=
	watchers=()
	trap 'kill $server "${watchers[@]}" 2>/dev/null; wait; rm -r "$ANYVERBS_DIR"' EXIT
	ip link set lo up
	ip link add v0 type veth peer name v1 2>/dev/null || skip "no veth interfaces here"
}

# The same, on a host that has the address 192.0.2.1.
on_a_host_of_our_own() {
	beside_a_cable
	ip link set v0 up
	ip link set v1 up
	ip addr add 192.0.2.1/24 dev v0
}

# watch DEVICES FILE: from now on ibv_asyncwatch writes to the file what happens to any0
watch() {
	"$tool" run -d "$1" -- stdbuf -oL ibv_asyncwatch -d any0 >"$2" &
	watchers+=($!)
	wait_for grep -q FD "$2"
}

# has_events FILE NUMBER: so many have been written there, or more
has_events() {
	[ "$(grep -c event_type "$1")" -ge "$2" ]
}

finish() {
	test "$failures" = 0
	exit
}
