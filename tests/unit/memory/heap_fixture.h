/* SPDX-License-Identifier: MIT */
/*
 * For tests that begin each time with an empty segment that has a heap. Included last: what it
 * calls seg is an argument elsewhere.
 */
#ifndef AV_TESTS_HEAP_FIXTURE_H
#define AV_TESTS_HEAP_FIXTURE_H

#include "unit/memory/fake_heap.h"

static struct fake_heap heap;
static struct av_seg *const seg = &heap.fake.seg;

static int set_up(void **state)
{
	fake_heap_open(&heap);
	return 0;
}

static int tear_down(void **state)
{
	fake_heap_close(&heap);
	return 0;
}

#endif
