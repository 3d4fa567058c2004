#!/bin/bash
# SPDX-License-Identifier: MIT
# purposes.sh DEPS.SH: it knows the purposes that its list names, and no other word. Nothing is
# installed: commands of the system are stand-ins that report.
set -u
deps=$1
list=$(dirname "$deps")/debian-packages.txt
known=$(grep -oE '^[a-z][a-z0-9-]*' "$list" | sort -u)
failed=0
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

printf '#!/bin/sh\necho installed\n' >"$folder/dpkg-query"
for command in apt-get sudo env; do
	printf '#!/bin/sh\necho "%s $*" >>"%s/called"\n' "$command" "$folder" >"$folder/$command"
done
chmod +x "$folder"/*

# says STATUS WORD...: that is how it ends
says() {
	local want=$1 got
	shift
	PATH=$folder:$PATH bash "$deps" "$@" >"$folder/said" 2>&1
	got=$?
	if [ "$got" != "$want" ] || [ -e "$folder/called" ]; then
		echo "deps.sh $*: exit status $got instead of $want"
		cat "$folder/said" "$folder/called" 2>/dev/null
		failed=1
	fi
}

# names WORD...: what it has said names each
names() {
	local word
	for word in "$@"; do
		grep -qwF -- "$word" "$folder/said" && continue
		echo "deps.sh does not name $word:"
		cat "$folder/said"
		failed=1
	done
}

says 0
for word in $known; do
	says 0 "$word"
done
for word in WRONG .. 'build|run' 'b.*' '' -h; do
	says 2 "$word"
	# shellcheck disable=SC2086 # words
	names "$word" $known
	says 2 build "$word"
done
exit $failed
