#!/bin/bash
# SPDX-License-Identifier: MIT
# The network as "anyverbs doctor" finds it, in a namespace of our own: loopback, and UDP port 4791,
# free, shared, taken, behind a firewall; and what programs say and do where it is taken.
# Usage: test_doctor_port.sh TOOL
export ASAN_OPTIONS=detect_leaks=0 # programs that are not ours may leak
. "$(dirname "$0")/lib.sh"

in_network_namespace

ANYVERBS_DIR=$(mktemp -d)
export ANYVERBS_DIR ANYVERBS_DEVICES=any0
trap 'kill $holder 2>/dev/null; wait; rm -r "$ANYVERBS_DIR"' EXIT
holder=
says loopback_is_down '^limited  Loopback interface: down$' "$("$tool" doctor)"
ip link set lo up
says loopback_is_up '^ok +Loopback interface: up$' "$("$tool" doctor)"
ip link add here type veth peer name there
ip address add 10.9.0.1/24 dev here
ip link set here up
ip link set there up

port() {
	"$tool" doctor | grep -A 2 'UDP port 4791'
}

# hold SHARED: a process that has the port of one address, until it is killed
hold() {
	python3 - "$1" >"$ANYVERBS_DIR/held" <<-'PYTHON' &
		import socket, sys, time
		s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
		s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, int(sys.argv[1]))
		s.bind(("10.9.0.1", 4791))
		print("held", flush=True)
		time.sleep(1000)
	PYTHON
	holder=$!
	wait_for grep -qs held "$ANYVERBS_DIR/held"
}

let_go() {
	kill "$holder"
	wait "$holder"
	holder=
	rm "$ANYVERBS_DIR/held"
}

# Two programs talk by way of ANYVERBS_TRANSPORT. Prints what both say. Status: the client's
pingpong() {
	local server status=0
	timeout 60 "$tool" run -- ibv_rc_pingpong -g "$row" 2>&1 &
	server=$!
	wait_for listens 18515
	timeout 60 "$tool" run -- ibv_rc_pingpong -g "$row" localhost 2>&1 || status=$?
	wait "$server"
	return $status
}

program_says() {
	ANYVERBS_TRANSPORT=wire pingpong
}

row=$("$tool" run -- sh -c 'grep -l 0000:ffff:0a09:0001 \
	/sys/class/infiniband/any0/ports/1/gids/*' | tail -n 1)
row=${row##*/}
holds the_address_has_a_row test -n "$row"

text=$(port)
says free_is_found '^ok +UDP port 4791: all addresses: free' "$text"
says packets_of_programs_arrive iters "$(program_says)"

hold 1
text=$(port)
says shared_is_found '^ok +UDP port 4791: 10.9.0.1: used by programs of this user' "$text"
says another_directorys_is_told 'warn: UDP port 4791 of 10.9.0.1 is taken, .*ANYVERBS_DIR' \
	"$(program_says)"
let_go

hold 0
text=$(port)
says taken_is_found '^limited +UDP port 4791: 10.9.0.1: taken' "$text"
says taken_is_told 'warn: UDP port 4791 of 10.9.0.1 is taken' "$(program_says)"
says taken_is_explained 'ibv_modify_qp.*UDP port 4791 of this host.s address is taken' \
	"$("$tool" explain)"
exits on_this_host_it_works 0 pingpong
let_go

if command -v nft >/dev/null && nft add table inet t 2>/dev/null; then
	nft add chain inet t in '{ type filter hook input priority 0; }'
	nft add rule inet t in udp dport 4791 drop
	text=$(port)
	says a_firewall_is_found '^limited +UDP port 4791: .*does not arrive' "$text"
else
	echo "not tried: a firewall, which wants nft(8)"
fi
finish
