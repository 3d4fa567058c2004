#!/bin/bash
# SPDX-License-Identifier: MIT
# "anyverbs capture" and ANYVERBS_CAPTURE: beginning and ending while programs run, and what must
# not disturb those. What is in the file is for tests/multi/observe/test_capture.c and
# tests/clients/capture.py.
# Usage: test_capture.sh TOOL
. "$(dirname "$0")/lib.sh"
unset ANYVERBS_CAPTURE

command -v ibv_rc_pingpong >/dev/null || skip "no ibv_rc_pingpong here"
command -v tshark >/dev/null && command -v capinfos >/dev/null || skip "no tshark here"
"$tool" run -- ibv_devices >/dev/null 2>&1 || skip "the library cannot be preloaded here"
if [ "${IN_NAMESPACE:-}" != yes ] && unshare -rm true 2>/dev/null; then
	IN_NAMESPACE=yes exec unshare -rm "$0" "$tool" # to mount a small disk
fi
ANYVERBS_DIR=$(mktemp -d)
export ANYVERBS_DIR LC_ALL=C
file=$ANYVERBS_DIR/file.pcapng
programs=()
trap 'kill -9 "${programs[@]}" 2>/dev/null; wait
	umount "$ANYVERBS_DIR/small" 2>/dev/null; rm -r "$ANYVERBS_DIR"' EXIT

# pingpong ARGUMENT...: run a pair to its end
pingpong() {
	local server status
	next_port 12000
	"$tool" run -- ibv_rc_pingpong -d any0 -g 0 -p "$port" "$@" \
		>/dev/null 2>>"$ANYVERBS_DIR/log" &
	server=$!
	wait_for listens "$port"
	"$tool" run -- timeout 200 ibv_rc_pingpong -d any0 -g 0 -p "$port" "$@" 127.0.0.1 \
		>/dev/null 2>>"$ANYVERBS_DIR/log"
	status=$?
	[ $status = 0 ] || kill -9 $server
	wait $server && return $status
}

# traffic: a pair that runs until it is killed, asleep in between
traffic() {
	next_port 12000
	"$tool" run -- ibv_rc_pingpong -d any0 -g 0 -e -n 1000000000 -s 700 -p "$port" \
		>/dev/null 2>&1 &
	programs+=($!)
	wait_for listens "$port"
	"$tool" run -- ibv_rc_pingpong -d any0 -g 0 -e -n 1000000000 -s 700 -p "$port" 127.0.0.1 \
		>/dev/null 2>&1 &
	programs+=($!)
}

frames() {
	capinfos -T -r -m -c "$1" 2>/dev/null | cut -d, -f2
}

# Is it there whole, as Wireshark reads it?
whole() {
	local complaint
	complaint=$(capinfos "$1" 2>&1 >/dev/null)
	[ -z "$complaint" ] || echo "$complaint"
	[ -z "$complaint" ]
}

# Has it grown since the last look?
grown() {
	local before=$size
	size=$(stat -c %s "$file")
	[ "$size" -gt "$before" ]
}

grows() {
	size=$((1 << 62)) # none has been seen
	wait_for grown
}

# rests SECONDS: time in which it would grow
rests() {
	grown
	sleep "$1"
	! grown
}

exits no_file_is_2 2 "$tool" capture
exits stray_argument_is_2 2 "$tool" capture -o "$file" any0
exits no_number_is_2 2 "$tool" capture -o "$file" -n x
exits zero_frames_are_2 2 "$tool" capture -o "$file" -n 0
exits unknown_device_is_1 1 "$tool" capture -o "$file" -d nosuch0
exits unknown_folder_is_1 1 "$tool" capture -o "$ANYVERBS_DIR/none/file"
exits no_regular_file_is_1 1 "$tool" capture -o /dev/null
holds nobody_there "$tool" capture -o "$file" --seconds 1
holds empty_capture_is_a_file whole "$file"

traffic
says count_is_told '^100 frames in ' "$("$tool" capture -o "$file" -n 100 2>/dev/null)"
holds count_is_exact test "$(frames "$file")" = 100
holds count_is_whole whole "$file"
holds what_was_in_the_file_is_lost "$tool" capture -o "$file" -n 3 -d any0
holds count_is_exact_again test "$(frames "$file")" = 3
holds snaplen "$tool" capture -o "$file" -n 50 -s 60
holds snaplen_cuts \
	test "$(tshark -r "$file" -T fields -e frame.cap_len 2>/dev/null | sort -n | tail -1)" = 60
holds snaplen_keeps_the_length \
	test "$(tshark -r "$file" -T fields -e frame.len 2>/dev/null | sort -n | tail -1)" = 758
says size_is_told '^anyverbs: capture ended: the file has the size of --size, 0\.2 MB' \
	"$("$tool" capture -o "$file" --size 200K 2>&1 >/dev/null)"
holds size_is_reached test "$(stat -c %s "$file")" -ge 200000
holds size_is_whole whole "$file"
says growth_is_told '^[0-9]+ frames in .*: [0-9]+\.[0-9] MB in [0-9.]+ s$' \
	"$("$tool" capture -o "$file" --size 200K 2>/dev/null)"
