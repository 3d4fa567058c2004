#!/bin/bash
# SPDX-License-Identifier: MIT
# The harness of examples tells a page that holds from one that does not.
# Usage: test_examples.sh PYTHON EXAMPLES.PY
set -u
run=("$@")
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
failures=0

# row RULE STATUS OPTIONS: a page of section 1 whose literal block is standard input
row() {
	local status=0
	{ printf '.Bd -literal\n'; cat; printf '.Ed\n'; } >"$folder/page.1"
	# shellcheck disable=SC2086
	"${run[@]}" $3 --bin "$folder" "$folder/page.1" >"$folder/out" 2>&1 || status=$?
	[ "$status" = "$2" ] && return
	echo "does not hold: $1: status $status, not $2" >&2
	cat "$folder/out" >&2
	failures=$((failures + 1))
}

row success_is_0 0 "" <<<'$ true'
row failure_is_1 1 "" <<<'$ false'
row first_failure_counts 1 "" <<<$'$ false\n$ true'
row stated_status 0 "" <<<'$ false # exit 1'
row stated_status_is_demanded 1 "" <<<'$ true # exit 1'
row other_text_is_output 0 "" <<<$'$ true\nfalse'
row continued_lines 1 "" <<<$'$ true && \\e\n    false'
row here_document_is_one_command 0 "" <<<$'$ cat >a <<\'END\'\n$ false\nEND\n$ grep -q false a'
row what_comes_behind_a_here_document_counts 1 "" <<<$'$ cat >a <<\'END\'\ntext\nEND\n$ false'
row here_document_without_end 1 "" <<<$'$ true\n$ cat <<END\n$ false'
row leaving_early_is_no_success 1 "" <<<$'$ exit 0\n$ false'
row folder_is_kept_between_commands 0 "" <<<$'$ mkdir a; cd a; touch b\n$ test -e b'
row background_that_fails 1 "" <<<$'$ (sleep 0.1; exit 3) &\n$ true'
row background_that_ends 0 "" <<<$'$ sleep 0.1 &\n$ true'
row background_that_is_killed 0 "" <<<$'$ sleep 100 &\n$ kill %1'
row missing_program_leaves_out 77 "" <<<$'$ no-such-program # needs no-such-program'
row condition_that_fails_leaves_out 77 "" <<<$'$ false # if test 1 = 2'
row condition_that_holds 1 "" <<<$'$ false # if test 1 = 1'
row not_run_is_not_run 77 "" <<<$'$ false # not run: dangerous'
row page_without_examples 77 "" <<<$'text'
row page_that_must_have_examples 1 --must <<<$'text'
row include_without_main_is_no_program 77 "" <<<"#include <nothing.h>"
row program_is_compiled 1 "" <<<$'#include <nothing.h>\nint main(void)'
row no_settings_of_the_caller 0 "" <<<$'$ test -z "${ANYVERBS_LOG:-}" && test "$HOME" = "$PWD"'
test "$failures" = 0
