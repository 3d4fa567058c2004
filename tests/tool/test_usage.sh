#!/bin/bash
# SPDX-License-Identifier: MIT
# A wrong command line: what is said of it, and the exit status. What --help shows runs, and --json
# is JSON.
# Usage: test_usage.sh TOOL SOURCE
. "$(dirname "$0")/lib.sh"
source=$2
command -v python3 >/dev/null || skip "no python3 here"
export ASAN_OPTIONS=detect_leaks=0 # programs that are not ours may leak
ANYVERBS_DIR=$(mktemp -d)
export ANYVERBS_DIR
trap 'rm -r "$ANYVERBS_DIR"' EXIT
cd "$ANYVERBS_DIR" || exit
commands=$("$tool" help | sed -n 's/^  \([a-z]\+\) .*/\1/p')

# --- what is wrong: status | command line | first line of standard error, behind "anyverbs: " ---
while IFS='|' read -r wanted line complaint; do
	status=0
	said=$(eval "\"\$tool\" $line" 2>&1 >/dev/null) || status=$?
	holds "status: $line" test "$status" = "$wanted"
	holds "complaint: $line" test "$(head -n 1 <<<"$said")" = "anyverbs: $complaint"
done <<'END'
2|stt|there is no command 'stt'; did you mean 'stat'?
2|frobnicate|there is no command 'frobnicate'; 'anyverbs help' lists them
2|help sta|there is no command 'sta'; did you mean 'stat'?
2|help stat top|'top' is one argument too many
125|run|an argument is missing: PROGRAM
125|run -d|-d takes a device, such as any0:mtu=1024, but there is none
125|run --shared-heap=on true|--shared-heap takes open, always or never, not 'on'
125|run --shared-hep true|there is no option '--shared-hep'; did you mean '--shared-heap'?
125|run -x true|there is no option '-x'; 'anyverbs help run' says more
125|run -d any0:colour=red true|--device: any0: unknown key 'colour'
125|run -d any0:max_pq=1 true|--device: any0: unknown key 'max_pq'; did you mean 'max_qp'?
2|devices any0|'any0' is one argument too many
2|devices --jsn|there is no option '--jsn'; did you mean '--json'?
2|devices --json=1|--json takes no value, but there is one: '--json=1'
2|info any0 any1|'any1' is one argument too many
1|info any9|there is no device 'any9'; did you mean 'any0'?
1|info mlx5_bond|there is no device 'mlx5_bond'; 'anyverbs devices' lists them
2|stat prot|there is no group or device 'prot'; did you mean 'port'?
2|stat frobnicate|there is no group or device 'frobnicate'; 'anyverbs help stat' says more
1|stat qp any9|there is no device 'any9'; did you mean 'any0'?
2|stat qp any0 any1|'any1' is one argument too many
2|stat any0 qp|the group comes before the device 'any0'
125|run --strict=few true|--strict takes a number, not 'few'
125|pair --runs 3 -- ib_write_bw|--runs is for --strict
125|pair --strict --runs 0 -- ib_write_bw|--runs takes a whole number from 1 on, not '0'
125|pair -- ib_write_bw ---|there is no word behind '---'
125|pair -- --- ib_write_bw|there is no word before '---'
2|stat -w0.5x|-w takes seconds, from 0.01 to 86400, not '0.5x'
2|stat --watch=0|--watch takes seconds, from 0.01 to 86400, not '0'
2|stat -w 0.5|'0.5' is no device; seconds follow at once: --watch=0.5
2|stat -w -n x|-n takes a whole number from 1 on, not 'x'
2|stat -w -n|-n takes a whole number from 1 on, but there is none
2|stat -w -o ''|-o takes a file, not ''
2|stat -n 3|--count and --output need --watch
2|stat -p -j|--prometheus goes with neither --json nor --watch
2|stat -w qp|--watch works with the group 'device' only
2|stat -p odp|the group 'odp' is not available for Prometheus
2|top any0 any1|'any1' is one argument too many
2|top -d soon|-d takes seconds, from 0.01 to 86400, not 'soon'
2|top --sort bytes|--sort takes pid, qps, xmit, rcv, msgs, faults, errors or regmb, not 'bytes'
1|top -b any9|there is no device 'any9'; did you mean 'any0'?
2|plot|an argument is missing: FILE
2|plot a b|'b' is one argument too many
1|plot nowhere.csv|nowhere.csv: No such file or directory
2|explain any0|'any0' is one argument too many
2|explain --clear any0|'any0' is one argument too many
2|explain --cler|there is no option '--cler'; did you mean '--clear'?
2|explain -n few|-n takes a whole number, not 'few'
2|explain --folow|there is no option '--folow'; did you mean '--follow'?
2|event|an argument is missing: DEVICE
2|event any0|an argument is missing: device-fatal|port-err|port-active
2|event any0 port-er|there is no event 'port-er'; did you mean 'port-err'?
1|event any9 port-err|there is no device 'any9'; did you mean 'any0'?
2|capture|an option is missing: -o FILE
2|capture -o|-o takes a file, but there is none
2|capture -o x --size 3T|--size takes a number of bytes, such as 500M, not '3T'
2|capture -o x --size 0|--size takes a number of bytes, such as 500M, not '0'
2|capture -o x --second 1x|--seconds takes seconds, from 0.01 to 86400, not '1x'
1|capture -o x -d any9|there is no device 'any9'; did you mean 'any0'?
2|config|an argument is missing: query|set|reset
2|config qurey|there is no action 'qurey'; did you mean 'query'?
2|config set|'set' needs SWITCH=VALUE
2|config set ibm_capi_en=true|there is no switch 'ibm_capi_en'; did you mean 'IBM_CAPI_EN'?
2|config set IBM_CAPI_EN=maybe|'maybe' is not a value for IBM_CAPI_EN: use true, false, 1 or 0
1|config query -d any9|there is no device 'any9'; did you mean 'any0'?
2|reset any0|'any0' is one argument too many
2|reset --froce|there is no option '--froce'; did you mean '--force'?
1|reset -d any9|there is no device 'any9'; did you mean 'any0'?
2|faults|an argument is missing: set|list|clear
2|faults lst|there is no action 'lst'; did you mean 'list'?
2|faults set|'set' needs a rule
2|faults clear all|'all' is one argument too many
2|doctor --fix|there is no option '--fix'; 'anyverbs help doctor' says more
2|doctor any0|'any0' is one argument too many
END

