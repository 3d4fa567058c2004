#!/bin/bash
# SPDX-License-Identifier: MIT
# "anyverbs config" and "anyverbs reset": switches of devices. Usage: test_config.sh TOOL
. "$(dirname "$0")/lib.sh"
exec >/dev/null # what commands say when they succeed
export LC_ALL=C ANYVERBS_DEVICES=any0,mlx5_0
all="ADVANCED_PCI_SETTINGS IBM_CAPI_EN IBM_TUNNELED_ATOMIC_EN IBM_AS_NOTIFY_EN"
unset XDG_CONFIG_HOME
HOME=$(mktemp -d)
ANYVERBS_DIR=$(mktemp -d)
export HOME ANYVERBS_DIR
trap 'rm -r "$HOME" "$ANYVERBS_DIR"' EXIT

# row DEVICE SWITCH: its values "DEFAULT CURRENT NEXT"
row() {
	"$tool" config query -d "$1" "$2" |
		sed -n "s/^[* ] $2 *\([a-z]*\) *\([a-z]*\) *\([a-z]*\).*/\1 \2 \3/p"
}

# is RULE DEVICE SWITCH VALUES
is() {
	holds "$1: '$(row "$2" "$3")'" test "$(row "$2" "$3")" = "$4"
}

# refuses RULE STATUS PATTERN COMMAND...:
# it ends so, says that on standard error, and nothing has changed
refuses() {
	local rule=$1 wanted=$2 pattern=$3 before status=0 text
	shift 3
	before=$("$tool" config query)
	text=$("$@" 2>&1 >/dev/null) || status=$?
	holds "$rule: status $status" test "$status" = "$wanted"
	says "$rule" "$pattern" "$text"
	holds "$rule: nothing has changed" test "$("$tool" config query)" = "$before"
}

text=$("$tool" config query)
holds each_device_has_each_switch \
	test "$(grep -cE "^  ($(tr ' ' '|' <<<"$all")) +false +false +false +[A-Z]" <<<"$text")" = 8
holds mlxconfigs_short_form test "$("$tool" config q)" = "$text"
holds one_device test "$("$tool" config query -d mlx5_0 | grep '^[^ *]' | cut -d' ' -f1)" = mlx5_0
holds one_switch test "$("$tool" config -d any0 query IBM_CAPI_EN | wc -l)" = 2
holds reading_leaves_no_files test -z "$(ls -A "$ANYVERBS_DIR")"

# The sequence of the documentation of adapters: set, set, power cycle.
refuses capi_needs_advanced_settings 1 'ADVANCED_PCI_SETTINGS=true: set that first' \
	"$tool" config -d any0 set IBM_CAPI_EN=true
holds set_advanced "$tool" config -d any0 set ADVANCED_PCI_SETTINGS=true
holds set_capi "$tool" config -d any0 set IBM_CAPI_EN=true
is set_is_for_the_next_boot any0 IBM_CAPI_EN "false false true"
says what_waits_is_marked '^\* IBM_CAPI_EN ' "$("$tool" config query -d any0)"
says what_to_do_is_said "'anyverbs reset -d any0'" "$("$tool" config query -d any0)"
holds reset_of_another_device "$tool" reset -d mlx5_0
is other_devices_reset_changes_nothing any0 IBM_CAPI_EN "false false true"
holds reset "$tool" reset -d any0
is reset_brings_it_into_force any0 IBM_CAPI_EN "false true true"
is reset_is_the_devices mlx5_0 IBM_CAPI_EN "false false false"
refuses advanced_settings_are_needed 1 'set IBM_CAPI_EN=false first' \
	"$tool" config -d any0 set ADVANCED_PCI_SETTINGS=false
refuses defaults_need_them_too 1 'set IBM_CAPI_EN=false first' \
	"$tool" config -d any0 reset ADVANCED_PCI_SETTINGS
holds disable_capi "$tool" config -d any0 set IBM_CAPI_EN=false
is disabling_waits_for_a_reset any0 IBM_CAPI_EN "false true false"
holds reset_again "$tool" reset
is capi_is_off any0 IBM_CAPI_EN "false false false"
holds the_others_need_nothing "$tool" config set IBM_TUNNELED_ATOMIC_EN=1 IBM_AS_NOTIFY_EN=true
is without_device_all_are_set mlx5_0 IBM_AS_NOTIFY_EN "false false true"
is advanced_settings_stay any0 ADVANCED_PCI_SETTINGS "false true true"
holds both_together "$tool" config -d mlx5_0 set IBM_CAPI_EN=1 ADVANCED_PCI_SETTINGS=1
is both_are_set mlx5_0 IBM_CAPI_EN "false false true"
holds defaults_of_one_switch "$tool" config -d any0 reset IBM_AS_NOTIFY_EN
is one_switch_has_its_default any0 IBM_AS_NOTIFY_EN "false false false"
is others_do_not any0 IBM_TUNNELED_ATOMIC_EN "false false true"

for pair in true:true True:true 1:true false:false False:false 0:false; do
	holds "value ${pair%:*}" "$tool" config -d any0 set "IBM_AS_NOTIFY_EN=${pair%:*}"
	is "value ${pair%:*} is understood" any0 IBM_AS_NOTIFY_EN "false false ${pair#*:}"
done
for value in "" yes TRUE 2 -1 01 "true " on; do
	refuses "value '$value'" 2 "'$value' is not a value for IBM_AS_NOTIFY_EN" \
		"$tool" config -d any0 set "IBM_AS_NOTIFY_EN=$value"
