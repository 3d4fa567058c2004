#!/bin/bash
# SPDX-License-Identifier: MIT
# "anyverbs pair" with programs as Debian ships them: what each side is given, what is shown, and
# the exit status; and that nothing is left behind, however it ends.
# Usage: test_pair.sh TOOL
. "$(dirname "$0")/lib.sh"
"$tool" run -- ibv_devices >/dev/null 2>&1 || skip "the library cannot be preloaded here"
export ASAN_OPTIONS=detect_leaks=0 # programs that are not ours may leak
ANYVERBS_DIR=$(mktemp -d)
export ANYVERBS_DIR
trap 'rm -r "$ANYVERBS_DIR"' EXIT
out=$ANYVERBS_DIR/out
err=$ANYVERBS_DIR/err

# pair WORD...: run it; what it says is in $out and $err
pair() {
	"$tool" pair "$@" >"$out" 2>"$err" </dev/null
}

# --- programs of the table: the line | the server | the client; & is the line, N a port ---
rows=0
while IFS='|' read -r line server client; do
	read -ra words <<<"$line"
	command -v "${words[0]}" >/dev/null || continue
	[ "${words[0]}" = cmtime ] && cmtime -h 2>&1 | grep -q controller && continue
	rows=$((rows + 1))
	pair -t 100 -- "${words[@]}"
	status=$?
	# rping sometimes exits so after a good run: docs/PROGRAMS.md.
	[ "${words[0]} $status" = "rping 255" ] || holds "works: $line" test $status = 0
	said=$(sed -E 's/(-[pBP]|-lp) [0-9]+/\1 N/' "$out")
	holds "server: $line" grep -qxF "server| \$ ${server/&/"$line"}" <<<"$said"
	holds "client: $line" grep -qxF "client| \$ ${client/&/"$line"}" <<<"$said"
done <<'END'
ibv_rc_pingpong -d any0 -g 0 -n 100|& -p N|& -p N localhost
ibv_ud_pingpong -d any0 -g 0 -n 10|& -p N|& -p N localhost
ib_write_bw -d any0 -F -n 100|& -p N|& -p N localhost
ib_send_lat -R -F -n 100|& -p N|& -p N localhost
ib_read_lat -d any0 -F -n 100|& -p N|& -p N localhost
timeout 60 ib_write_bw -d any0 -F -n 100|& -p N|& -p N localhost
ib_read_bw localhost -d any0 -F|ib_read_bw -d any0 -F -p N|ib_read_bw -d any0 -F -p N localhost
rping -C 3|& -s -a 127.0.0.1 -p N|& -c -a 127.0.0.1 -p N
rping -s -C 3|& -a 127.0.0.1 -p N|rping -C 3 -c -a 127.0.0.1 -p N
rping -C 3 -c|rping -C 3 -s -a 127.0.0.1 -p N|& -a 127.0.0.1 -p N
rping -C 3 -vs|& -s -a 127.0.0.1 -p N|rping -C 3 -v -c -a 127.0.0.1 -p N
ucmatose -s 127.0.0.1|ucmatose -p N|& -p N
ucmatose|& -p N|& -p N -s 127.0.0.1
udaddy|&|& -s 127.0.0.1
cmtime -c 3|& -p N|& -p N -s 127.0.0.1
rstream -T s -S 64 -C 10|& -p N|& -p N -s 127.0.0.1
riostream -S 64 -C 10|& -p N|& -p N -s 127.0.0.1
rdma_server|& -p N|rdma_client -p N -s 127.0.0.1
rdma_xserver|& -p N|rdma_xclient -p N -s 127.0.0.1
qperf -cm 1 -t 1 rc_bw|qperf -lp N|qperf localhost -lp N -cm 1 -t 1 rc_bw
fi_pingpong -p verbs;ofi_rxd -e rdm -I 10|& -B N|& -P N localhost
ucx_perftest -t tag_lat -n 10|& -p N|& -p N localhost
END
echo "programs of the table that are here: $rows"

# cmtime of rdma-core 59 and later says so in its usage.
cat >"$ANYVERBS_DIR/cmtime" <<'END'
#!/bin/sh
case $1 in
-h) echo '-C controller_address' >&2 ;;
-L) until [ -e "$0.done" ]; do sleep 0.1; done ;;
*) : >"$0.done" ;;
esac
END
chmod +x "$ANYVERBS_DIR/cmtime"
holds new_cmtime pair -w 0.1 -- "$ANYVERBS_DIR/cmtime" -L
said=$(sed -E 's/-p [0-9]+/-p N/; s/ [^ ]*cmtime/ cmtime/' "$out")
says new_cmtime_serves '^server\| \$ cmtime -L -b 127.0.0.1 -C localhost -p N$' "$said"
says new_cmtime_calls '^client\| \$ cmtime -b 127.0.0.1 -C localhost -p N$' "$said"

