# SPDX-License-Identifier: MIT
# Completion for bash. It asks the command itself what there is to complete. "anyverbs help" lists
# the commands; "anyverbs help COMMAND" says what goes where, in its usage line and its lines of
# options. In a usage line, words in lower case stand for themselves; DEVICE, SWITCH, COMMAND,
# PROGRAM and FILE stand for what they name.

# __anyverbs_words TOOL KIND: names of that kind
__anyverbs_words() {
	case $2 in
	COMMAND) "$1" help | sed -n 's/^  \([a-z][a-z-]*\) .*/\1/p' ;;
	DEVICE | SPEC) "$1" devices | awk 'NR > 1 { print $1 }' ;;
	RULE) "$1" help fail | sed -n 's/^  \(fail [a-z_]*\).*/\1/p' ;;
	SWITCH) "$1" config query | grep -oE '^[* ] [A-Z][A-Z_]+' | cut -c 3- | sort -u ;;
	esac 2>/dev/null
}

# __anyverbs_candidates TOOL COMMAND: options, words, and the names that its usage line allows
__anyverbs_candidates() {
	local help usage kind
	help=$("$1" help "$2" 2>/dev/null) || return
	usage=$(sed -n "1s/^usage: anyverbs $2//p" <<<"$help")
	grep -E '^ +-' <<<"$help" | sed 's/   *[^- ].*//' | cat - <(echo "$usage") |
		grep -oE -e '(^|[[ ,|])--?[a-z][a-z-]*' | tr -d '[ ,|'
	sed -E 's/(^|[[ ,|])--?[a-z][a-z-]*/\1/g' <<<"$usage" | grep -oE '[a-z][a-z0-9-]+'
	for kind in DEVICE SWITCH COMMAND; do
		! grep -qw "$kind" <<<"$usage" || __anyverbs_words "$1" "$kind"
	done
}

# __anyverbs_argument TOOL COMMAND OPTION: the name of the option's argument; empty if it has none
__anyverbs_argument() {
	"$1" help "$2" 2>/dev/null | grep -E '^ +-' |
		sed -nE -e "s/^( *|.*, *)$3[ =]([A-Z]+).*/\2/p" \
			-e "s/^ *$3, --[a-z-]+[ =]([A-Z]+).*/\1/p" | head -n 1
}

# The index of the program of "anyverbs run" or "anyverbs pair" among the words.
__anyverbs_program() {
	local i
	for ((i = 2; i < COMP_CWORD; i++)); do
		case ${COMP_WORDS[i]} in
		-[dwt] | --device | --wait | --timeout) ((i++)) ;;
		--) echo $((i + 1)) && return ;;
		-*) ;;
		*) echo "$i" && return ;;
		esac
	done
	echo "$COMP_CWORD"
}

_anyverbs() {
	local tool=${COMP_WORDS[0]} cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]}
	local command=${COMP_WORDS[1]} argument at words
	COMPREPLY=()
	if [ "$COMP_CWORD" = 1 ]; then
		words="$(__anyverbs_words "$tool" COMMAND) --help --version"
		mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")
		return
	fi
	[[ $prev == -* ]] && argument=$(__anyverbs_argument "$tool" "$command" "$prev")
	if [[ $command == run || $command == pair ]] && [[ -z $argument && $cur != -* ]] &&
		at=$(__anyverbs_program) && [ "$COMP_CWORD" -ge "$at" ]; then
		[ "$COMP_CWORD" = "$at" ] && mapfile -t COMPREPLY < <(compgen -c -- "$cur")
		compopt -o default 2>/dev/null
		return
	fi
	if [ "$cur" = = ] || [ "$prev" = = ]; then # SWITCH=VALUE is three words
		mapfile -t COMPREPLY < <(compgen -W 'true false' -- "${cur#=}")
		return
	fi
	if [[ $command == faults && $cur == [\'\"]* ]]; then # a rule has several words
		mapfile -t COMPREPLY < <(__anyverbs_words "$tool" RULE | grep -e "^${cur:1}")
		return
	fi
	case $argument in
	'') words=$(__anyverbs_candidates "$tool" "$command") ;;
	FILE) compopt -o default 2>/dev/null; return ;;
	*) words=$(__anyverbs_words "$tool" "$argument") ;;
	esac
	mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")
}
complete -F _anyverbs anyverbs
