#!/bin/bash
# SPDX-License-Identifier: MIT
# "anyverbs stat": the groups as tables, objects and for Prometheus,
# and what is watched and recorded, of devices that nobody uses.
. "$(dirname "$0")/lib.sh"
here=$(dirname "$0")
export ANYVERBS_DEVICES=any0,mlx5_0
ANYVERBS_DIR=$(mktemp -d)
export ANYVERBS_DIR
work=$(mktemp -d)
trap 'rm -rf "$work"; rmdir "$ANYVERBS_DIR"' EXIT

for group in device port process qp cq mr odp; do
	says "help_lists_$group" "^  $group +[a-zA-Z]" "$("$tool" help stat)"
	holds "${group}_names_both_devices" test "$("$tool" stat $group | grep '^[^ ]' | xargs)" = \
		"any0 mlx5_0"
	exits "${group}_as_json" 0 "$tool" stat $group --json
done
holds device_is_the_default test "$("$tool" stat)" = "$("$tool" stat device)"
holds device_without_group test "$("$tool" stat mlx5_0)" = "$("$tool" stat device mlx5_0)"

says help_says_since_when "since 'anyverbs reset' or since$" "$("$tool" help stat)"
text=$("$tool" stat device)
says traffic_has_value_unit_meaning '^  xmit_bytes +0  bytes +Payload sent' "$text"
says gauges_are_there '^  registered_bytes +0  bytes ' "$text"
says odp_is_of_the_device_too '^  num_page_faults +0  events ' "$text"
text=$("$tool" stat port)
says port_has_standard_names '^  port_rcv_data +0  words ' "$text"
says port_has_hw_counters '^  rx_write_requests +0  messages ' "$text"
holds each_name_once \
	test -z "$("$tool" stat port any0 | awk 'NR > 2 { print $1 }' | sort | uniq -d)"

text=$("$tool" stat odp)
says counter_has_value_unit_meaning '^  num_page_faults +0  events +Page fault events$' "$text"
holds counters_of_each_device test "$(grep -cE '^  (num_|inv)[a-z_]+ +0 ' <<<"$text")" = 22
holds one_device test "$("$tool" stat odp mlx5_0 | grep '^[^ ]')" = mlx5_0
holds device_by_uverbs_name test "$("$tool" stat odp uverbs1 | grep '^[^ ]')" = mlx5_0
holds reading_leaves_no_files test -z "$(ls -A "$ANYVERBS_DIR")"

exits unknown_group_is_2 2 "$tool" stat nosuch
exits unknown_device_is_1 1 "$tool" stat odp nosuch0
exits a_word_like_a_device_is_1 1 "$tool" stat any1
says a_word_like_a_device_is_one "^anyverbs: there is no device 'any1'; did you mean 'any0'" \
	"$("$tool" stat any1 2>&1)"
exits a_word_like_a_group_is_2 2 "$tool" stat prt
exits only_a_device_is_watched 1 "$tool" stat -w0.01 -n 1 nosuch
exits too_many_arguments_are_2 2 "$tool" stat odp any0 mlx5_0
exits unknown_option_is_2 2 "$tool" stat --frobnicate
exits full_disk_is_not_a_success 1 sh -c '"$1" stat odp --json >/dev/full' sh "$tool"
for options in "-j -p" "-p -w" "-n 3" "-o x" "-w0" "-w1x" "-wnan" "-w -n 0" "-w -n -1" "-w -n 1x" \
	"qp -w" "odp -p"; do
	exits "options_make_no_sense: $options" 2 "$tool" stat $options
done

# --- watching and recording ---
text=$("$tool" stat --watch=0.01 -n 3)
says watch_has_headings '^TIME +DEVICE +XMIT MB/s' "$text"
holds a_line_for_each_device_and_look test "$(grep -cE '^[0-9:]{8}  (any0|mlx5_0) ' <<<"$text")" = 6
exits record_csv 0 "$tool" stat any0 -w0.01 -n 3 -o "$work/r.csv"
says csv_has_names '^time,device,xmit_bytes,' "$(head -1 "$work/r.csv")"
holds csv_has_the_first_look_too test "$(grep -c '^[0-9.]*,any0,0,' "$work/r.csv")" = 4
holds csv_lines_are_of_one_length \
	test "$(awk -F, '{ print NF }' "$work/r.csv" | sort -u | wc -l)" = 1
exits record_json 0 "$tool" stat any0 -w0.01 -n 3 -o "$work/r.jsonl"
exits nowhere_to_write_is_1 1 "$tool" stat -w0.01 -n 2 -o "$work/nosuch/r.csv"
exits full_disk_is_no_record 1 "$tool" stat -w0.01 -n 2 -o /dev/full

# --- Prometheus, and JSON ---
if command -v promtool >/dev/null; then
	for group in device port process qp cq mr; do
		holds "promtool_takes_$group" \
			test -z "$("$tool" stat $group --prometheus | promtool check metrics 2>&1)"
	done
fi
if command -v python3 >/dev/null; then
	for group in device port; do
		says "prometheus_$group" '^[1-9][0-9]+ families, [1-9][0-9]+ samples$' \
			"$("$tool" stat $group -p | python3 "$here/prometheus.py")"
	done
	says prometheus_has_a_counter "^anyverbs_device_xmit_bytes_total counter device=mlx5_0 0$" \
		"$("$tool" stat -p | python3 "$here/prometheus.py" --list)"
	says prometheus_has_a_gauge "^anyverbs_device_qps gauge device=any0 0$" \
		"$("$tool" stat -p | python3 "$here/prometheus.py" --list)"
	holds no_rows_no_output test -z "$("$tool" stat qp -p)"
	text=$("$tool" stat odp --json | python3 -c '
import json, sys
all = json.load(sys.stdin)
print(all["group"], [d["device"] for d in all["devices"]],
      [len(d["counters"]) for d in all["devices"]])
for row in all["devices"][1]["counters"]:
    print(row["counter"], row["value"], row["unit"], row["gauge"])')
	says json_names_group_and_devices "^odp \['any0', 'mlx5_0'\] \[11, 11\]$" "$text"
	says json_has_counters '^num_prefetchs_handled 0 calls False$' "$text"
	says json_has_gauges '^num_odp_mrs 0 regions True$' "$text"
	says json_lines "^4 any0 0$" "$(python3 -c '
import json, sys
rows = [json.loads(line) for line in open(sys.argv[1])]
print(len(rows), rows[0]["device"], rows[3]["num_page_faults"])' "$work/r.jsonl")"
fi
holds reading_still_leaves_no_files test -z "$(ls -A "$ANYVERBS_DIR")"
finish
