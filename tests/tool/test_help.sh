#!/bin/bash
# SPDX-License-Identifier: MIT
# TEST TOOL MAN-FOLDER VERSION: help and manual know every command;
# the command line is answered as documented.
. "$(dirname "$0")/lib.sh"
man=$2
version=$3

overview=$("$tool" --help)
holds help_is_the_same test "$("$tool" help)" = "$overview"
commands=$(sed -n 's/^  \([a-z]\+\) .*/\1/p' <<<"$overview")
holds there_are_commands test "$(wc -w <<<"$commands")" -ge 5
for command in $commands; do
	says "help_of_$command" "^usage: anyverbs $command( |$)" "$("$tool" help "$command")"
	holds "option_help_of_$command" test "$("$tool" "$command" --help)" = \
		"$("$tool" help "$command")"
	holds "manual_lists_$command" grep -qx "\.It Xr anyverbs-$command 1" "$man/anyverbs.1"
	holds "page_of_${command}_names_it" grep -qx "\.Nm anyverbs-$command" \
		"$man/anyverbs-$command.1"
	holds "page_of_${command}_has_its_synopsis" grep -qx "\.Cm $command" \
		"$man/anyverbs-$command.1"
done

holds version_is_told test "$("$tool" --version)" = "anyverbs $version"
exits no_command_is_2 2 "$tool"
exits unknown_command_is_2 2 "$tool" frobnicate
exits help_of_unknown_command_is_2 2 "$tool" help frobnicate
says unknown_command_gets_a_hint 'anyverbs help' "$("$tool" frobnicate 2>&1)"
holds help_goes_to_stdout test -z "$("$tool" --help 2>&1 >/dev/null)"

for variable in \
	$(grep -rhoE '"ANYVERBS_[A-Z_]+"' "$man/../src" "$man/../tools" | tr -d '"' | sort -u); do
	holds "manual_explains_$variable" grep -qx "\.It Ev $variable" "$man/anyverbs.7" \
		"$man/anyverbs-run.1"
done
finish
