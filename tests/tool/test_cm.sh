#!/bin/bash
# SPDX-License-Identifier: MIT
# Connections that do not come about say why, and who listens where is shown; in a network namespace
# of our own.
# Usage: test_cm.sh TOOL
export ASAN_OPTIONS=detect_leaks=0 # programs that are not ours may leak
. "$(dirname "$0")/lib.sh"

command -v rping >/dev/null || skip "no rping here"
on_a_host_of_our_own

# says TEXT COMMAND...: it fails, and its explanation has that text
says() {
	local text=$1 said
	shift
	said=$(ANYVERBS_EXPLAIN=1 timeout 60 "$tool" run -- "$@" 2>&1) && return 1
	grep -qF -- "$text" <<<"$said"
}

cm_listens() {
	"$tool" stat cm --json | grep -q "\"port\": *$1"
}

holds "nobody listens" says "rdma_connect: nobody listens on port 7174 of 192.0.2.1 (" \
	rping -c -a 192.0.2.1 -C 1

"$tool" run -- rping -s -a 192.0.2.1 -p 7200 -C 1 >/dev/null 2>&1 &
server=$!
wait_for cm_listens 7200

holds "another port" says "port 7174 of 192.0.2.1: 1 listener(s) of this host have other ports" \
	rping -c -a 192.0.2.1 -C 1
holds "another kind of queue pair" says "nobody listens on port 7174 of 192.0.2.1 (" \
	udaddy -s 192.0.2.1
holds "a port that is taken" says "rdma_bind_addr: port 7200 of 192.0.2.1 is taken" \
	rping -s -a 192.0.2.1 -p 7200 -C 1
holds "an address that is no device's" says "192.0.2.9 is not an address of any device" \
	rping -s -a 192.0.2.9 -C 1
holds "no route" says "this host knows no way to 203.0.113.1" rping -c -a 203.0.113.1 -C 1
holds "no host" says "no packets reach it, for want of a route or of a neighbour" \
	rping -c -a 192.0.2.7 -C 1

holds "what the program has named" \
	says "nobody listens on port 7174 of 127.0.0.1 (taken for 192.0.2.1): 1 listener(s) of" \
	rping -c -a 127.0.0.1 -C 1

row=$("$tool" stat cm | grep " 7200 ")
holds "who listens" grep -qE "^ +[0-9]+  TCP +192\.0\.2\.1 +7200  listens$" <<<"$row"
"$tool" run -- rping -s -a 127.0.0.1 -p 7201 -C 1 >/dev/null 2>&1 &
everywhere=$!
wait_for cm_listens 7201
row=$("$tool" stat cm | grep " 7201 ")
holds "who listens at loopback" grep -qE "^ +[0-9]+  TCP +127\.0\.0\.1 +7201  listens$" <<<"$row"
holds "a port that is taken by who listens everywhere" \
	says "rdma_bind_addr: port 7201 of 192.0.2.1 is taken" rping -s -a 192.0.2.1 -p 7201 -C 1
holds "loopback hears other addresses" \
	timeout 60 "$tool" run -- rping -c -a 192.0.2.1 -p 7201 -C 1
wait "$everywhere"
holds "as an object" grep -q '"space": *"TCP"' <<<"$("$tool" stat cm --json)"

# Messages by UDP come to any process that shares the port, whatever it does itself.
export ANYVERBS_TRANSPORT=wire
others=()
for port in {7301..7303}; do
	"$tool" run -- ibv_rc_pingpong -e -g 0 -p "$port" -n 100000000 >/dev/null 2>&1 &
	others+=($!)
	wait_for listens "$port"
	"$tool" run -- ibv_rc_pingpong -e -g 0 -p "$port" -n 100000000 192.0.2.1 >/dev/null 2>&1 &
	others+=($!)
done
all_send() {
	[ "$("$tool" stat qp | awk '$4 == "RTS" && $9 > 0' | wc -l)" = ${#others[@]} ]
}
holds "others send" wait_for all_send
"$tool" run -- rdma_server >/dev/null 2>&1 &
answering=$!
wait_for cm_listens 7471
holds "beside others that share the port" timeout 60 "$tool" run -- rdma_client -s 192.0.2.1
kill "${others[@]}" "$answering" 2>/dev/null

finish
