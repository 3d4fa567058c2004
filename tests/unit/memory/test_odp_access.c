/* SPDX-License-Identifier: MIT */
/* What is a page fault event, which pages become valid, and how the parts of a message count. */
#include "base/compiler.h"
#include "lib/unit.h"
#include "memory/key.h"
#include "memory/odp.h"
#include "unit/memory/seg_fixture.h"

#define PAGE  4096u
#define PAGES 16u
#define KEY   (5u << 8 | 3)

static uint8_t memory[PAGES * PAGE] AV_ALIGNED(PAGE);

static int setup(void **state)
{
	struct av_key *k;

	fake_open(&fake, 1);
	fake_tables(&fake);
	k = av_key_entry(&fake.seg, KEY);
	if (!k)
		abort(); /* unlike cmocka's, the compiler knows that one */
	k->kind = AV_KEY_ODP;
	k->addr = (uintptr_t)memory;
	k->length = sizeof(memory);
	av_region_count_begin(&fake.seg, KEY, true);
	atomic_store(&k->held, KEY);
	return 0;
}

/* An access from a byte of the memory on. */
static void touch(uint64_t at, uint64_t len, bool write, bool ok, struct av_odp_message *message)
{
	struct av_odp_access access;

	av_odp_begin(&fake.seg, (uintptr_t)memory + at, len, write, message, &access);
	av_odp_end(&access, ok);
}

/* The same numbers of the device and of the region, where it has them. */
static void expect(const char *what, uint64_t faults, uint64_t pages, uint64_t failed)
{
	uint64_t value[AV_MR_GAUGES];

	av_region_counted(&fake.seg, KEY, value);
	if (counted(&fake, AV_ODP_COUNT_FAULTS) != faults || value[AV_MR_FAULTS] != faults ||
	    counted(&fake, AV_ODP_COUNT_FAULT_PAGES) != pages ||
	    value[AV_MR_FAULT_PAGES] != pages ||
	    counted(&fake, AV_ODP_COUNT_FAILED_RESOLUTIONS) != failed ||
	    counted(&fake, AV_ODP_COUNT_CONTENTIONS) != 0)
		fail_msg("%s: %lu events of %lu pages", what,
			 (unsigned long)counted(&fake, AV_ODP_COUNT_FAULTS),
			 (unsigned long)counted(&fake, AV_ODP_COUNT_FAULT_PAGES));
}

static uint64_t missing(uint64_t at, uint64_t len, bool write)
{
	return fake_missing(&fake.seg, (uintptr_t)memory + at, len, write);
}

TEST_WITH(a_miss_is_an_event, setup, close_fake)
{
	touch(PAGE - 1, 2, false, true, NULL);
	expect("two pages", 1, 2, 0);
	touch(0, 2 * PAGE, false, true, NULL);
	expect("a hit", 1, 2, 0);
	touch(0, 3 * PAGE, false, true, NULL);
	expect("one that is missing", 2, 3, 0);
	touch(0, 1, true, true, NULL);
	expect("for writing", 3, 4, 0);
	assert_int_equal(missing(0, 4 * PAGE, false), 1);
	assert_int_equal(missing(0, 4 * PAGE, true), 3);
}

TEST_WITH(an_access_that_fails_makes_nothing_valid, setup, close_fake)
{
	touch(0, 1, false, false, NULL);
	expect("a miss", 1, 0, 1);
	assert_int_equal(missing(0, 1, false), 1);
	touch(0, 2 * PAGE, false, true, NULL);
	expect("a good one", 2, 2, 1);
	touch(PAGE, 1, false, false, NULL); /* the kernel said nothing of it */
	expect("a hit that fails", 3, 2, 2);
	assert_int_equal(missing(0, 2 * PAGE, false), 1);
}

/* To one run of memory, the parts of a message are one event together. */
TEST_WITH(parts_of_a_message, setup, close_fake)
{
	struct av_odp_message message = {0}, other = {0};

	touch(0, PAGE, true, true, &message);
	expect("the first part", 1, 1, 0);
	touch(PAGE, PAGE, true, true, &message);
	touch(2 * PAGE, 10, true, true, &message);
	expect("what follows", 1, 3, 0);
	touch(6 * PAGE, 10, true, true, &message);
	expect("another place", 2, 4, 0);
	touch(6 * PAGE + 10, PAGE, true, true, &message);
	expect("what follows there", 2, 5, 0);
	touch(0, PAGE, true, true, &message);
	expect("a hit at another place", 2, 5, 0);
	touch(PAGE, 3 * PAGE, true, true, &message);
	expect("the first miss of that run", 3, 6, 0);
	touch(4 * PAGE, 1, true, true, &other);
	expect("another message", 4, 7, 0);
	touch(4 * PAGE, 2 * PAGE, true, false, &message);
	expect("a part that fails", 4, 7, 1);
	touch(8 * PAGE, 1, true, true, NULL);
	touch(9 * PAGE, 1, true, true, NULL);
	expect("transfers of their own", 6, 9, 1);
}

int main(void)
{
	return run_cases(NULL, NULL);
}