# --- others, in full ---
listener='import os, socket, sys, time
s = socket.create_server(("", int(sys.argv[1])))
time.sleep(float(sys.argv[2]))
s.accept()[0].sendall(b"hello\n")'
caller='import socket, sys
print(socket.create_connection((sys.argv[1], int(sys.argv[2]))).recv(9).decode(), end="")'
holds own_programs \
	pair -- python3 -c "$listener" '{port}' 0 --- python3 -c "$caller" '{host}' '{port}'
says own_client_is_heard '^client\| hello$' "$(cat "$out")"
# A server ends when its client has been there.
go=$ANYVERBS_DIR/go
until_go='until [ -e "$0" ]; do sleep 0.1; done'
# It may be in a process group or a session of its own, and its parent may have ended.
for start in 'timeout 100 "$@"; exit' 'setsid -w "$@"; exit' "(setsid \"\$@\" &); $until_go"; do
	rm -f "$go"
	holds "works: $start" pair -w 60 -- \
		sh -c "$start" "$go" python3 -c "$listener" '{port}' 0 --- \
		sh -c '"$@"; : >"$0"' "$go" python3 -c "$caller" '{host}' '{port}'
	holds "is seen to listen: $start" test -z "$(cat "$err")"
done
rm "$go"
holds any_bytes_are_shown pair -w 0.1 -- \
	sh -c "printf 'a\\0b\\nc\\r\\377'; $until_go" "$go" --- sh -c ': >"$0"' "$go"
holds all_of_them grep -qaP '^server\| a\x00b$' "$out"
holds and_what_has_no_end grep -qaP '^server\| c\r\xff$' "$out"
rm "$go"
holds each_port_and_host_of_a_word pair -w 0.1 -- \
	sh -c "echo {port}-{port} {host}-{host}; $until_go" "$go" --- \
	sh -c 'echo {port}/{port}; : >"$0"' "$go"
says both_ports_of_a_word '^server\| ([0-9]+)-\1 localhost-localhost$' "$(cat "$out")"
says both_ports_of_a_client '^client\| ([0-9]+)/\1$' "$(cat "$out")"
exits server_that_never_listens 125 "$tool" pair -- true --- true
exits server_fails 3 "$tool" pair -- sh -c 'exit 3' --- true
# The client says when it has been there: if the server ends before, there is no client.
three_lines='echo one; echo two >&2; printf three; : >"$0"'
rm "$go"
holds nobody_listens pair -w 0.2 -- sh -c "$until_go" "$go" --- sh -c "$three_lines" "$go"
says patience_is_told 'not listened for 0.2 s; the client is started' "$(cat "$err")"
says both_streams_are_shown '^client\| two$' "$(cat "$out")"
says a_line_without_end '^client\| three$' "$(cat "$out")"
# Who writes without end: time passes, signals are heard, and who has left the group is ended, too.
exits time_is_up_for_a_writer 124 \
	timeout -s KILL 100 "$tool" pair -t 0.5 -w 0.1 -- yes --- sleep 100
exits a_writer_is_interrupted 143 timeout --preserve-status -k 100 1 \
	"$tool" pair -w 0.1 -- yes --- sleep 100
rm "$go"
exits a_writer_is_left 0 timeout -s KILL 100 \
	"$tool" pair -w 0.1 -- sh -c "setsid yes & $until_go" "$go" --- touch "$go"
# So where nobody reads what the pair shows, nor what it complains of.
mkfifo "$ANYVERBS_DIR/full"
exec 9<>"$ANYVERBS_DIR/full"
unread() {
	"$@" >&9 2>&9
}
unread timeout -s KILL 100 "$tool" pair -t 0.5 -w 0.1 -- yes --- sleep 100
holds time_is_up_where_nobody_reads test $? = 124
unread timeout --preserve-status -k 100 1 "$tool" pair -w 0.1 -- yes --- sleep 100
holds a_signal_is_heard_where_nobody_reads test $? = 143
exec 9>&-
# Whoever reads late has all of it.
rm "$go"
holds late_reader_has_all test "$("$tool" pair -w 0.1 -- sh -c "$until_go" "$go" --- \
	sh -c 'seq 100000; : >"$0"' "$go" 2>/dev/null |
	(sleep 1; grep -c '^client| [0-9]'))" = 100000
mkfifo "$ANYVERBS_DIR/meet"
# worse SERVER CLIENT: the exit status where they end with these, the client first
worse() {
	exits "worse_of_$1_and_$2" $(($1 > $2 ? $1 : $2)) "$tool" pair -w 0.1 -- \
		sh -c "read -r line <\"\$0\"; exit $1" "$ANYVERBS_DIR/meet" --- \
		sh -c ": >\"\$0\"; exit $2" "$ANYVERBS_DIR/meet"
}
worse 3 4
worse 5 4
pair -- sh -c 'kill -USR1 $$' --- true
holds a_signal_is_128_and_more test $? = 138
says signal_is_told 'server was killed by signal 10 ' "$(cat "$err")"
exits program_is_not_there 127 "$tool" pair -w 0.1 -- sleep 100 --- no-such-program
exits no_program 125 "$tool" pair
exits unknown_program 125 "$tool" pair -- true
says unknown_program_is_told "^anyverbs: 'true' is not known: write the server's words, ---" \
	"$(pair -- true; cat "$err")"

