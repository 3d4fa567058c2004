#!/bin/bash
# SPDX-License-Identifier: MIT
# What "stat mr" and "doctor" say of registered memory that is not shared: the program has no shared
# heap, or has allocated it before it opened the device.
# Usage: test_early.sh TOOL HOLDER
. "$(dirname "$0")/lib.sh"
holder=$2
ANYVERBS_DIR=$(mktemp -d -p /dev/shm anyverbs-test-XXXXXX)
export ANYVERBS_DIR
trap 'rm -r "$ANYVERBS_DIR"' EXIT

# look COMMAND...: $text and $doctor while the holder runs so
look() {
	coproc "$@" "$holder" early
	local pid=$COPROC_PID in=${COPROC[1]} ready
	read -r ready <&"${COPROC[0]}"
	holds "regions are there: $*" test "$ready" = ready
	text=$("$tool" stat mr any0)
	doctor=$("$tool" doctor)
	exec {in}>&-
	wait "$pid"
}

# region RULE MEMORY LENGTH
region() {
	says "$1" "^ +[0-9]+  0x[0-9a-f]{8}  0x[0-9a-f]{12} +$3  $2 " "$text"
}

footnote='^  early: allocated before the device was opened'

says nobody_has_a_device '^ok +Shared heap: no program has' "$("$tool" doctor)"

look env
region without_heap_before plain 1048576
region without_heap_after plain 2097152
says without_heap_doctor '^limited +Shared heap: 1 of 1 contexts without it' "$doctor"

look "$tool" run --
region before_is_early early 1048576
region after_is_shared shared 2097152
says stat_explains "$footnote" "$text"
says doctor_says_so '^limited +Shared heap: 1024 KiB .* before the device was opened' "$doctor"
says doctor_advises 'Advice: .*run --shared-heap' "$doctor"

look "$tool" run --shared-heap --
region always_before shared 1048576
region always_after shared 2097152
holds nothing_to_explain test -z "$(grep -E "$footnote" <<<"$text")"
says doctor_is_content '^ok +Shared heap: in all programs' "$doctor"
finish
