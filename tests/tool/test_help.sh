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

# members OF PAGE NAME...: the page has each member of JSON
members() {
	local of=$1 page=$2
	shift 2
	holds "there are members: $of" test $# -gt 5
	for name; do
		holds "the manual has this member of $of: $name" \
			grep -qE "^\.(It Va|Li)( .*)?\b$name\b" "$man/$page"
	done
}
mapfile -t names < <(sed -n 's/^\tF("\([a-z_]*\)",.*/\1/p' "$man/../src/observe/check.c")
members explain anyverbs-explain.1 "${names[@]}"
mapfile -t names < <("$tool" stat -w0.1 -n 1 --json any0 | grep -oE '"[a-z_]+":' | tr -d '":')
members "stat --watch" anyverbs-stat.1 "${names[@]}"
page=$(tr '\n' ' ' <"$man/anyverbs_faults.5" | sed 's/ \.It /\n/g; s/\.\(Li\|Er\) //g; s/ [,:]//g')
while read -r verb errors; do
	says "manual_lists_$verb" "(^| )$verb .*$errors( |\$)" "$page"
done < <("$tool" help fail | sed -n 's/^  fail //p' | grep ' E' | grep -v ^memory)
finish
