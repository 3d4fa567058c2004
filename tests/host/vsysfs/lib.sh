# SPDX-License-Identifier: MIT
# For the tests with unmodified programs.
# Usage: TEST LIBANYVERBS; a rule that does not hold is printed, and counted in
# $failures.
set -u
library=$1
failures=0
unset ANYVERBS_LOG LD_PRELOAD
export LC_ALL=C
# LD_PRELOAD cannot hold a path with a space.
case $library in *" "*)
	export LD_LIBRARY_PATH=${library%/*}
	library=${library##*/}
	;;
esac
. "$(dirname "${BASH_SOURCE[0]}")/../../lib/wait.sh"

# Ends the test, skipped, if a plain program with the library preloaded does not run,
# or prints something.
require_preload() {
	if ! LD_PRELOAD=$library /bin/true 2>/dev/null ||
		[ -n "$(LD_PRELOAD=$library /bin/true 2>&1)" ]; then
		echo "the library cannot be preloaded into plain programs" \
			"(is it built with a sanitizer?)"
		exit 77
	fi
}

# prints RULE EXPECTED COMMAND...: its standard output and error, with the library preloaded
prints() {
	local rule=$1 expected=$2 text
	shift 2
	text=$(LD_PRELOAD=$library "$@" 2>&1)
	if [ "$text" != "$expected" ]; then
		echo "does not hold: $rule: $* printed:" >&2
		echo "$text" >&2
		failures=$((failures + 1))
	fi
}

# The end of a test: success if every rule holds.
finish() {
	[ $failures = 0 ]
	exit
}
