/* SPDX-License-Identifier: MIT */
/* Who asks whether pages may move may hold the allocator's lock: nothing is allocated for it. */
#include "lib/fail_alloc.h"
#include "lib/unit.h"
#include "memory/region.h"

TEST(nothing_is_allocated_to_see)
{
	bool moves, any;

	fail_alloc_begin(FAIL_ONWARDS, 1);
	moves = av_mm_quiesce_allowed();
	any = fail_alloc_end();
	assert_true(moves);
	assert_false(any);
}

int main(void)
{
	return run_cases(NULL, NULL);
}
