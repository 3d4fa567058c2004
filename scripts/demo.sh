#!/bin/bash
# SPDX-License-Identifier: MIT
# demo.sh BUILD-FOLDER: Debian's unmodified RDMA programs on anyverbs,
# two processes each, in some seconds.
set -euo pipefail
anyverbs=$1/bin/anyverbs
work=$(mktemp -d)
server=
results=()
device=any0
export ANYVERBS_DEVICES=$device

finish() {
	[ -z "$server" ] || kill "$server" 2>/dev/null || true
	rm -rf "$work"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# Is anybody listening on that TCP port? Asked of the kernel:
# a connection would be taken for the client's.
listening() {
	local hex
	hex=$(printf '%04X' "$1")
	awk -v port="$hex" '$4 == "0A" && $2 ~ ":" port "$" { found = 1 } END { exit !found }' \
		/proc/net/tcp $([ ! -e /proc/net/tcp6 ] || echo /proc/net/tcp6)
}

free_port() {
	local port
	for _ in {1..100}; do
		port=$((20000 + RANDOM % 12000))
		listening "$port" || break
	done
	echo "$port"
}

wait_for_server() {
	for _ in {1..100}; do
		listening "$1" && return
		kill -0 "$server" 2>/dev/null || return 1
		sleep 0.05
	done
	return 1
}

give_up() {
	echo "demo: $1 failed. What the server said:" >&2
	sed 's/^/    /' "$work/server" >&2 || true
	echo "demo: 'anyverbs doctor' may know why:" >&2
	"$anyverbs" doctor 2>&1 | grep -A 2 -E '^(limited|missing)' | sed 's/^/    /' >&2 || true
	exit 1
}

# pair PROGRAM ARGUMENT...: server in the background, client in the foreground;
# the client's output in $work/client
pair() {
	local port
	port=$(free_port)
	echo
	echo "\$ anyverbs run -- $* -p $port &"
	echo "\$ anyverbs run -- $* -p $port localhost"
	timeout 60 "$anyverbs" run -- "$@" -p "$port" >"$work/server" 2>&1 &
	server=$!
	wait_for_server "$port" || give_up "the server ($1)"
	timeout 60 "$anyverbs" run -- "$@" -p "$port" localhost >"$work/client" 2>&1 || {
		sed 's/^/    /' "$work/client"
		give_up "the client ($1)"
	}
	sed 's/^/    /' "$work/client"
	wait "$server" || give_up "the server ($1)"
	server=
}

echo "\$ anyverbs run -- ibv_devices"
"$anyverbs" run -- ibv_devices | tee "$work/devices" | sed 's/^/    /'
grep -qw "$device" "$work/devices" || give_up "ibv_devices"
results+=("ibv_devices       sees $device")

pair ibv_rc_pingpong -d $device -g 0 -n 10000 -c
latency=$(grep -o '[0-9.]* usec/iter' "$work/client")
results+=("ibv_rc_pingpong   $latency for 4 KiB there and back, contents checked")

pair ib_write_bw -d $device -F -s 65536 -n 20000
rate=$(awk '$1 == 65536 { printf "%.1f GB/s", $4 * 1.048576 / 1000 }' "$work/client")
results+=("ib_write_bw       $rate in messages of 64 KiB, one process into another's memory")

echo
echo "Summary: no RDMA adapter, no kernel module, and these programs are as Debian ships them:"
printf '    %s\n' "${results[@]}"
echo "Next: $anyverbs run -- PROGRAM, $anyverbs doctor, man/anyverbs.7"
