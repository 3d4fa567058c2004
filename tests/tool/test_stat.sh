#!/bin/bash
# SPDX-License-Identifier: MIT
# "anyverbs stat": the groups, the table and the JSON object, of devices that nobody uses.
. "$(dirname "$0")/lib.sh"
export ANYVERBS_DEVICES=any0,mlx5_0
ANYVERBS_DIR=$(mktemp -d)
export ANYVERBS_DIR
trap 'rmdir "$ANYVERBS_DIR"' EXIT

says groups_are_listed '^odp +[A-Z]' "$("$tool" stat)"
text=$("$tool" stat odp)
says counter_has_value_unit_meaning '^  num_page_faults +0  events +Page fault events$' "$text"
holds counters_of_each_device test "$(grep -cE '^  (num_|inv)[a-z_]+ +0 ' <<<"$text")" = 22
holds names_of_both_devices test "$(grep '^[^ ]' <<<"$text" | xargs)" = "any0 mlx5_0"
holds one_device test "$("$tool" stat odp mlx5_0 | grep '^[^ ]')" = mlx5_0
holds device_by_uverbs_name test "$("$tool" stat odp uverbs1 | grep '^[^ ]')" = mlx5_0
holds reading_leaves_no_files test -z "$(ls -A "$ANYVERBS_DIR")"

exits unknown_group_is_2 2 "$tool" stat nosuch
exits unknown_device_is_1 1 "$tool" stat odp nosuch0
exits too_many_arguments_are_2 2 "$tool" stat odp any0 mlx5_0
exits unknown_option_is_2 2 "$tool" stat --frobnicate
exits json_needs_a_group 2 "$tool" stat --json
exits full_disk_is_not_a_success 1 sh -c '"$1" stat odp --json >/dev/full' sh "$tool"

if command -v python3 >/dev/null; then
	text=$("$tool" stat odp --json | python3 -c '
import json, sys
all = json.load(sys.stdin)
print(all["group"], [d["device"] for d in all["devices"]], [len(d["counters"]) for d in all["devices"]])
for row in all["devices"][1]["counters"]:
    print(row["counter"], row["value"], row["unit"], row["gauge"])')
	says json_names_group_and_devices "^odp \['any0', 'mlx5_0'\] \[11, 11\]$" "$text"
	says json_has_counters '^num_prefetchs_handled 0 calls False$' "$text"
	says json_has_gauges '^num_odp_mrs 0 regions True$' "$text"
fi
finish
