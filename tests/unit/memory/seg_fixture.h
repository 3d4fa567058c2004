/* SPDX-License-Identifier: MIT */
/* For tests that begin each time with an empty segment, with or without tables of objects. */
#ifndef AV_TESTS_SEG_FIXTURE_H
#define AV_TESTS_SEG_FIXTURE_H

#include "unit/memory/fake_seg.h"

static struct fake_seg fake;

static inline int open_fake(void **state)
{
	fake_open(&fake, 1);
	return 0;
}

static inline int open_fake_tables(void **state)
{
	fake_open(&fake, 1);
	fake_tables(&fake);
	return 0;
}

static inline int close_fake(void **state)
{
	fake_close(&fake);
	return 0;
}

#endif