# --- what fails, and why ---
command -v ibv_rc_pingpong >/dev/null || finish
exits no_such_device 1 "$tool" pair -- ibv_rc_pingpong -d any7
pair -- ibv_rc_pingpong -d any0
says failure_is_told '^anyverbs: the server failed: exit status 1$' "$(cat "$err")"
says failure_is_explained "what 'anyverbs explain' says of it: ibv_rc_pingpong.*ibv_modify_qp" \
	"$(cat "$err")"
pair -- timeout 60 ibv_rc_pingpong -d any0
says what_timeout_started_is_explained 'says of it: ibv_rc_pingpong.*ibv_modify_qp' "$(cat "$err")"
start=$SECONDS
pair -- ibv_rc_pingpong -d any0 -g 0 -p 17001 --- sh -c 'exit 7'
holds status_of_the_one_that_failed test $? = 7
says the_other_is_ended '^anyverbs: the server went on after the client, and was ended$' \
	"$(cat "$err")"
holds it_does_not_take_long test $((SECONDS - start)) -lt 30
exits time_is_up 124 "$tool" pair -t 0.5 -- ibv_rc_pingpong -d any0 -g 0 -n 1000000000

# --- nothing is left ---
mark=1234567$$
# left COUNT: so many processes of the pair live, beside the tool itself
left() {
	[ "$(grep -lzx "$mark" /proc/[0-9]*/cmdline 2>/dev/null | while read -r file; do
		grep -qszx ibv_rc_pingpong "$file" && ! grep -qszx pair "$file" && echo "$file"
	done | wc -l)" = "$1" ]
}
# no_process WORD: none has it on its command line
no_process() {
	! grep -qszx "$1" /proc/[0-9]*/cmdline
}
for signal in INT TERM HUP KILL; do
	"$tool" pair -- ibv_rc_pingpong -d any0 -g 0 -n $mark >/dev/null 2>&1 &
	pair=$!
	holds "both_run_before_SIG$signal" wait_for left 2
	kill -$signal $pair
	status=0
	wait $pair 2>/dev/null || status=$?
	holds "status_after_SIG$signal" test $status = $((128 + $(kill -l $signal)))
	holds "nothing_is_left_after_SIG$signal" wait_for left 0
done
# An orphan that has ended is gone, also for whoever looks.
until_gone='while kill -0 "$orphan"; do sleep 0.1; done; : >"$0.gone"'
rm "$go"
exits orphans_are_taken 0 timeout -s KILL 100 "$tool" pair -w 0.1 -- \
	sh -c "orphan=\$(sleep 0.1 >/dev/null & echo \$!); $until_gone; $until_go" "$go" --- \
	sh -c 'until [ -e "$0.gone" ]; do sleep 0.1; done; : >"$0"' "$go"

# What nohup starts goes on after SIGHUP.
rm -f "$go"
(
	trap '' HUP
	exec "$tool" pair -w 0.1 -- sh -c "$until_go" "$go" --- \
		sh -c ": >\"\$0.begun\"; $until_go" "$go" >/dev/null 2>&1
) &
pair=$!
holds nohup_has_begun wait_for test -e "$go.begun"
kill -HUP $pair
touch "$go"
holds nohup_goes_on wait $pair

# Nor what has left the side's process group, whether it heeds SIGTERM or not.
for start in 'setsid "$@" &' '(setsid "$@" &);' 'setsid sh -c "trap \"\" TERM; $*" &'; do
	rm -f "$go"
	holds "ends: $start" pair -w 0.1 -- sh -c "$start $until_go" "$go" sleep "$mark" --- \
		sh -c 'sleep 0.5; : >"$0"' "$go"
	holds "nothing is left: $start" no_process "$mark"
done
"$tool" pair -w 0.1 -- sh -c 'setsid -w "$@"; exit' sh sleep "$mark" --- sleep 100 2>/dev/null \
	>/dev/null &
pair=$!
some_process() {
	! no_process "$@"
}
holds it_runs wait_for some_process "$mark"
kill $pair
wait $pair
holds nothing_of_another_session_is_left no_process "$mark"

# So when nobody reads any more.
"$tool" pair -w 0.1 -- sh -c "sleep $mark & while :; do echo more; sleep 0.1; done" --- sleep 100 \
	2>/dev/null | head -n 1 >/dev/null
holds status_after_SIGPIPE test "${PIPESTATUS[0]}" = 141
holds nothing_is_left_after_SIGPIPE wait_for no_process "$mark"

# --- two pairs at a time ---
"$tool" pair -- ibv_rc_pingpong -d any0 -g 0 >/dev/null 2>&1 &
pair=$!
holds one_of_two pair -- ibv_rc_pingpong -d any0 -g 0
holds other_of_two wait $pair
finish
