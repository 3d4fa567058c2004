#!/bin/bash
# SPDX-License-Identifier: MIT
# mlxconfig below "anyverbs run": the commands as manuals of adapters print them, for our devices;
# and none where the system has one. Usage: test_mlxconfig.sh TOOL
. "$(dirname "$0")/lib.sh"
# A library is preloaded into the tool itself.
export ASAN_OPTIONS=detect_leaks=0:verify_asan_link_order=0
export ANYVERBS_DEVICES=any0,any1
ANYVERBS_DIR=$(mktemp -d)
work=$(mktemp -d)
export ANYVERBS_DIR
trap 'rm -rf "$ANYVERBS_DIR" "$work"' EXIT
if command -v mlxconfig >/dev/null; then
	echo "the system has an mlxconfig"
	exit 77
fi

run() {
	"$tool" run -- "$@"
}

# next DEVICE SWITCH: the value after the next reset
next() {
	"$tool" config query -d "$1" "$2" | awk -v s="$2" '{ for (i = 1; i < NF; i++)
		if ($i == s) print $(i + 3) }'
}

# The pages' own commands.
holds capi_1 run mlxconfig -d /dev/mst/mt4121_pciconf0 set ADVANCED_PCI_SETTINGS=true
holds capi_2 run mlxconfig -d /dev/mst/mt4121_pciconf0 set IBM_CAPI_EN=true
holds capi_is_set test "$(next any0 IBM_CAPI_EN)" = true
holds of_the_first_device_only test "$(next any1 IBM_CAPI_EN)" = false
holds capi_off run mlxconfig -d /dev/mst/mt4121_pciconf0 set IBM_CAPI_EN=false
holds capi_is_not_set test "$(next any0 IBM_CAPI_EN)" = false
holds tunneled run mlxconfig -d /dev/mst/mt4121_pciconf0 set IBM_TUNNELED_ATOMIC_EN=1
holds tunneled_is_set test "$(next any0 IBM_TUNNELED_ATOMIC_EN)" = true
holds power_cycle "$tool" reset -d any0
says tunneled_is_there '^ +Tunneled atomic: SUPPORT$' "$("$tool" devices -v)"
holds tunneled_off run mlxconfig -d /dev/mst/mt4121_pciconf0 set IBM_TUNNELED_ATOMIC_EN=0
holds notify run mlxconfig -d /dev/mst/mt4121_pciconf0 set IBM_AS_NOTIFY_EN=true
holds notify_is_set test "$(next any0 IBM_AS_NOTIFY_EN)" = true

# By name, with what people add, and the other actions.
holds by_name run mlxconfig -y -d any1 set IBM_AS_NOTIFY_EN=1
holds named_is_set test "$(next any1 IBM_AS_NOTIFY_EN)" = true
holds second_adapter run mlxconfig -d /dev/mst/mt4123_pciconf1 --yes set IBM_AS_NOTIFY_EN=0
holds second_is_off test "$(next any1 IBM_AS_NOTIFY_EN)" = false
holds query test "$(run mlxconfig --dev any0 query)" = "$("$tool" config -d any0 query)"
holds short_query test "$(run mlxconfig -d any0 q IBM_CAPI_EN)" = \
	"$("$tool" config -d any0 query IBM_CAPI_EN)"
holds all_devices test "$(run mlxconfig q)" = "$("$tool" config query)"
holds defaults run mlxconfig -d any0 -y reset
holds default_is_set test "$(next any0 IBM_AS_NOTIFY_EN)" = false
exits no_such_device 1 run mlxconfig -d nosuch0 query
exits no_such_adapter 1 run mlxconfig -d /dev/mst/mt4121_pciconf2 query
exits no_number 1 run mlxconfig -d /dev/mst/mt4121 query
exits no_such_switch 2 run mlxconfig -d any0 set NOSUCH=1
exits no_action 2 run mlxconfig -d any0
exits no_such_option 2 run mlxconfig --frobnicate
says usage '^usage: mlxconfig ' "$(run mlxconfig --help)"

# The system's own goes before, and comes alone.
printf '#!/bin/sh\necho genuine\n' >"$work/mlxconfig"
chmod +x "$work/mlxconfig"
holds the_real_one_stays test "$(PATH=$PATH:$work run mlxconfig)" = genuine
holds path_is_left_alone test "$(PATH=$PATH:$work run sh -c 'echo $PATH')" = "$PATH:$work"
holds once_is_enough test "$(run "$tool" run sh -c 'echo $PATH')" = "$(run sh -c 'echo $PATH')"
holds no_path_stays_none test -z "$(env -u PATH "$tool" run /usr/bin/env | grep ^PATH=)"
finish
