#!/bin/sh
# SPDX-License-Identifier: MIT
# Compile layout.c in each language and with each way of including the experimental verbs.
# usage: compile.sh CC SOURCE_DIR
# Exit status: 0 all compile, 1 not.
# Languages whose compiler is not installed are named and left out.
cc=$1 top=$2 faults=0 count=0
here=$(dirname "$0")
warn="-Wall -Wextra -Wpedantic -Werror -fsyntax-only"

compile() # LANGUAGE NAME FLAGS...
{
	language=$1 name=$2
	shift 2
	case $language in
	c*+*) run="$cxx -x c++" ;;
	*) run=$cc ;;
	esac
	count=$((count + 1))
	# shellcheck disable=SC2086
	if ! $run -std="$language" $warn "$@" "$here/layout.c"; then
		echo "FAILED: $language, $name"
		faults=$((faults + 1))
	fi
}

languages="c99 c11 c17"
case $cc in *clang*) cxx=clang++ ;; *) cxx=c++ ;; esac
if command -v $cxx >/dev/null; then
	languages="$languages c++11 c++20"
else
	echo "no $cxx: C only"
fi
exp='<infiniband/verbs_exp.h>' plain='<infiniband/verbs.h>' tunneled='<anyverbs/tunneled_atomic.h>'
for l in $languages; do
	compile "$l" "alone" -I"$top/include" -DINCLUDE_FIRST="$exp"
	compile "$l" "after verbs.h" -I"$top/include" -DINCLUDE_FIRST="$plain" \
		-DINCLUDE_SECOND="$exp"
	compile "$l" "before verbs.h" -I"$top/include" -DINCLUDE_FIRST="$exp" \
		-DINCLUDE_SECOND="$plain"
	compile "$l" "after as_notify.h" -I"$top/include" -DINCLUDE_FIRST='<anyverbs/as_notify.h>' \
		-DINCLUDE_SECOND="$exp"
	compile "$l" "behind tunneled atomics" -I"$top/include" -DINCLUDE_FIRST="$tunneled" \
		-DINCLUDE_SECOND="$exp"
	compile "$l" "wrapper alone" -I"$top/include/wrapper" -I"$top/include" \
		-DINCLUDE_FIRST="$plain"
	compile "$l" "wrapper second" -I"$top/include/wrapper" -I"$top/include" \
		-DINCLUDE_FIRST="$exp" \
		-DINCLUDE_SECOND="$plain"
done
echo "$count compilations, $faults faults"
[ $faults -eq 0 ]