# Every command minds its options and its arguments.
for command in $commands; do
	status=0
	holds "help of $command fits 80 columns" \
		test -z "$("$tool" help "$command" | tail -n +2 | grep -E '.{81}')"
	said=$("$tool" "$command" --no-such-option 2>&1 >/dev/null) || status=$?
	says "option_of_$command" \
		"^anyverbs: there is no option '--no-such-option'; 'anyverbs help $command'" "$said"
	says "usage_of_$command" "^usage: anyverbs $command" "$said"
	holds "status_of_$command" test "$status" = 2 -o "$status" = 125
done

# --- variables ---
variables=$(grep -rhoE '"ANYVERBS_[A-Z_]+"' "$source/src" "$source/tools" | tr -d '"' | sort -u)
for variable in $variables; do
	holds "is known: $variable" test -z "$(env "$variable=" "$tool" help 2>&1 >/dev/null)"
	says "is guessed: $variable" \
		"^anyverbs: the variable ${variable}X is not read; did you mean $variable\?$" \
		"$(env -u "$variable" "${variable}X=" "$tool" help 2>&1 >/dev/null)"
done
while IFS='|' read -r setting complaint; do
	holds "value: $setting" test "$(env "ANYVERBS_$setting" "$tool" help 2>&1 >/dev/null)" = \
		"${complaint:+anyverbs: ANYVERBS_${setting%%=*}: '${setting#*=}' is not $complaint}"
done <<'END'
EXPLAIN=yes|0 or 1
EXPLAIN=0|
FORK=1|dontfork
MEMLOCK=true|real
SHARED_HEAP=on|open, always or never
SHARED_HEAP=always|
SHARED_HEAP=|
TRANSPORT=rdma|wire, direct, plain or sleepy
WATCH=all|odp
AS_NOTIFY=mwait|futex, umwait, mwaitx or loop; did you mean 'umwait'?
CHECK=json,fail|
CHECK=0|
CHECK=yes|0, 1, json or fail
LOG=info:/nowhere/log|
LOG=debug|
LOG=debgu|off, warn, info or debug; did you mean 'debug'?
LOG=verbose|off, warn, info or debug
DIR=shared/folder|an absolute path
END
says one_word_of_several "^anyverbs: ANYVERBS_CHECK: 'jsno' is not .*; did you mean 'json'\?$" \
	"$(ANYVERBS_CHECK=fail,jsno,1 "$tool" doctor 2>&1 >/dev/null)"
says word_before_a_file "^anyverbs: ANYVERBS_LOG: 'inof' is not .*; did you mean 'info'\?$" \
	"$(ANYVERBS_LOG=inof:/nowhere/log "$tool" run true 2>&1)"
# What the sources compare a variable with is taken.
for setting in $(grep -rhoE '"ANYVERBS_[A-Z_]+", (\.value = )?"[a-z0-9]+"' "$source/src" |
	sed -E 's/"(ANYVERBS_[A-Z_]+)", (\.value = )?"(.*)"/\1=\3/'); do
	holds "is taken: $setting" test -z "$(env "$setting" "$tool" help 2>&1 >/dev/null)"
done
holds others_are_left_alone test -z "$(ANYVERBS_SOMETHING_ELSE=1 "$tool" help 2>&1 >/dev/null)"

