#!/bin/bash
# SPDX-License-Identifier: MIT
# "anyverbs doctor": every check has a finding and a consequence,
# limits are noticed, nothing is left behind.
. "$(dirname "$0")/lib.sh"

folder=$(mktemp -d)
export ANYVERBS_DIR=$folder
status=0
text=$("$tool" doctor) || status=$?
json=$("$tool" doctor --json)
holds nothing_is_left_behind rmdir "$folder"
mkdir "$folder"

# Text: "finding  Title: value", a consequence, perhaps advice; an empty line
# and the verdict at the end.
holds every_finding_has_a_consequence awk '
	/^$/ { exit wanted }
	/^(ok|limited|missing) +[A-Z][^:]*: ./ { if (wanted) exit 1; wanted = 1; next }
	/^ +Advice: .+\.?$/ { if (wanted) exit 1; next }
	/^ +[^ ].*$/ { wanted = 0; next }
	{ exit 1 }' <<<"$text"
holds there_are_twenty_checks_and_more test "$(grep -cE '^(ok|limited|missing) ' <<<"$text")" -ge 20
for subject in 'Memory of other processes' Yama Dumpable Seccomp 'PID namespace' 'User namespace' \
	Userfaultfd Memfd 'Transparent huge pages' 'Shared folder' 'ulimit -l' 'ulimit -n' \
	'ulimit -f' 'ulimit -v' max_map_count Kernel MADV_POPULATE 'Library of the system' \
	Processors 'Other RDMA devices' 'Link layer: Ethernet'; do
	says "looks_at_$subject" "^(ok|limited|missing) +.*$subject" "$text"
done
says huge_pages_of_the_shared_heap '^[a-z]+ +Transparent huge pages: .*shared heap: [a-z]' "$text"
if grep -q 'Nothing essential is missing' <<<"$text"; then
	holds status_is_0_if_nothing_is_missing test "$status" = 0
else
	holds status_is_1_if_something_is_missing test "$status" = 1
fi

holds json_has_the_same_checks \
	python3 - "$(grep -cE '^(ok|limited|missing) ' <<<"$text")" "$json" <<'PYTHON'
import json, sys
report = json.loads(sys.argv[2])
checks = report["checks"]
assert len(checks) == int(sys.argv[1])
assert all(c["finding"] in ("ok", "limited", "missing") for c in checks)
assert all(c["consequence"] and c["value"] for c in checks)
assert all(c["finding"] == "ok" or c["advice"] for c in checks)
assert report["ok"] == all(c["finding"] != "missing" for c in checks if c["essential"])
assert len({c["check"] for c in checks}) == len(checks)
PYTHON

text=$(ulimit -f 1000 && "$tool" doctor)
says short_files_are_noticed '^missing +Limit of file size' "$text"
says and_make_opening_impossible '^missing +Memory of a context' "$text"
exits and_are_essential 1 \
	bash -c 'ulimit -f 1000; "$1" doctor | cat >/dev/null; exit "${PIPESTATUS[0]}"' bash "$tool"
text=$(ulimit -n 64 && "$tool" doctor)
says few_descriptors_are_noticed '^limited +Limit of open files' "$text"
text=$(ANYVERBS_DIR=/proc "$tool" doctor 2>&1)
says unusable_folder_is_noticed '^missing +Shared folder: /proc' "$text"
holds and_said_once test -z "$(grep warn: <<<"$text")"
# Relative to what? Programs change their folder.
text=$(cd "$folder" && mkdir here && ANYVERBS_DIR=here "$tool" doctor 2>/dev/null)
says relative_folder_is_refused \
	'^missing +Shared folder: here/anyverbs-.*: Invalid argument' "$text"
says absolute_folder_is_advised '^ +Advice: .*an absolute path' "$text"
holds nothing_is_made_there rmdir "$folder/here"
long=$folder/$(printf 'x%.0s' {1..150})
mkdir "$long"
text=$(ANYVERBS_DIR=$long ANYVERBS_LIBRARY=$long/library "$tool" doctor)
says paths_are_whole "^[a-z]+ +Shared folder: $long/anyverbs-[^ ]+ \(" "$text"
says all_of_them "^missing +Library of anyverbs: $long/library$" "$text"
holds nothing_stays_there rmdir "$long"
folder_of() { env "$@" "$tool" doctor | grep -o 'Shared folder: [^ ]*'; }
holds empty_folder_is_none test "$(folder_of ANYVERBS_DIR=)" = "$(folder_of -u ANYVERBS_DIR)"
text=$(ANYVERBS_LIBRARY=/nowhere "$tool" doctor)
says absent_library_is_noticed '^missing +Library of anyverbs' "$text"
text=$(ANYVERBS_DEVICES=any0:mtu=1 "$tool" doctor)
says misunderstood_devices_are_noticed '^limited +Configuration' "$text"
says programs_that_want_a_lid_are_told 'Advice: .*any0:link=infiniband' "$text"
text=$(ANYVERBS_DEVICES=any0:link=infiniband "$tool" doctor)
says they_find_one_on_infiniband 'Link layer: InfiniBand' "$text"
holds and_need_no_advice test -z "$(grep link=infiniband <<<"$text")"
# Another build: of the library, and of programs that run.
says one_build_is_fine '^ok +Version' "$("$tool" doctor)"
library=$("$tool" doctor --json | python3 -c 'import json, sys
print(*[c["value"] for c in json.load(sys.stdin)["checks"] if c["check"] == "library"])')
python3 - "$library" "$folder/other.so" <<'PYTHON'
import re, sys
text = open(sys.argv[1], "rb").read()
text, found = re.subn(rb"(anyverbs-layout-)(\d)",
                      lambda m: m[1] + (b"2" if m[2] == b"1" else b"1"), text)
assert found
open(sys.argv[2], "wb").write(text)
PYTHON
text=$(ANYVERBS_LIBRARY=$folder/other.so "$tool" doctor)
says library_of_another_build '^limited +Version.*library' "$text"
holds nothing_to_say_to_stat test -z "$("$tool" stat 2>&1 >/dev/null)"
other=$folder/anyverbs-$(id -u)-1
mkdir -m 700 "$other"
python3 - "$other/directory" <<'PYTHON' &
import fcntl, sys, time
file = open(sys.argv[1], "w")
fcntl.lockf(file, fcntl.LOCK_EX, 1)
open(sys.argv[1] + ".locked", "w")
time.sleep(1000)
PYTHON
holder=$!
holds it_has_a_lock wait_for test -e "$other/directory.locked"
says program_of_another_build "^limited +Version.*${other##*/} is in use" "$("$tool" doctor)"
for command in stat "stat qp --json" "top -b -n 1 -d 0.1" explain; do
	says "is said by $command" '^anyverbs: programs run with a library of another build' \
		"$(eval "\"\$tool\" $command" 2>&1 >/dev/null)"
done
kill $holder
wait $holder 2>/dev/null
says nobody_uses_it_any_more '^ok +Version' "$("$tool" doctor)"
exits unknown_option_is_2 2 "$tool" doctor --no-such-option
rm -r "$folder"
finish
