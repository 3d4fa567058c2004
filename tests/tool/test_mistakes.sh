#!/bin/bash
# SPDX-License-Identifier: MIT
# What "anyverbs explain" says of Debian's clients: nothing when all is well, and the cause when an
# option is wrong. Mistakes of programs are in multi/explain; those of rdma_cm in test_cm.sh.
# Usage: test_mistakes.sh TOOL
export ASAN_OPTIONS=detect_leaks=0 # programs that are not ours may leak
. "$(dirname "$0")/lib.sh"

command -v ibv_rc_pingpong >/dev/null || skip "no ibv_rc_pingpong here"
on_a_host_of_our_own

# Does the server listen there, by TCP or by the connection manager? One that has ended never will.
is_settled() {
	listens "$1" || ! kill -0 $server 2>/dev/null ||
		"$tool" stat cm --json | grep -q "\"port\": *$1"
}

# Before it is a program of its own, a signal would end it by our trap, which removes the folder.
client_has_begun() {
	! [ "/proc/$client/exe" -ef "/proc/$$/exe" ]
}

client_has_ended() {
	! kill -0 $client 2>/dev/null
}

# told PATTERN: a first line of an explanation matches the extended regular expression
told() {
	"$tool" explain | grep -v '^ ' | grep -E -e "$1" >/dev/null
}

# pair PORT SERVER -- CLIENT: starts both; only what they leave in the recorder matters
pair() {
	local port=$1 first=()
	shift
	while [ "$1" != -- ]; do
		first+=("$1")
		shift
	done
	shift
	rm -rf "${ANYVERBS_DIR:?}"/*
	timeout 200 "$tool" run -- "${first[@]}" >/dev/null 2>&1 &
	server=$!
	wait_for is_settled "$port"
	timeout 200 "$tool" run -- "$@" >/dev/null 2>&1 &
	client=$!
	wait_for client_has_begun
}

# end_pair COMMAND...: when that succeeds
end_pair() {
	wait_for "$@"
	kill $server $client 2>/dev/null
	wait $server $client 2>/dev/null
}

# healthy PORT COMMAND...: the client gets the server's address
healthy() {
	local port=$1
	shift
	command -v "$1" >/dev/null || return
	pair "$port" "$@" -- "$@" 192.0.2.1
	end_pair client_has_ended
	holds "nothing is told of $*" test -z "$("$tool" explain)"
}

healthy 18515 ibv_rc_pingpong -g 0
healthy 18515 ibv_uc_pingpong -g 0
healthy 18515 ibv_ud_pingpong -g 0
healthy 18515 ibv_srq_pingpong -g 0
healthy 18515 ib_write_bw -d any0 -F -n 100
healthy 18515 ib_send_lat -d any0 -F -n 100 -c UD
healthy 18515 ib_atomic_bw -d any0 -F -n 100
healthy 47592 fi_pingpong -p verbs -e msg

if command -v rping >/dev/null; then
	# It may close its channel before a thread of it begins to wait there: docs/PROGRAMS.md.
	pair 7174 rping -s -a 192.0.2.1 -C 5 -- rping -c -a 192.0.2.1 -C 5
	end_pair client_has_ended
	said=$("$tool" explain | grep -v " any0: rdma_get_cm_event: it failed (EBADF)$")
	holds "nothing else is told of rping" test -z "$said"
fi

# mistaken LINE SERVER -- CLIENT: some first line says that
mistaken() {
	local line=$1
	shift
	command -v "$1" >/dev/null || return
	pair 18515 "$@"
	end_pair told "$line"
	says "$*" "$line" "$("$tool" explain | grep -v '^ ')"
}

here=192.0.2.1
qp='QP 0x[0-9a-f]{6}'
refused="any0: ibv_modify_qp of $qp:"
peer="\(peer: $qp of pid [0-9]+\)"
mistaken "ibv_rc_pingpong\[[0-9]+\] $refused port_num 2; the device has 1 port" \
	ibv_rc_pingpong -i 2 -g 0 -- ibv_rc_pingpong -i 2 -g 0 $here
lids="a program that knows only LIDs runs with ANYVERBS_DEVICES=any0:link=infiniband"
mistaken "$refused on Ethernet, an address vector needs a GRH; $lids" \
	ibv_rc_pingpong -- ibv_rc_pingpong $here
mistaken "$refused row 9 of the GID table is empty" \
	ib_write_bw -d any0 -F -x 9 -- ib_write_bw -d any0 -F -x 9 $here
mistaken "$qp: SEND: nobody answers: $qp is of type RC, this one needs UC \(dropped" \
	ibv_rc_pingpong -g 0 -- ibv_uc_pingpong -g 0 $here
text="a message of 4096 B does not fit the receive request of 1024 B"
mistaken "ibv_rc_pingpong\[[0-9]+\] any0: $qp: peer's SEND: $text $peer \(.*, wr_id 1\)" \
	ibv_rc_pingpong -g 0 -s 1024 -- ibv_rc_pingpong -g 0 -s 4096 $here
text="a datagram of 200 B does not fit the receive request of 140 B: its first 40 B are for the GRH"
mistaken "ibv_ud_pingpong\[[0-9]+\] any0: $qp: peer's SEND: $text $peer \(dropped" \
	ibv_ud_pingpong -g 0 -s 100 -- ibv_ud_pingpong -g 0 -s 200 $here

# Limits of the process.
limited() {
	rm -rf "${ANYVERBS_DIR:?}"/*
	(ulimit "$@" && "$tool" run -- ibv_devinfo -d any0 >/dev/null 2>&1)
	"$tool" explain
}
says "ulimit -f" "any0: ibv_open_device: the system refuses the context's memory: .* \(EFBIG\)" \
	"$(limited -f 100000)"

# A /dev/shm as small as a container may have.
small() {
	unshare -m bash -c 'mount -t tmpfs -o size=300k none "$ANYVERBS_DIR" || exit 77
		"$@" 2>&1' small "$@"
}
said=$(small "$tool" run -- ibv_devinfo -d any0)
if [ $? != 77 ]; then
	numbers='[0-9]+ KiB are needed, 300 KiB are free'
	says "small folder" "warn: .* is too small or full: $numbers" "$said"
	says "small folder, explained" "any0: ibv_open_device: .* $numbers" \
		"$(ANYVERBS_EXPLAIN=1 small "$tool" run -- ibv_devinfo -d any0)"
	says "small folder, doctor" "Too small or full: devices cannot be opened" \
		"$(small "$tool" doctor)"
fi
finish
