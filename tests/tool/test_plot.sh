#!/bin/bash
# SPDX-License-Identifier: MIT
# "anyverbs plot": a recording becomes a picture that says what is in it; what is none is refused.
. "$(dirname "$0")/lib.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# 100 MB/s for two seconds, nothing for one, and all counters begin anew.
cat >"$work/r.csv" <<CSV
time,device,xmit_bytes,rcv_bytes,num_page_faults,num_invalidations
100.000,any0,0,0,0,0
100.000,any1,0,0,0,0
101.000,any0,100000000,50000000,10,5
101.000,any1,999000000,0,0,0
102.000,any0,200000000,100000000,10,5
103.000,any0,200000000,100000000,40,5
104.000,any0,0,0,0,0
CSV
exits draws 0 "$tool" plot "$work/r.csv" -o "$work/r.svg"
text=$(cat "$work/r.svg")
says bandwidth '<text [^>]*>bandwidth, MB/s</text>' "$text"
says faults '<text [^>]*>page faults per second</text>' "$text"
says invalidations '<text [^>]*>invalidations per second</text>' "$text"
holds a_line_for_each test "$(grep -c '<polyline' "$work/r.svg")" = 4
# Axes: 100 MB/s is at the top of the first panel (y = 40), 0 at its bottom (180).
says sent_is_at_100_100_0 \
	'stroke="#1f5fa8".* points="255\.0,40\.0 430\.0,40\.0 605\.0,180\.0"' "$text"
says received_is_half \
	'stroke="#c8511b".* points="255\.0,110\.0 430\.0,110\.0 605\.0,180\.0"' "$text"
# Where the device was reset there is nothing; the line goes on behind it.
cat >"$work/reset.csv" <<CSV
time,device,xmit_bytes
100.000,any0,0
101.000,any0,100000000
102.000,any0,200000000
103.000,any0,0
104.000,any0,50000000
105.000,any0,100000000
CSV
reset=$("$tool" plot "$work/reset.csv" | grep '<polyline.*#1f5fa8')
holds a_reset_breaks_the_line test "$(sed 's/.* points=//' <<<"$reset" | xargs)" = \
	'220.0,40.0 360.0,40.0/> 640.0,110.0 780.0,110.0/>'
says axis_has_its_end '>100</text>' "$text"
holds standard_output test "$("$tool" plot "$work/r.csv")" = "$text"
says title '>any0 from 1 January 1970, 00:01:40 UTC on</text>' "$text"
# 999 MB in one second, and no panel for what there was none of.
text1=$("$tool" plot -d any1 "$work/r.csv")
says other_device '>any1 from .*; no page faults; no invalidations</text>' "$text1"
holds no_empty_axes test "$(grep -c 'per second' <<<"$text1")" = 0
sed 's/,999000000,/,2500000000,/' "$work/r.csv" >"$work/fast.csv"
says a_unit_that_suits '>bandwidth, GB/s<' "$("$tool" plot -d any1 "$work/fast.csv")"
says received_is_seen_behind_sent 'stroke="#c8511b" stroke-dasharray="6 6"' "$text"
if command -v xmllint >/dev/null; then
	exits well_formed 0 xmllint --noout "$work/r.svg"
fi

sed -E '1d; s/([^,]*),([^,]*),([^,]*),([^,]*),([^,]*),(.*)/{"time":\1,"device":"\2",'\
'"xmit_bytes":\3,"rcv_bytes":\4,"num_page_faults":\5,"num_invalidations":\6}/' \
	"$work/r.csv" >"$work/r.jsonl"
holds json_lines_give_the_same test "$("$tool" plot "$work/r.jsonl")" = "$text"
sed 's/any0/<a\&b>/' "$work/r.csv" >"$work/odd.csv"
sed 's/any0/a\xff\x01/' "$work/r.csv" >"$work/binary.csv"
says no_bytes_that_xml_has_not '>a\?\? from ' "$("$tool" plot "$work/binary.csv")"
says names_are_escaped '>&#60;a&#38;b&#62; from ' "$("$tool" plot "$work/odd.csv")"

head -2 "$work/r.csv" >"$work/short.csv"
exits one_moment_is_1 1 "$tool" plot "$work/short.csv"
: >"$work/empty"
exits empty_is_1 1 "$tool" plot "$work/empty"
for line in "hello" "1,any0,-5" "1,any0,x" "{}" '{"time":1}' "1,,5" "nan,any0,5" "1e999,any0,5" \
	"1e299,any0,5" "3e11,any0,5" \
	'{"time":1e299,"device":"any0"}' '{"time":-1,"device":"any0"}'; do
	{ echo time,device,xmit_bytes; echo 1,any0,5; echo "$line"; echo 2,any0,6; } >"$work/bad"
	exits "not_a_recording_is_1: $line" 1 "$tool" plot "$work/bad"
done
exits no_names_is_1 1 "$tool" plot /etc/passwd
exits no_such_file_is_1 1 "$tool" plot "$work/nosuch"
exits device_not_in_it_is_1 1 "$tool" plot -d any7 "$work/r.csv"
exits no_file_is_2 2 "$tool" plot
exits two_files_are_2 2 "$tool" plot "$work/r.csv" "$work/r.csv"
exits full_disk_is_1 1 "$tool" plot "$work/r.csv" -o /dev/full
finish
