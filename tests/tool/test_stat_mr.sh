#!/bin/bash
# SPDX-License-Identifier: MIT
# "anyverbs stat mr": the regions of another process, by kind and by the pages they are on.
# Usage: test_stat_mr.sh TOOL HOLDER
. "$(dirname "$0")/lib.sh"
holder=$2
export ANYVERBS_DEVICES=any0,mlx5_0
ANYVERBS_DIR=$(mktemp -d -p /dev/shm anyverbs-test-XXXXXX)
export ANYVERBS_DIR
trap 'rm -r "$ANYVERBS_DIR"' EXIT

says group_is_listed '^  mr +[a-z]' "$("$tool" help stat)"
holds nobody_no_rows test "$("$tool" stat mr | grep -cE '^ +[0-9]')" = 0
holds reading_leaves_no_files test -z "$(ls -A "$ANYVERBS_DIR")"

coproc "$holder"
pid=$COPROC_PID
in=${COPROC[1]}
read -r ready <&"${COPROC[0]}"
holds regions_are_there test "$ready" = ready

# region RULE MEMORY LENGTH REST: a row of that process
region() {
	says "$1" "^ +$pid  0x[0-9a-f]{8}  0x[0-9a-f]{12} +$3  $2 +$4" "$text"
}

text=$("$tool" stat mr any0)
region plain plain 4096 '- +- +-( +0){4}$'
region on_demand on-demand 4096 '- +- +-( +0){4}$'
region small_pages pages 8192 'ALL +- +2 x 4 KiB( +0){4}$'
region huge_pages pages 5242880 'ALL +- +(2 x 2 MiB \+ 256|1280) x 4 KiB( +0){4}$'
region mapped_only mapped 4096 'ALL +read +1 x 4 KiB( +0){4}$'
region shared pages 12288 'ALL +read-write +3 x 4 KiB( +0){4}$'
region second pages 12288 'ALL +second +3 x 4 KiB( +0){4}$'
region private private 20480 'ANON +- +5 x 4 KiB( +0){4}$'
holds all_rows test "$(grep -cE "^ +$pid " <<<"$text")" = 8
holds other_device_has_none test "$("$tool" stat mr mlx5_0 | wc -l)" = 2
if command -v python3 >/dev/null; then
	text=$("$tool" stat mr --json | python3 -c '
import json, sys
all = json.load(sys.stdin)
print(all["group"], [(d["device"], len(d["regions"])) for d in all["devices"]])
for r in all["devices"][0]["regions"]:
    print(r["pid"], r["length"], r["memory"], r["type"], r["shared"],
          r["huge_pages"] * 512 + r["small_pages"])')
	says json_has_devices "^mr \[\('any0', 8\), \('mlx5_0', 0\)\]$" "$text"
	says json_has_rows "^$pid 5242880 pages ALL - 1280$" "$text"
	text2=$("$tool" stat mr any0 --json | python3 -c '
import json, sys
for r in json.load(sys.stdin)["devices"][0]["regions"]:
    if r["memory"] == "on-demand":
        print(r["shared_bytes"], r["page_faults"], r["valid_pages"], r["windows"])')
	says json_has_counters "^0 0 0 0$" "$text2"
	says json_says_private "^$pid 20480 private ANON - 5$" "$text"
fi
text=$("$tool" stat mr --prometheus)
says prometheus_has_regions \
	"^anyverbs_mr_page_faults_total\{device=\"any0\",pid=\"$pid\",key=\"[0-9]+\"\} 0$" "$text"
says prometheus_has_gauges '^# TYPE anyverbs_mr_shared_bytes gauge$' "$text"
holds prometheus_has_all_rows test "$(grep -c '^anyverbs_mr_refused_total{' <<<"$text")" = 8
exits full_disk_is_not_a_success 1 sh -c '"$1" stat mr --json >/dev/full' sh "$tool"

exec {in}>&-
wait "$pid"
holds gone_with_the_process test "$("$tool" stat mr | grep -cE '^ +[0-9]')" = 0
finish
