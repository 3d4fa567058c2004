#!/bin/bash
# SPDX-License-Identifier: MIT
# Completion knows every command and every option that the sources have.
# Usage: test_completion.sh TOOL SHELL SOURCE
# SHELL is bash, whose function is called with COMP_WORDS as bash does, or zsh,
# where compadd prints instead of adding.
shell=$2
source=$3
. "$(dirname "$0")/lib.sh"
command -v "$shell" >/dev/null || exit 77
export ASAN_OPTIONS=detect_leaks=0
ANYVERBS_DIR=$(mktemp -d)
export ANYVERBS_DIR
trap 'rm -r "$ANYVERBS_DIR"' EXIT

# complete_words WORD...: candidates for the last one, a line each
complete_with_bash() {
	# shellcheck disable=SC2016
	bash --norc -c '. "$1" && shift && COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) &&
		{ _anyverbs; printf "%s\n" "${COMPREPLY[@]}"; }' \
		bash "$source/completion/anyverbs.bash" "$@" 2>/dev/null
}

complete_with_zsh() {
	# shellcheck disable=SC2016
	zsh -fc 'compadd() { print -rl -- ${(P)2} }
		_files() { print FILES }
		_command_names() { print -rl -- ${(k)commands} }
		_normal() { print ARGUMENTS OF $words[1] $CURRENT }
		file=$1; shift; words=("$@"); CURRENT=$#
		. $file' zsh "$source/completion/_anyverbs" "$@" 2>/dev/null
}

# offers RULE WANTED WORD...
offers() {
	local rule=$1 wanted=$2
	shift 2
	holds "$shell: $rule" grep -qxF -e "$wanted" <<<"$("complete_with_$shell" "$tool" "$@")"
}

offers_not() {
	local rule=$1 wanted=$2
	shift 2
	holds "$shell: $rule" \
		test -z "$("complete_with_$shell" "$tool" "$@" | grep -xF -e "$wanted")"
}

# options_of COMMAND: those of its table, whose rows begin with {'LETTER', "NAME" or {0, "NAME", and
# of what tables share
options_of() {
	local file folder=$source/tools/anyverbs
	for file in "$folder/$1.c" "$folder/cmd_$1.c"; do
		[ -e "$file" ] || continue
		grep -oE "\{('.'|0), \"[a-z-]+\"" "$file" | sed 's/.*"\(.*\)"/--\1/'
		! grep -q AV_JSON_OPTION "$file" || echo --json
		! grep -q AV_LAUNCH_OPTIONS "$file" || printf '%s\n' --device --shared-heap
	done
}

commands=$(sed -n '/^#define AV_COMMANDS/,/[^\\]$/p' "$source/tools/anyverbs/command.h" |
	grep -oE 'X\([a-z_]+\)' | sed 's/X(\(.*\))/\1/' | grep -vx X)
holds there_are_commands test "$(wc -w <<<"$commands")" -ge 9
for command in $commands; do
	offers "command $command" "$command" ""
	[ "$command" = help ] || holds "options of $command" test -n "$(options_of "$command")"
	for option in $(options_of "$command"); do
		offers "option $option of $command" "$option" "$command" --
	done
done
offers "short option" -v devices -
offers "words of the usage line" port-err event any0 ""
offers "devices" any0 info ""
offers "devices of ANYVERBS_DEVICES" any0 reset -d ""
offers "groups" odp stat ""
offers "actions" query config ""
offers "switches" IBM_CAPI_EN config set ""
offers "commands of help" doctor help ""
offers "rules" "fail create_qp" faults set "'fail cr"
offers "programs" cat run ""
offers "programs behind an option" cat run -d any0 ""
offers "programs behind --" cat run -- ""
offers "devices of run" any0 run -d ""
offers "programs of pair" cat pair ""
offers "programs of pair behind options" cat pair -t 5 -d any0 ""
offers_not "a number is no word" 0 devices ""
offers_not "the argument of a program is none of ours" --device run cat ""
case $shell in
bash)
	offers "values" true config set IBM_CAPI_EN = t
	offers "only what begins so" event e
	offers_not "nothing else" run e
	;;
zsh)
	offers "values" IBM_CAPI_EN=true config set IBM_CAPI_EN=
	offers "arguments of the program" "ARGUMENTS OF cat 2" run -d any0 cat ""
	holds compinit_finds_it test "$(zsh -fc 'fpath=($1 $fpath); autoload -Uz compinit &&
		compinit -D -u && print $_comps[anyverbs]' zsh "$source/completion")" = _anyverbs
	;;
esac
finish
