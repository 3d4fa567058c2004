#!/bin/bash
# SPDX-License-Identifier: MIT
# "anyverbs devices" and "anyverbs info": what they say of each configuration.
. "$(dirname "$0")/lib.sh"
ANYVERBS_DIR=$(mktemp -d) # what others have set is no matter
export ANYVERBS_DIR
trap 'rm -r "$ANYVERBS_DIR"' EXIT

text=$("$tool" devices)
says default_is_any0 '^any0 +Ethernet +active +[0-9]+ +[0-9a-f:.]+( \(.+\))?$' "$text"
holds one_line_and_a_heading test "$(wc -l <<<"$text")" = 2

export ANYVERBS_DEVICES=any0,mlx5_0:link=infiniband:lid=7:mtu=1024
text=$("$tool" devices)
says infiniband_has_a_lid '^mlx5_0 +InfiniBand +active +1024 +LID 7$' "$text"
holds line_for_each_device test "$(wc -l <<<"$text")" = 3

text=$("$tool" info mlx5_0)
says info_tells_the_lid '^ +LID +7$' "$text"
says info_tells_the_mtu '^ +MTU +1024$' "$text"
says info_tells_the_gids '^ +0 +InfiniBand +- +fe80:' "$text"
holds info_of_one_device test "$(grep -c '^[^ ]' <<<"$text")" = 1
says info_by_uverbs_name '^mlx5_0$' "$("$tool" info uverbs1)"
holds info_of_all_devices test "$("$tool" info | grep -c '^[^ ]')" = 2
exits unknown_device_is_1 1 "$tool" info nosuch0
exits too_many_arguments_are_2 2 "$tool" info any0 mlx5_0
exits devices_takes_none 2 "$tool" devices any0

# Tunneled atomics, by the steps of the documentation of adapters:
# enable, power cycle, disable, power cycle.
export ANYVERBS_DEVICES=any0,any1
tunneled() # RULE, and what is said of any0 and any1
{
	text=$("$tool" devices -v)
	holds "$1: a line more for each" test "$(wc -l <<<"$text")" = 5
	holds "$1: any0" test "$(sed -n 3p <<<"$text")" = "  Tunneled atomic: $2"
	holds "$1: any1" test "$(sed -n 5p <<<"$text")" = "  Tunneled atomic: $3"
}
tunneled off_by_default "NOT SUPPORTED" "NOT SUPPORTED"
holds enable "$tool" config -d any1 set IBM_TUNNELED_ATOMIC_EN=1 >/dev/null
tunneled not_before_the_reset "NOT SUPPORTED" "NOT SUPPORTED"
holds reset "$tool" reset -d any1 >/dev/null
tunneled on "NOT SUPPORTED" SUPPORT
holds disable "$tool" config -d any1 set IBM_TUNNELED_ATOMIC_EN=0 >/dev/null
tunneled until_the_reset "NOT SUPPORTED" SUPPORT
holds reset_again "$tool" reset -d any1 >/dev/null
tunneled off_again "NOT SUPPORTED" "NOT SUPPORTED"
unset ANYVERBS_DEVICES
exits devices_knows_no_other_option 2 "$tool" devices -x

text=$(ANYVERBS_DEVICES=any0:max_qp=10:guid=0200000000001234 "$tool" info any0)
says info_tells_the_limits '^ +queue pairs +10$' "$text"
says info_tells_the_guid '^ +GUID +0200000000001234$' "$text"

text=$(ANYVERBS_DEVICES=efa0:as=efa,any0 "$tool" devices -v)
says named_device_is_named '^  Behaves as: efa, whose driver would name it efa_0$' "$text"
says named_device_lacks_types '^  No queue pairs: RC, UC, XRC_SEND, XRC_RECV: EOPNOTSUPP$' "$text"
says named_device_lacks_verbs '^  No verbs: .*ibv_create_srq, .*: EOPNOTSUPP$' "$text"
says named_device_lacks_access '^  No regions: IBV_ACCESS_REMOTE_ATOMIC .*: EOPNOTSUPP$' "$text"
limits="max_sge 2 \(32\), .*max_inline_data 32 \(1024\)"
says named_device_has_limits "^  Limits \(any0's\): $limits$" "$text"
holds bystander_has_no_difference test "$(sed -n '/^any0/,$p' <<<"$text" | wc -l)" = 2
text=$(ANYVERBS_DEVICES=siw0:as=siw "$tool" devices -v)
says named_device_lacks_requests '^  No requests: .*FETCH AND ADD, .*: -EINVAL$' "$text"
says json_names_it '"as": "siw"' "$(ANYVERBS_DEVICES=siw0:as=siw "$tool" devices --json)"
text=$(ANYVERBS_DEVICES=connectx:8 "$tool" devices)
says profile_has_its_names '^mlx5_7 +Ethernet +active +[0-9]+ ' "$text"
holds profile_has_its_number test "$(wc -l <<<"$text")" = 9
text=$(ANYVERBS_DEVICES=connectx "$tool" info)
says profile_has_its_firmware '^ +version +22\.' "$text"
says row_0_is_link_local_of_version_1 '^ +0 +RoCE v1 +[^ ]+ +fe80:' "$text"
says row_1_is_the_same_of_version_2 '^ +1 +RoCE v2 +[^ ]+ +fe80:' "$text"
text=$(ANYVERBS_DEVICES=any0:gid_rows=mlx5 "$tool" info)
says rows_without_the_profile '^ +0 +RoCE v1 +[^ ]+ +fe80:' "$text"
says rows_do_not_change_the_version '^ +version +[^2 ]' "$text"
text=$(ANYVERBS_DEVICES=connectx:99 "$tool" devices 2>&1)
says number_of_a_profile_is_checked "warn: .*connectx: '99' is not 1 to 16 devices" "$text"
text=$(ANYVERBS_DEVICES=any0:gid_rows=mlx4 "$tool" devices 2>&1)
says rows_are_checked "warn: .*any0: gid_rows 'mlx4' is not single or mlx5" "$text"
text=$(ANYVERBS_DEVICES=any0:mtu=1 "$tool" devices 2>&1)
says misunderstood_setting_is_reported 'warn: ANYVERBS_DEVICES: any0: mtu' "$text"
exits full_disk_is_not_a_success 1 sh -c '"$1" devices >/dev/full' sh "$tool"
finish
