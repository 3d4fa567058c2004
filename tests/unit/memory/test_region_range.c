/* SPDX-License-Identifier: MIT */
/* Which addresses and lengths a region may have, whatever is mapped there. */
#include <errno.h>

#include "base/compiler.h"
#include "base/newer_verbs.h"
#include "fake_seg.h"
#include "lib/unit.h"
#include "memory/key.h"
#include "memory/region.h"
#include "observe/check.h"

#define PAGE	 4096ull
#define LAST	 UINT64_MAX
#define SOME	 0x7000000ull
#define ODP	 IBV_ACCESS_ON_DEMAND
#define ZERO	 IBV_ACCESS_ZERO_BASED
#define LOCAL	 IBV_ACCESS_LOCAL_WRITE
#define WRITE	 IBV_ACCESS_REMOTE_WRITE
#define READ	 IBV_ACCESS_REMOTE_READ
#define HUGE	 IBV_ACCESS_HUGETLB
#define FOREVER	 AV_ACCESS_FLUSH_PERSISTENT
#define TUNNELED AV_ACCESS_TUNNELED
#define WRAPS	 AV_CHECK_MR_WRAPS
#define IOVA	 AV_CHECK_MR_IOVA
#define LOCALS	 AV_CHECK_MR_NEEDS_LOCAL
#define IMPLICIT AV_CHECK_MR_IMPLICIT

static struct fake_seg f;

static const struct {
	uint64_t addr, length, iova;
	uint32_t access;
	int err;
	enum av_check check;
	uint64_t wanted, limit; /* what is said of it */
} rows[] = {
	/* no bytes: nothing is there to be wrong but the place in a page */
	{SOME, 0, SOME, READ, 0, 0, 0, 0},
	{LAST, 0, LAST, READ, 0, 0, 0, 0},
	{LAST, 0, PAGE - 1, READ, 0, 0, 0, 0},
	{SOME, 0, SOME + 1, READ, EINVAL, IOVA, 0, 1},
	/* the last bytes there are */
	{LAST, 2, LAST, READ, EINVAL, WRAPS, LAST, 2},
	{LAST, 1, LAST, READ, EINVAL, WRAPS, LAST, 1},
	{LAST - PAGE, 2, LAST - PAGE, READ, EINVAL, WRAPS, LAST - PAGE, 2},
	{SOME + PAGE - 1, 2, LAST, READ, EINVAL, WRAPS, SOME + PAGE - 1, 2},
	{SOME, LAST, SOME, READ, EINVAL, WRAPS, SOME, LAST},
	/* address and iova in a page */
	{SOME + 1, 1, SOME, READ, EINVAL, IOVA, 1, 0},
	{SOME, 1, SOME + 2048, READ, EINVAL, IOVA, 0, 2048},
	{SOME + 2049, 1, SOME + PAGE + 1, READ, EINVAL, IOVA, 2049, 1},
	/* rights come first */
	{LAST, 2, LAST, WRITE, EINVAL, LOCALS, WRITE, LOCAL},
	{SOME, 0, SOME, LOCAL | FOREVER, EOPNOTSUPP, AV_CHECK_MR_PERSISTENT, LOCAL | FOREVER, 0},
	{SOME, 0, SOME, TUNNELED, EINVAL, AV_CHECK_MR_TUNNELED, TUNNELED, 0},
	/* on demand, nothing is looked at */
	{SOME, 1, SOME, ODP, 0, 0, 0, 0},
	{SOME + 5, 1, SOME + PAGE + 5, ODP, 0, 0, 0, 0},
	{SOME, 0, SOME, ODP, EINVAL, AV_CHECK_MR_EMPTY, 0, 0},
	{LAST - PAGE, 1, LAST - PAGE, ODP, 0, 0, 0, 0},
	{LAST - PAGE - 9, 10, LAST - PAGE - 9, ODP, 0, 0, 0, 0},
	{LAST - PAGE, 2, LAST - PAGE, ODP, EINVAL, WRAPS, LAST - PAGE, 2},
	{LAST, 1, LAST, ODP, EINVAL, WRAPS, LAST, 1},
	{LAST, 2, LAST, ODP, EOVERFLOW, WRAPS, LAST, 2},
	{SOME + PAGE - 1, 2, LAST, ODP, EINVAL, WRAPS, SOME + PAGE - 1, 2},
	{SOME + 1, 1, SOME, ODP, EINVAL, IOVA, 1, 0},
	{SOME, 1, SOME, ODP | WRITE, EINVAL, LOCALS, ODP | WRITE, LOCAL},
	/* the whole address space */
	{0, SIZE_MAX, 0, ODP, 0, 0, 0, 0},
	{0, SIZE_MAX, 0, ODP | LOCAL | WRITE, 0, 0, 0, 0},
	{1, SIZE_MAX, 0, ODP, EINVAL, IMPLICIT, 1, ODP},
	{0, SIZE_MAX, 1, ODP, EINVAL, IMPLICIT, 1, ODP},
	{PAGE, SIZE_MAX, PAGE, ODP, EINVAL, IMPLICIT, PAGE, ODP},
	{0, SIZE_MAX, 0, ODP | HUGE, EINVAL, IMPLICIT, 0, ODP | HUGE},
	{SOME, 1, SOME, ODP | HUGE, 0, 0, 0, 0},
};

