#!/bin/bash
# SPDX-License-Identifier: MIT
# "anyverbs faults": setting, listing and clearing rules, what is refused and how, and
# ANYVERBS_FAULTS.
# Usage: test_faults.sh TOOL
. "$(dirname "$0")/lib.sh"
export LC_ALL=C
unset ANYVERBS_FAULTS
ANYVERBS_DIR=$(mktemp -d)
export ANYVERBS_DIR
trap 'rm -r "$ANYVERBS_DIR"' EXIT

faults() {
	"$tool" faults "$@" 2>&1
}

says no_faults_at_first '^any0: no faults$' "$(faults list)"
says set_is_confirmed '^any0: faults set; 0 contexts notified$' \
	"$(faults set 'rnr 3 qp 17' 'seed 7; delay 1ms 5% ')"
says first_rule_is_listed '^any0: 1: rnr 3 qp 17$' "$(faults list)"
says second_rule_is_listed_with_its_seed '^any0: 2: delay 1ms 5% seed 7$' "$(faults list)"
says so_it_is_as_json '"rule": *"delay 1ms 5% seed 7"' "$(faults list --json)"
listed=$(faults list)
holds what_is_listed_can_be_set "$tool" faults set "$(sed 's/^any0: [0-9]*: //' <<<"$listed")"
holds and_is_the_same test "$(faults list)" = "$listed"
holds seeds_of_each_rule "$tool" faults set 'drop seed 3; seed 0x10; kill; seed 0; stall'
holds each_rule_has_its_own test "$(faults list)" = \
	$'any0: 1: drop seed 3\nany0: 2: kill seed 16\nany0: 3: stall'
holds they_are_in_one_file test "$(ls "$ANYVERBS_DIR")" = "anyverbs-$(id -u).faults.any0"
says set_replaces '^any0: faults set' "$(faults set stall)"
holds what_was_replaced_is_gone test "$(faults list)" = "any0: 1: stall"
says clear_is_confirmed '^any0: faults cleared; 0 contexts notified$' "$(faults clear)"
says cleared_is_none '^any0: no faults$' "$(faults list)"
holds nothing_is_left test -z "$(ls "$ANYVERBS_DIR")"
holds clear_again "$tool" faults clear

wrong=$(faults set 'delay 1ms' 'dely 1ms')
says mistake_is_placed "^anyverbs: line 2, column 1: 'dely' is not a fault" "$wrong"
says mistake_is_shown '^    dely 1ms$' "$wrong"
says mistake_is_pointed_at '^    \^$' "$wrong"
says every_first_word_is_named ', reorder, mark, or seed$' "$(faults set foobarbaz)"
says seed_may_be_meant "did you mean 'seed'" "$(faults set 'sed 7')"
exits mistake_is_2 2 "$tool" faults set 'dely 1ms'
says mistake_changes_nothing '^any0: no faults$' "$(faults list)"
exits nothing_to_set_is_2 2 "$tool" faults set
exits only_a_comment_is_2 2 "$tool" faults set '# nothing'
exits no_action_is_2 2 "$tool" faults
exits unknown_action_is_2 2 "$tool" faults make
exits argument_of_list_is_2 2 "$tool" faults list x
exits argument_of_clear_is_2 2 "$tool" faults clear x
exits unknown_device_is_1 1 "$tool" faults -d nosuch0 list

export ANYVERBS_DEVICES=any0,any1
says of_one_device '^any1: faults set' "$(faults -d any1 set kill)"
says not_of_the_other '^any0: no faults$' "$(faults list)"
says of_that_one '^any1: 1: kill$' "$(faults list)"
holds clear_all "$tool" faults clear
unset ANYVERBS_DEVICES

# Programs: one warning about a mistake, and then they run as ever; and what is right strikes.
if command -v ibv_rc_pingpong >/dev/null && "$tool" run -- ibv_devices >/dev/null 2>&1; then
	client() {
		next_port 16000 # where nobody listens
		timeout 60 "$tool" run -- ibv_rc_pingpong -g 0 -p "$port" 127.0.0.1 2>&1
	}
	text=$(ANYVERBS_FAULTS='delay' client)
	says mistake_is_warned_of "warn: ANYVERBS_FAULTS: line 1, column 6: 'delay' needs a time" \
		"$text"
	holds mistake_is_warned_of_once test "$(grep -c ANYVERBS_FAULTS <<<"$text")" = 1
	says registration_fails "^Couldn't register MR$" "$(ANYVERBS_FAULTS='fail reg_mr' client)"
	says creation_fails "^Couldn't create CQ$" \
		"$(ANYVERBS_FAULTS='fail create_cq EAGAIN' client)"
	holds set_for_all "$tool" faults set 'fail alloc_pd'
	says device_rules_strike "^Couldn't allocate PD$" "$(client)"
	says strikes_are_recorded '"check":"INJECTED".*"wanted":1[,}]' \
		"$("$tool" explain --json | tr -d ' ' | grep INJECTED | tail -n 1)"
	holds clear_for_all "$tool" faults clear

	# What fails by a rule is explained by that rule, at both ends,
	# and not by what it looks like.
	pair() {
		local server
		next_port 16000
		timeout 30 "$tool" run -- ibv_rc_pingpong -g 0 -p "$port" -n 100 >/dev/null 2>&1 &
		server=$!
		wait_for listens "$port"
		ANYVERBS_FAULTS=$1 timeout 30 "$tool" run -- ibv_rc_pingpong -g 0 -p "$port" \
			-n 100 127.0.0.1 >/dev/null 2>&1
		kill $server 2>/dev/null
		wait $server
	}
	# causes SINCE_NS: kind and check of what has failed since, but for what was flushed
	causes() {
		"$tool" explain --json | python3 -c '
import json, sys
for r in map(json.loads, sys.stdin):
    if r["time_ns"] >= int(sys.argv[1]) and r["check"] != "FLUSHED":
        print(r["kind"], r["check"], r["sentence"].split("(")[-1].split(")")[0])' "$1" | sort -u
	}
	while read -r rule want; do
		since=$(date +%s%N)
		pair "${rule//+/ }"
		says "cause_of_${rule%%+nth*}" "^$want$" \
			"$(causes "$since" | tr '\n' ',' | sed 's/,$//')"
	done <<'END'
status+rem-access-err+nth+5 event INJECTED status,request INJECTED status,responder INJECTED status
status+loc-prot-err+nth+5 event INJECTED status,request INJECTED status
rnr-exhausted+nth+5 event INJECTED rnr-exhausted,request INJECTED rnr-exhausted
retry-exhausted+nth+5 event INJECTED retry-exhausted,request INJECTED retry-exhausted
peer-death+nth+5 event INJECTED peer-death,request INJECTED peer-death
fail+create_qp event INJECTED fail,refusal INJECTED fail
END
fi
finish
