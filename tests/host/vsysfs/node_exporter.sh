#!/bin/bash
# SPDX-License-Identifier: MIT
# The infiniband collector of Prometheus' node_exporter reads the port's counters. It is a program
# that makes its system calls without the C library, so it gets a copy of the tree.
# Usage: node_exporter.sh LIBANYVERBS
. "$(dirname "$0")/lib.sh"
export ANYVERBS_DEVICES=any0,mlx5_0:link=infiniband:lid=7
exporter=
for name in prometheus-node-exporter node_exporter; do
	exporter=${exporter:-$(command -v $name)}
done
for program in "$exporter" curl ibv_rc_pingpong; do
	command -v "$program" >/dev/null ||
		{ echo "there is no node_exporter, curl or ibv_rc_pingpong"; exit 77; }
done
require_preload
work=$(mktemp -d)
ANYVERBS_DIR=$(mktemp -d)
export ANYVERBS_DIR
pids=
stop() {
	[ -z "$pids" ] || kill -KILL $pids 2>/dev/null
	wait 2>/dev/null
}
trap 'stop; rm -rf "$ANYVERBS_DIR" "$work"' EXIT

# 500 messages of 4096 bytes each way.
pingpong() {
	LD_PRELOAD=$library ibv_rc_pingpong -d any0 -g 0 -s 4096 -n 500 -p "$port" "$@" \
		>/dev/null 2>&1
}
exchange() {
	next_port 14000
	pingpong &
	wait_for listens "$port" && pingpong localhost && wait $!
}
# Somebody stays, so that the counts do, too.
LD_PRELOAD=$library stdbuf -oL ibv_asyncwatch -d any0 >"$work/watcher" 2>&1 &
pids=$!
wait_for grep -q FD "$work/watcher" && exchange || exit 1
mkdir -p "$work/class/infiniband"
# Rows without a GID cannot be read.
for device in any0 mlx5_0; do
	LD_PRELOAD=$library cp -rH /sys/class/infiniband/$device "$work/class/infiniband" \
		2>/dev/null
done

next_port 14000
"$exporter" --path.sysfs="$work" --collector.disable-defaults --collector.infiniband \
	--web.listen-address="127.0.0.1:$port" >"$work/log" 2>&1 &
pids="$pids $!"
wait_for listens "$port"
text=$(curl -s "http://127.0.0.1:$port/metrics")

# says METRIC DEVICE VALUE
says() {
	grep -qE "^node_infiniband_$1\{device=\"$2\",port=\"1\"\} $3\$" <<<"$text" && return
	echo "does not hold: $1 of $2 is $3; there is:" >&2
	grep "_$1" <<<"$text" >&2
	failures=$((failures + 1))
}
prints collector_succeeds 'node_scrape_collector_success{collector="infiniband"} 1' \
	grep '^node_scrape_collector_success{' <(echo "$text")
says port_data_transmitted_bytes_total any0 '4\.096e\+06'
says port_data_received_bytes_total any0 '4\.096e\+06'
says unicast_packets_received_total any0 '[0-9.e+]*[1-9][0-9.e+]*'
says symbol_error_total any0 0
says link_downed_total any0 0
says state_id any0 4
says port_data_transmitted_bytes_total mlx5_0 0
finish
