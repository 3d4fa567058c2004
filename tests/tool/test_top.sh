#!/bin/bash
# SPDX-License-Identifier: MIT
# "anyverbs top" and "anyverbs stat" while ibv_rc_pingpong -o runs: what they say of processes and
# queue pairs, keys and the size of a terminal, and what becomes of a process that is killed.
# Usage: test_top.sh TOOL
. "$(dirname "$0")/lib.sh"
here=$(dirname "$0")
export ANYVERBS_DEVICES=any0,any1 LC_ALL=C
for program in ibv_rc_pingpong python3; do
	command -v $program >/dev/null || { echo "there is no $program"; exit 77; }
done
ANYVERBS_DIR=$(mktemp -d -p /dev/shm anyverbs-test-XXXXXX)
export ANYVERBS_DIR
work=$(mktemp -d)
socket=$work/tmux
pids=()
stop() {
	[ ${#pids[@]} = 0 ] || kill -KILL "${pids[@]}" 2>/dev/null
	wait 2>/dev/null
	pids=()
}
trap 'tmux -S "$socket" kill-server 2>/dev/null; stop; rm -rf "$ANYVERBS_DIR" "$work"' EXIT

exits no_terminal_is_1 1 "$tool" top
exits unknown_device_is_1 1 "$tool" top -b nosuch0
for options in "-n 0" "-n x" "-d 0" "-d x" "-s nosuch" "-x" "any0 any1"; do
	exits "options_make_no_sense: $options" 2 "$tool" top $options
done
holds nobody_no_rows test "$("$tool" top -b -n 1 -d 0.01 | wc -l)" = 5
holds nothing_is_left test -z "$(ls -A "$ANYVERBS_DIR")"

# --- two that go on until they are killed ---
# As shells replaced by the program, so that the process is known.
pingpong() {
	exec "$tool" run -- ibv_rc_pingpong -d any0 -g 0 -o -s 65536 -n 1000000000 -p "$@" \
		>/dev/null 2>&1
}
next_port 13000
(pingpong "$port") &
pids=($!)
wait_for listens "$port" || exit 1
(pingpong "$port" localhost) &
pids+=($!)
# comes RULE COMMAND...: at last it succeeds
comes() {
	holds "$1" wait_for "${@:2}"
}
server=${pids[0]} client=${pids[1]}
busy() { [ "$("$tool" stat qp any0 | awk 'NR > 2 && $4 == "RTS" && $9 > 1000000' | wc -l)" = 2 ]; }
comes both_send busy

# --- stat ---
text=$("$tool" stat process any0)
for pid in "${pids[@]}"; do
	says "process_$pid" "^ +$pid +[1-9][0-9]+ +[1-9][0-9]+ +[1-9]" "$text"
done
counters() {
	"$tool" stat "$@" --json | python3 -c 'import json, sys
for d in json.load(sys.stdin)["devices"]:
    for name in ("qps", "cqs", "processes"):
        for row in d.get(name, []): print(d["device"], *(f"{k}={v}" for k, v in row.items()))
    for c in d.get("counters", []): print(d["device"], c["counter"], c["value"])'
}
text=$(counters qp)
says qp_of_the_client "^any0 pid=$client qpn=[0-9]+ type=RC state=RTS .* sends=[1-9]" "$text"
holds qps_of_any0_only test "$(wc -l <<<"$text")" = 2
text=$(counters cq)
says cq_of_the_server "^any0 pid=$server cq=[0-9]+ completions=[1-9].* capacity=[1-9]" "$text"
says cq_has_waited "^any0 pid=$server .* capacity=[1-9][0-9]* waiting=[0-9]+ peak=[1-9]" "$text"
text=$(counters device)
says two_processes '^any0 processes 2$' "$text"
says two_regions '^any0 mrs 2$' "$text"
says their_bytes '^any0 registered_bytes 131072$' "$text"
says page_faults '^any0 num_page_faults [1-9]' "$text"
says other_device_is_idle '^any1 xmit_bytes 0$' "$text"
for group in device port process qp cq; do
	says "prometheus_$group" '^[1-9][0-9]* families, [1-9][0-9]* samples$' \
		"$("$tool" stat $group -p | python3 "$here/prometheus.py")"
done
exits records 0 "$tool" stat any0 -w0.2 -n 3 -o "$work/r.csv"
records_growth() {
	"$tool" stat any0 -w0.2 -n 3 -o "$work/r.csv" >/dev/null &&
		[ "$(awk -F, 'NR > 1 { print $3 }' "$work/r.csv" | sort -nu | wc -l)" -ge 2 ]
}
comes recording_grows records_growth
exits plots 0 "$tool" plot "$work/r.csv" -o "$work/r.svg"

exits port_goes_down 0 "$tool" event any0 port-err
exits and_up 0 "$tool" event any0 port-active
says it_went_down_once '^  link_downed +1 ' "$("$tool" stat port any0)"
says the_other_did_not '^  link_downed +0 ' "$("$tool" stat port any1)"

# --- top as text ---
# look_twice: in $text; messages were sent in between, by whoever had a core
look_twice() {
	text=$("$tool" top -b -n 2 -d 0.3 any0)
	grep -qE ' [1-9][0-9]* msgs/s' <<<"$text"
}
comes messages_are_counted look_twice
holds a_heading_for_each_look test "$(grep -c '^ *PID ' <<<"$text")" = 2
says objects_of_the_device '^any0: 2 processes, 2 QPs, 0 errors, 0\.1 MB registered$' "$text"
says rates_of_the_device \
	'^  [0-9.]+ MB/s sent, [0-9.]+ MB/s received, [1-9][0-9]* msgs/s, [0-9]+ faults/s$' "$text"
holds sums_fit_80_columns test -z "$(grep -B 1 'MB/s sent' <<<"$text" | grep -E '.{81}')"
says row_of_the_client \
	"^ *$client +1 +[0-9.]+ +[0-9.]+ +[0-9]+ +[0-9]+ +0 +0\.1 any0 +ibv_rc_pingpong$" "$text"
says names_fit_80_columns "any0 +ibv_rc_ping" "$(cut -c1-80 <<<"$text" | grep -E "^ *$client ")"
by_pid=$("$tool" top -b -n 1 -d 0.1 -s pid any0 | awk '$NF == "ibv_rc_pingpong" { print $1 }')
holds sorted_by_pid test "$(xargs <<<"$by_pid")" = "$(printf '%s\n' "${pids[@]}" | sort -n | xargs)"
holds only_the_device test -z "$("$tool" top -b -n 1 -d 0.1 any1 | grep pingpong)"

# --- top on a terminal ---
if command -v tmux >/dev/null; then
	screen() { tmux -S "$socket" capture-pane -p -t top 2>/dev/null; }
	shows() { screen | grep -qE -e "$1"; }
	hides() { ! shows "$1"; }
	press() { tmux -S "$socket" send-keys -t top "$@"; }
	ended() { ! tmux -S "$socket" list-sessions >/dev/null 2>&1; }
	tmux -S "$socket" -f /dev/null new-session -d -s top -x 120 -y 20 "'$tool' top -d 0.3"
	comes live_rows shows "^ *$client +1 .* ibv_rc_pingpong"
	comes live_devices shows '^any1: 0 processes'
	press m
	comes sorts_by_messages shows 'by MSGS;'
	press R
	comes the_other_way_round shows 'by MSGS \(smallest first\)'
	press h
	comes help shows 'sort by REGMB'
	press h
	comes help_goes hides 'sort by REGMB'
	press d
	comes first_device_only hides '^any1:'
	press d
	comes second_device_only hides "^any0:"
	press d
	comes all_devices shows "^any0:"
	tmux -S "$socket" resize-window -t top -x 40 -y 8
	comes small_window_has_rows shows '^ +[0-9]+ +1 +'
	holds small_window_is_not_overrun test "$(screen | wc -l)" -le 8
	tmux -S "$socket" resize-window -t top -x 130 -y 24
	comes large_window_again shows "^ *$client +1 .* ibv_rc_pingpong"
	# The server may find that its peer is gone, and end, too.
	# Somebody stays, so that the counts do.
	(exec "$tool" run -- stdbuf -oL ibv_asyncwatch -d any1 >"$work/watcher" 2>&1) &
	pids+=($!)
	comes somebody_else_is_there grep -q FD "$work/watcher"
	before=$("$tool" stat device any0 | awk '$1 == "rcv_bytes" { print $2 }')
	kill -KILL "$client"
	comes killed_one_goes hides "^ *$client "
	press q
	comes quits ended
	after=$("$tool" stat device any0 | awk '$1 == "rcv_bytes" { print $2 }')
	holds nothing_counted_is_lost test "$after" -ge "$before"
fi
stop
finish