if command -v python3 >/dev/null; then
	says growth_is_shown_on_a_terminal '[0-9]+ frames +[0-9.]+ MB' "$(python3 -c '
import pty, sys
pty.spawn(sys.argv[1:])' "$tool" capture -o "$file" --seconds 3 </dev/null)"
fi
holds other_devices_traffic env ANYVERBS_DEVICES=any0,any1 \
	"$tool" capture -o "$file" -d any1 --seconds 1
holds other_devices_traffic_is_left_out test "$(frames "$file")" = 0

for signal in INT TERM HUP; do
	"$tool" capture -o "$file" >"$ANYVERBS_DIR/said" 2>/dev/null &
	capture=$!
	holds "captures_until_SIG$signal" grows
	kill -$signal $capture
	holds "SIG${signal}_is_no_failure" wait $capture
	holds "after_SIG${signal}_nothing_is_written" rests 0.5
	holds "all_are_told" test "$(sed -n 's/ frames in .*//p' "$ANYVERBS_DIR/said")" = \
		"$(frames "$file")"
	holds "file_is_whole_after_SIG$signal" whole "$file"
done

"$tool" capture -o "$file" >/dev/null 2>&1 &
capture=$!
holds captures_until_killed grows
kill -9 $capture
wait $capture 2>/dev/null
holds nobody_writes_for_a_dead_capture wait_for rests 2 # who writes may wait for a core
holds file_is_whole_without_its_capture whole "$file"
says another_capture_can_begin '^20 frames in ' "$("$tool" capture -o "$file" -n 20 2>/dev/null)"

"$tool" capture -o "$file" >/dev/null 2>&1 &
capture=$!
programs+=($capture)
holds captures_the_old grows
kill -9 "${programs[0]}" "${programs[1]}"
wait "${programs[0]}" "${programs[1]}" 2>/dev/null
holds captures_the_new pingpong -n 100
kill -INT $capture
holds programs_may_die wait $capture
holds new_programs_are_there test "$(frames "$file")" -gt 400

says variable_captures '^0$' "$(ANYVERBS_CAPTURE=$ANYVERBS_DIR/own pingpong -n 10 -s 100; echo $?)"
holds both_write_to_one_file test "$(frames "$ANYVERBS_DIR/own")" = 40
says variable_adds '^0$' "$(ANYVERBS_CAPTURE=$ANYVERBS_DIR/own pingpong -n 10 -s 100; echo $?)"
holds variable_adds_to_a_file test "$(frames "$ANYVERBS_DIR/own")" = 80
holds own_file_is_whole whole "$ANYVERBS_DIR/own"
"$tool" capture -o "$file" >/dev/null 2>"$ANYVERBS_DIR/said" &
capture=$!
wait_for grep -q '^capturing' "$ANYVERBS_DIR/said"
ANYVERBS_CAPTURE=$ANYVERBS_DIR/own pingpong -n 10 -s 100
kill $capture
wait $capture
holds "both_captures_at_a_time" test "$(frames "$file") $(frames "$ANYVERBS_DIR/own")" = "40 120"

echo "not a capture" >"$ANYVERBS_DIR/text"
: >"$ANYVERBS_DIR/log"
says text_disturbs_nobody '^0$' "$(ANYVERBS_CAPTURE=$ANYVERBS_DIR/text pingpong -n 10; echo $?)"
holds text_is_left_alone test "$(cat "$ANYVERBS_DIR/text")" = "not a capture"
says text_is_complained_of 'another kind' "$(cat "$ANYVERBS_DIR/log")"
mkfifo "$ANYVERBS_DIR/fifo"
says fifo_holds_nobody_up '^0$' "$(ANYVERBS_CAPTURE=$ANYVERBS_DIR/fifo pingpong -n 10; echo $?)"
says no_such_folder_disturbs_nobody '^0$' \
	"$(ANYVERBS_CAPTURE=$ANYVERBS_DIR/none/file pingpong -n 10; echo $?)"

mkdir "$ANYVERBS_DIR/small"
if [ "${IN_NAMESPACE:-}" = yes ] &&
	mount -t tmpfs -o size=128k none "$ANYVERBS_DIR/small" 2>/dev/null; then
	: >"$ANYVERBS_DIR/log"
	says full_disk_disturbs_nobody '^0$' \
		"$(ANYVERBS_CAPTURE=$ANYVERBS_DIR/small/file pingpong -n 200; echo $?)"
	holds full_disk_is_full test "$(stat -c %s "$ANYVERBS_DIR/small/file")" -gt 60000
	holds full_disk_ends_with_a_whole_block whole "$ANYVERBS_DIR/small/file"
	rm "$ANYVERBS_DIR/small/file"
	"$tool" capture -o "$ANYVERBS_DIR/small/file" >/dev/null 2>"$ANYVERBS_DIR/said" &
	capture=$!
	wait_for grep -q '^capturing' "$ANYVERBS_DIR/said"
	holds full_disk_disturbs_nobody_again pingpong -n 200
	status=0
	wait $capture || status=$?
	holds full_disk_is_a_failure test $status = 1
	says full_disk_is_told 'No space left' "$(cat "$ANYVERBS_DIR/said")"
	holds full_disk_is_whole_again whole "$ANYVERBS_DIR/small/file"
fi
finish