done
refuses unknown_switch 2 "there is no switch 'NOSUCH'" "$tool" config set NOSUCH=1
refuses switch_in_lower_case 2 "there is no switch 'ibm_capi_en'" "$tool" config set ibm_capi_en=1
refuses beginning_of_a_switch 2 "there is no switch 'IBM_CAPI'" "$tool" config set IBM_CAPI=1
refuses no_value 2 "'IBM_CAPI_EN' has no value" "$tool" config set IBM_CAPI_EN
refuses one_of_two_is_wrong 2 "there is no switch 'NOSUCH'" \
	"$tool" config set IBM_AS_NOTIFY_EN=1 NOSUCH=1
refuses unknown_switch_of_reset 2 "there is no switch 'NOSUCH'" "$tool" config reset NOSUCH
refuses unknown_switch_of_query 2 "there is no switch 'NOSUCH'" "$tool" config query NOSUCH
refuses nothing_to_set 2 "^usage:" "$tool" config set
refuses nothing_at_all 2 "^usage:" "$tool" config
refuses unknown_action 2 "^usage:" "$tool" config frobnicate
refuses unknown_option 2 "^usage:" "$tool" config query --frobnicate
refuses unknown_device 1 "there is no device 'nosuch0'" \
	"$tool" config -d nosuch0 set IBM_AS_NOTIFY_EN=1
refuses unknown_device_of_reset 1 "there is no device 'nosuch0'" "$tool" reset -d nosuch0
refuses argument_of_reset 2 "^usage:" "$tool" reset any0

# Values survive all processes, and files that were spoilt.
holds files_are_private test -z "$(find "$ANYVERBS_DIR" -perm /077 -type f)"
printf 'any0 IBM_CAPI_EN NOSUCH\n\nnothing\n \n%s\n' \
	"$(head -c 20000 /dev/zero | tr '\0' x)" >"$ANYVERBS_DIR/anyverbs-$(id -u).current"
is what_is_not_understood_is_left_out any0 IBM_CAPI_EN "false true false"
chmod 666 "$ANYVERBS_DIR/anyverbs-$(id -u).current"
says others_may_not_write_it "only this user may write" "$("$tool" config query 2>&1)"
is and_it_is_not_read any0 IBM_CAPI_EN "false false false"
holds all_defaults "$tool" config reset
holds all_defaults_in_force "$tool" reset
holds defaults_leave_no_files test -z "$(find "$ANYVERBS_DIR" "$HOME" -mindepth 1)"

# The reset of a device that processes have open.
if "$tool" run -- ibv_devices >/dev/null 2>&1; then
	export ANYVERBS_DEVICES=any0
	log=$HOME/log
	open_device() {
		: >"$log" # what the last one said is not this one's
		"$tool" run -- stdbuf -oL ibv_asyncwatch -d any0 >"$log" &
		watcher=$!
		wait_for grep -q FD "$log"
	}
	command -v ibv_asyncwatch >/dev/null && {
		holds set_notify "$tool" config set IBM_AS_NOTIFY_EN=1
		open_device
		refuses reset_of_a_device_in_use 1 "processes that have it open: $watcher$" \
			"$tool" reset
		holds no_event_then test "$(grep -c FATAL "$log")" = 0
		says forced_reset "^any0: reset; failed in processes: $watcher$" \
			"$("$tool" reset --force)"
		is forced_reset_brings_into_force any0 IBM_AS_NOTIFY_EN "false true true"
		holds processes_hear_of_it wait_for grep -q IBV_EVENT_DEVICE_FATAL "$log"
		says failed_contexts_are_out_of_the_way '^any0: reset$' "$("$tool" reset -d any0)"
		kill "$watcher"
		wait "$watcher"
		open_device
		kill -9 "$watcher"
		wait "$watcher" 2>/dev/null
		holds the_dead_are_out_of_the_way "$tool" reset
		"$tool" config reset >/dev/null
		"$tool" reset >/dev/null
	}
fi

# Without ANYVERBS_DIR: where the values are, in a machine of our own that is restarted.
machine() {
	"$tool" config set IBM_AS_NOTIFY_EN=1 >/dev/null
	[ -s "$1" ] || return 1
	is set_in_the_folder any0 IBM_AS_NOTIFY_EN "false false true"
	rm "/dev/shm/anyverbs-$(id -u).current"
	is restart_of_the_machine_is_a_reset any0 IBM_AS_NOTIFY_EN "false true true"
	"$tool" config reset >/dev/null
	"$tool" reset >/dev/null
	[ -z "$(ls -A /dev/shm)" ] && [ ! -e "$1" ]
}

if unshare -rm mount -t tmpfs none /dev/shm 2>/dev/null; then
	in_machine() {
		unshare -rm env -u ANYVERBS_DIR -u HOME "$@"
	}
	export -f machine is row holds
	export tool
	run='mount -t tmpfs none /dev/shm; failures=0; machine "$1" && test "$failures" = 0'
	holds home_has_config \
		in_machine HOME="$HOME" bash -c "$run" bash "$HOME/.config/anyverbs/next-boot"
	holds xdg_goes_first in_machine HOME=/nonexistent XDG_CONFIG_HOME="$HOME/xdg" \
		bash -c "$run" bash "$HOME/xdg/anyverbs/next-boot"
	holds without_home in_machine bash -c "$run" bash /dev/shm/anyverbs-0.next-boot
	holds useless_home \
		in_machine HOME=/proc/nowhere bash -c "$run" bash /dev/shm/anyverbs-0.next-boot
fi
finish
