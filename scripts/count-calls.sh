#!/bin/bash
# SPDX-License-Identifier: MIT
# count-calls.sh [-v] [WRITE-FUNCTIONS WRITE-FILES SEND-FUNCTIONS SEND-FILES]
#
# Count how much code a request walks through: the distinct functions of the library that the
# requester enters, and the source files that define them. Counted are a WRITE of 4 KiB into memory
# of the shared heap and a SEND of 4 KiB into other memory, between two processes whose connection
# has been in use for a while. ibv_post_send() and the ibv_poll_cq() that returns the completion
# count. The library is built without optimisation for this, in build/calls, so static inline
# functions count, too.
#
# For comparison the script also prints the number of calls; what ibv_post_send() enters by itself,
# where a static inline function counts once for each file that has a copy of it; and what the
# receiver's ibv_poll_cq() enters.
#
# -v prints every call in order, indented by its depth, and the files with their number of calls.
# Exit status: 0 all is well, 1 something is above its bound, 2 the counting itself failed.
set -euo pipefail
cd "$(dirname "$0")/.."
build=build/calls
verbose=
if [ "${1:-}" = -v ]; then
	verbose=1
	shift
fi
if [ $# -ne 0 ] && [ $# -ne 4 ]; then
	sed -n '3s/^# //p' "$0" >&2
	exit 2
fi
bounds=("$@")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 2' HUP INT TERM

give_up() {
	echo "count-calls: $1" >&2
	[ ! -s "$work/log" ] || tail -n 20 "$work/log" >&2
	exit 2
}

# Assertions are no part of what users run. addr2line confuses source files in DWARF 5.
flags="-O0 -gdwarf-4 -DNDEBUG -finstrument-functions"
cmake -S . -B $build -G Ninja -DCMAKE_BUILD_TYPE=None -DBUILD_TESTING=ON \
	-DCMAKE_C_FLAGS="$flags" >"$work/log" ||
	give_up "cmake failed"
cmake --build $build --target count_calls anyverbs-heap >"$work/log" || give_up "the build failed"

# trace KIND HEAP: the calls of one request, in a file of that name. Its columns: part of the
# request, depth, offset, function, source file.
trace() {
	mkdir -p "$work/shared"
	ANYVERBS_DIR=$work/shared LD_PRELOAD=$2 \
		$build/bench/count_calls "$1" >"$work/raw" 2>"$work/log" ||
		give_up "count_calls $1 failed"
	# addr2line prints two lines for each: the function, and file:line.
	awk '{ print $3 }' "$work/raw" |
		addr2line -f -e "$(head -n 1 "$work/raw" | cut -d ' ' -f 4-)" | paste -d ' ' - - |
		sed -E 's|^([^ ]*) .*/src/(.*):.*|\1 \2|' >"$work/names"
	paste -d ' ' <(cut -d ' ' -f 1-3 "$work/raw") "$work/names" >"$work/$1"
	if grep -qF '?' "$work/$1"; then
		give_up "addr2line does not know all functions"
	fi
}

# count TRACE PARTS: functions, functions with their copies, files, calls
count() {
	awk -v parts="$2" '
		$1 ~ parts { calls++; functions[$4 " " $5]; copies[$3]; files[$5] }
		END {
			print length(functions), length(copies), length(files), calls + 0
		}' "$work/$1"
}

failed=0
# judge TITLE TRACE [MOST-FUNCTIONS MOST-FILES]
judge() {
	local functions copies files calls expected=
	read -r functions copies files calls <<<"$(count "$2" 'post|poll')"
	if [ $# -eq 4 ]; then
		expected=", at most $3 in $4: met"
		if [ "$functions" -gt "$3" ] || [ "$files" -gt "$4" ]; then
			expected=", at most $3 in $4: NOT"
			failed=1
		fi
	fi
	echo "$1: $functions functions in $files files ($calls calls)$expected"
	read -r functions copies files calls <<<"$(count "$2" post)"
	echo "    ibv_post_send() alone, inline functions once per file:" \
		"$copies in $files files ($calls calls)"
}

show() {
	[ -n "$verbose" ] || return 0
	awk '$1 != part { part = $1; print part ":" }
		{ printf "%*s%s  %s\n", 4 + 2 * $2, "", $4, $5 }' "$work/$1"
	echo "files:"
	awk '$1 != "receive" { calls[$5]++ }
		END { for (file in calls) print file, calls[file] }' "$work/$1" | sort |
		awk '{ printf "    %-40s %d\n", $1, $2 }'
	echo
}

# A path without spaces: LD_PRELOAD separates names by them.
trace write "$(find $build -name anyverbs-heap.so)"
trace send ""
show write
show send
judge "WRITE of 4 KiB" write "${bounds[@]:0:2}"
judge "SEND of 4 KiB, memory apart" send "${bounds[@]:2:2}"
read -r functions copies files calls <<<"$(count send receive)"
echo "    the receiver's ibv_poll_cq(): $functions functions in $files files ($calls calls)"
exit $failed
