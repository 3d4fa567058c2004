#!/bin/bash
# SPDX-License-Identifier: MIT
# Strict devices: what "run" and "pair" make of --strict, which seeds --runs uses, where it stops
# and what it says then; and that "help strict" has all freedoms.
# Usage: test_strict.sh TOOL
. "$(dirname "$0")/lib.sh"
"$tool" run -- ibv_devices >/dev/null 2>&1 || skip "the library cannot be preloaded here"
ANYVERBS_DIR=$(mktemp -d)
export ANYVERBS_DIR
trap 'rm -r "$ANYVERBS_DIR"' EXIT
out=$ANYVERBS_DIR/out
err=$ANYVERBS_DIR/err

# --- run: the devices | the options | what the program gets ---
while IFS='|' read -r devices options wanted; do
	read -ra words <<<"$options"
	got=$(ANYVERBS_DEVICES=$devices "$tool" run "${words[@]}" -- \
		sh -c 'echo "$ANYVERBS_DEVICES"' 2>"$err")
	holds "devices: $devices $options: $got" test "$got" = "$wanted"
	holds "nothing is said: $options" test -z "$(cat "$err")"
done <<'END'
|--strict=7|any0:strict:seed=7
mlx5_0|--strict=7|mlx5_0:strict:seed=7
a,b:mtu=1024|--strict=4294967297|a:strict:seed=4294967297,b:mtu=1024:strict:seed=4294967297
connectx:2|--strict=5|connectx:2:strict:seed=5
a:strict=keys,limits,b|--strict=5|a:seed=5:strict=keys,limits,b:strict:seed=5
a:strict=keys|-d c:strict=keys,undefined|c:strict=keys,undefined
END
got=$("$tool" run --strict -- sh -c 'echo "$ANYVERBS_DEVICES"' 2>"$err")
seed=${got#any0:strict:seed=}
holds "a drawn seed is told: $got" \
	grep -qx "anyverbs: the devices are as with --strict=$seed" "$err"

# --- pair: several runs ---
shows='echo "$ANYVERBS_DEVICES" | sed s/.*=//'
waits='until [ -e "$0" ]; do sleep 0.01; done; rm "$0"'
# pair OPTION...: the client shows its seed, and fails if that is $bad
pair() {
	"$tool" pair -w 0.01 "$@" -- sh -c "$waits" "$ANYVERBS_DIR/go" --- \
		sh -c "$shows; : >\"\$0\"; ! $shows | grep -qx '$bad' || exit 7" \
		"$ANYVERBS_DIR/go" >"$out" 2>"$err"
}
seeds() {
	sed -n 's/^client| \([0-9]*\)$/\1/p' "$out" | tr '\n' ' '
}
# options | the seed that fails | the seeds that are used | the exit status
while IFS='|' read -r options bad wanted status; do
	read -ra words <<<"$options"
	pair "${words[@]}"
	holds "status: $options" test $? = "$status"
	holds "seeds: $options: $(seeds)" test "$(seeds)" = "$wanted "
	said=$(grep 'failed with' "$err")
	holds "said: $options: $said" \
		test "$said" = "${bad:+anyverbs: failed with --strict=$bad}"
done <<'END'
--strict --runs 3||1 2 3|0
--strict=41 --runs=2||41 42|0
--strict --runs 5|2|1 2|7
--strict=9|9|9|7
--strict=9||9|0
END
holds a_drawn_seed_passes pair --strict
says it_is_told "^anyverbs: the devices are as with --strict=$(seeds)?" "$(cat "$err") "
exits an_end_by_a_signal 143 timeout --preserve-status -k 100 1 \
	"$tool" pair --strict --runs 99 -w 0.01 -- sleep 100 --- sleep 100
exits time_is_up_in_a_run 124 \
	"$tool" pair --strict --runs 99 -t 0.5 -w 0.01 -- sleep 100 --- sleep 100

# --- freedoms are shown ---
if command -v ibv_ud_pingpong >/dev/null; then
	"$tool" pair -t 5 --strict --runs 20 -- ibv_ud_pingpong -d any0 -g 0 >"$out" 2>"$err"
	holds a_lost_datagram_hangs test $? = 124
	says it_is_shown 'a freedom of the device: ibv_ud_pingpong.*: lost on its way' \
		"$(cat "$err")"
	says with_its_seed '^anyverbs: failed with --strict=[0-9]+$' "$(cat "$err")"
fi
said=$("$tool" help strict)
for freedom in late-read write-order read-order keys undefined events datagrams limits recv-buffer \
	left-behind late-events atomics paging fences retries gids; do
	says "help has $freedom" "^  $freedom$" "$said"
done
holds help_fits_80_columns test -z "$(grep -E '.{81}' <<<"$said")"
finish