TEST(ranges)
{
	fake_open(&f, 1);
	for (size_t i = 0; i < AV_ARRAY_SIZE(rows); i++) {
		const struct av_region_request req = {.addr = rows[i].addr,
						      .length = rows[i].length,
						      .iova = rows[i].iova,
						      .access = rows[i].access,
						      .private = true};
		const struct av_flight_record *said;
		struct av_key what;
		int err;

		av_diag_drop();
		err = av_region_prepare(&f.seg, &req, &what);
		if (err != rows[i].err)
			fail_msg("row %zu: %d, not %d", i, err, rows[i].err);
		said = av_diag_pending();
		if (said->check != rows[i].check ||
		    (said->check && (said->wanted != rows[i].wanted ||
				     said->limit != rows[i].limit || said->error != err)))
			fail_msg("row %zu: check %u of %lu and %lu", i, said->check,
				 (unsigned long)said->wanted, (unsigned long)said->limit);
		if (said->check == WRAPS &&
		    (said->address != rows[i].addr || said->length != rows[i].length))
			fail_msg("row %zu: says another range", i);
		if (said->check == LOCALS && said->access != rows[i].access)
			fail_msg("row %zu: says other rights", i);
	}
	fake_close(&f);
}

/* --- the key --------------------------------------------------------------------- */

static const struct {
	uint32_t access;
	uint8_t kind;
	uint64_t base;
} keys[] = {
	{READ, AV_KEY_REGION, SOME + PAGE},
	{READ | ZERO, AV_KEY_REGION, 0},
	{ODP | READ, AV_KEY_ODP, SOME + PAGE},
	{ODP | ZERO, AV_KEY_ODP, 0},
};

TEST(the_key_says_what_was_asked_for)
{
	fake_open(&f, 1);
	for (size_t i = 0; i < AV_ARRAY_SIZE(keys); i++) {
		const struct av_region_request req = {.addr = SOME,
						      .length = keys[i].access & ODP ? 5 : 0,
						      .iova = SOME + PAGE,
						      .access = keys[i].access,
						      .private = true};
		struct av_key what;

		assert_int_equal(av_region_prepare(&f.seg, &req, &what), 0);
		if (what.kind != keys[i].kind || what.base != keys[i].base || what.addr != SOME ||
		    what.length != req.length || what.access != req.access || what.heap)
			fail_msg("row %zu", i);
	}
	fake_close(&f);
}

int main(void)
{
	return run_cases(NULL, NULL);
}