# --- colours: on terminals only, and not against NO_COLOR ---
on_a_terminal() {
	python3 -c 'import os, pty, sys
said = b""
def read(fd):
    global said
    data = os.read(fd, 1024)
    said += data
    return b""
pty.spawn(sys.argv[1:], read)
sys.exit(b"\033[" not in said)' "$@" </dev/null >/dev/null
}
exits colours_on_a_terminal 0 on_a_terminal env -u NO_COLOR TERM=xterm "$tool" stt
exits no_colours_with_NO_COLOR 1 on_a_terminal env NO_COLOR=1 TERM=xterm "$tool" stt
exits no_colours_on_a_dumb_terminal 1 on_a_terminal env -u NO_COLOR TERM=dumb "$tool" stt
exits no_colours_on_an_unknown_terminal 1 on_a_terminal env -u NO_COLOR TERM= "$tool" stt
holds no_colours_in_a_file test -z "$(TERM=xterm "$tool" doctor 2>&1 | grep -F $'\033')"

# --- what help shows ---
if "$tool" run -- ibv_devices >/dev/null 2>&1; then
	(exec "$tool" run -- stdbuf -oL ibv_asyncwatch -d any0 >watcher 2>&1) &
	watcher=$!
	wait_for grep -q FD watcher
	examples() {
		"$tool" help "$1" | sed -n '/^Examples:$/,$s/^  //p'
	}
	anyverbs() {
		"$tool" "$@"
	}
	# rping sometimes exits with 255 after a good run: docs/PROGRAMS.md.
	runs() {
		local status=0
		eval "$1" || status=$?
		[ $status = 0 ] || [[ "$status $1" = "255 "*rping* ]]
	}
	for command in $commands; do
		says "example_of_$command" "^anyverbs $command( |$)" "$(examples "$command")"
		while read -r line; do
			case $line in
			*ib_write_bw*) command -v ib_write_bw >/dev/null || continue ;;
			*rping*) command -v rping >/dev/null || continue ;;
			"anyverbs reset"*) line="$line --force" ;; # somebody has the device open
			esac
			holds "runs: $line" runs "$line" >out 2>&1 </dev/null || cat out
		done < <(examples "$command")
	done

	# --- JSON ---
	json() {
		local rule="json: $*"
		"$tool" "$@" >out 2>err
		holds "$rule" python3 -c '
import json, sys
text = open("out", encoding="utf-8").read()
try:
    json.loads(text)
except ValueError:
    for line in text.splitlines():
        json.loads(line)
assert text.strip()'
	}
	json devices --json
	json info --json any0
	for group in device port process qp cq mr odp cm; do
		json stat --json $group
	done
	json stat -w0.1 -n 2 --json
	if command -v ibv_rc_pingpong >/dev/null; then
		exits something_to_explain 1 "$tool" run -- ibv_rc_pingpong -d any0 -r 9999999
		json explain --json
	fi
	json top --json -n 2 -d 0.1

	# --- a full disk ---
	for command in help devices "stat qp" "stat -w0.1 -n 1" "top -b -n 1 -d 0.1" \
		"top --json -n 1 -d 0.1" explain "explain --json" "config query" doctor; do
		status=0
		said=$(eval "\"\$tool\" $command" 2>&1 >/dev/full) || status=$?
		holds "full disk: status: $command" test "$status" = 1
		says "full disk: $command" "^anyverbs: cannot write the output" "$said"
	done

	# --- nothing there at all: no file takes its place ---
	exits closed_output_is_unwritten 1 bash -c '"$0" stat -w0.1 -n 2 -o recording >&-' "$tool"
	holds recording_is_only_that test -z "$(grep TIME recording)"
	exits program_finds_it_closed 0 \
		bash -c '"$0" run -- sh -c "! test -e /proc/\$\$/fd/1" >&-' "$tool"

	json event --json any0 port-err
	json event --json any0 port-active
	json capture --json -o x --seconds 0.1
	json config --json query
	json config --json set ADVANCED_PCI_SETTINGS=true
	json config --json reset
	json reset --json --force
	json faults --json set 'delay 1us' 'drop 1%'
	json faults --json list
	json faults --json clear
	json doctor --json
	# Names are any bytes but 0.
	odd=$'odd\xff\xc3'
	ANYVERBS_LIBRARY=/nowhere/$odd/é json doctor --json
	ANYVERBS_DEVICES=$odd json doctor --json
	ANYVERBS_LIBRARY=/nowhere/$(printf 'é%.0s' {1..400}) json doctor --json
	ANYVERBS_LIBRARY=/nowhere/x$(printf 'é%.0s' {1..400}) json doctor --json
	json capture --json -o "$odd" --seconds 0.1
	json faults --json set "stall process $odd" 'delay 1us process é'
	json faults --json list
	says odd_rules_are_listed '"stall process odd\?\?"' "$(cat out)"
	says and_so_are_others '"delay 1us process (é|\\u00e9)"' "$(cat out)"
	"$tool" faults clear >/dev/null
	kill "$watcher"
	wait "$watcher" 2>/dev/null
fi
finish
