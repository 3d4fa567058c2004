#!/bin/bash
# SPDX-License-Identifier: MIT
# "anyverbs explain": what Debian's programs have done wrong,
# after they have ended and as it happens; JSON, choices.
. "$(dirname "$0")/lib.sh"
export LC_ALL=C
unset ANYVERBS_EXPLAIN
command -v ibv_rc_pingpong >/dev/null || {
	echo "no ibv_rc_pingpong here"
	exit 77
}
ANYVERBS_DIR=$(mktemp -d)
export ANYVERBS_DIR
trap 'kill $follower 2>/dev/null; rm -r "$ANYVERBS_DIR"' EXIT
follower=
"$tool" run -- ibv_devices >/dev/null 2>&1 || {
	echo "the library cannot be preloaded here"
	exit 77
}

holds nothing_has_failed test -z "$("$tool" explain)"
holds success_leaves_nothing test -z "$(ls -A "$ANYVERBS_DIR")"

# A completion queue that is too large; prints what the process says on standard error.
too_large() {
	"$tool" run -- ibv_rc_pingpong -d any0 -r 9999999 2>&1 >/dev/null
}

too_large >/dev/null
text=$("$tool" explain)
want='ibv_rc_pingpong\[[0-9]+\] any0: ibv_create_cq: 10000000 entries; .* 1 to 1048575 \(EINVAL\)$'
says sentence "$want" "$text"
says advice '^    max_cqe of ibv_query_device\(\) is the limit \[ibv_create_cq\(3\)\]$' "$text"
holds one_sentence_and_one_advice test "$(wc -l <<<"$text")" = 2
holds only_the_recorder_stays test "$(cd "$ANYVERBS_DIR" && echo */*)" = \
	"$(cd "$ANYVERBS_DIR" && echo */flight)"

holds silent_by_itself test -z "$(too_large | grep "entries;")"
says explained_as_it_happens 'any0: ibv_create_cq: 10000000 entries;' \
	"$(ANYVERBS_EXPLAIN=1 too_large)"
holds other_values_are_off test -z "$(ANYVERBS_EXPLAIN=0 too_large | grep "entries;")"
holds all_of_them test "$("$tool" explain | grep -c 'ibv_create_cq:')" = 4
holds last_only test "$("$tool" explain -n 1 | wc -l)" = 2
holds none_of_them test -z "$("$tool" explain -n 0)"

pid=$("$tool" explain -n 1 | sed -n 's/.*pingpong\[\([0-9]*\)\].*/\1/p')
holds by_pid test "$("$tool" explain -p "$pid" | wc -l)" = 2
holds by_other_pid test -z "$("$tool" explain -p 1)"
holds by_device test "$("$tool" explain -d any0 | wc -l)" = 8
exits device_that_is_none_is_1 1 "$tool" explain -d any1
says device_that_is_none "there is no device 'any1'; did you mean 'any0'" \
	"$("$tool" explain -d any1 2>&1)"
exits device_without_records 0 env ANYVERBS_DEVICES=any1 "$tool" explain -d any1

exits unknown_option_is_2 2 "$tool" explain --frobnicate
exits arguments_are_2 2 "$tool" explain any0
exits number_that_is_none_is_2 2 "$tool" explain -n -1
exits pid_that_is_none_is_2 2 "$tool" explain -p x
exits full_disk_is_not_a_success 1 sh -c '"$1" explain >/dev/full' sh "$tool"

if command -v python3 >/dev/null; then
	text=$("$tool" explain --json | python3 -c '
import json, sys
for line in sys.stdin:
    r = json.loads(line)
    print(r["check"], r["verb"], r["error"], r["wanted"], r["limit"], r["kind"], r["device"],
          r["pid"] == r["by"], "status" in r, "repeats" in r, r["clause"])')
	want='CQ_SIZE ibv_create_cq EINVAL 10000000 1048575 refusal any0 True False False'
	says json_lines "^$want ibv_create_cq\(3\)\$" "$text"
	holds json_of_each test "$(wc -l <<<"$text")" = 4
fi

# What fails while somebody follows is told at once; so is what the other end is to blame for.
"$tool" explain --follow -n 0 >"$ANYVERBS_DIR/log" &
follower=$!
told_of_another() {
	too_large >/dev/null
	grep -q "entries;" "$ANYVERBS_DIR/log"
}
wait_for told_of_another
says followed 'ibv_create_cq: 10000000 entries;' "$(cat "$ANYVERBS_DIR/log")"
kill $follower
wait $follower
follower=

# Forgetting: one process's, then all; the folder goes with the last of them.
pid=$("$tool" explain -n 1 | sed -n 's/.*pingpong\[\([0-9]*\)\].*/\1/p')
before=$("$tool" explain | wc -l)
rm "$ANYVERBS_DIR/log"
exits clear_of_a_process 0 "$tool" explain --clear -p "$pid"
holds cleared_of_it test -z "$("$tool" explain -p "$pid")"
holds others_stay test "$("$tool" explain | wc -l)" = $((before - 2))
exits clear_of_another_device 1 "$tool" explain --clear -d any1
holds its_own_stay test "$("$tool" explain | wc -l)" = $((before - 2))
holds clear_says_nothing test -z "$("$tool" explain --clear 2>&1)"
holds all_cleared test -z "$("$tool" explain)"
holds nothing_stays test -z "$(ls -A "$ANYVERBS_DIR")"
exits clear_of_nothing 0 "$tool" explain --clear
too_large >/dev/null
holds told_again test "$("$tool" explain | wc -l)" = 2
"$tool" explain --clear --follow >"$ANYVERBS_DIR/log" &
follower=$!
wait_for told_of_another
holds only_what_came_later test -z "$("$tool" explain -p "$pid")"
kill $follower
wait $follower
follower=
finish
