/* SPDX-License-Identifier: MIT */
/* Requests that are late: all three numbers say which they are, and the last 256 are remembered. */
#include <stdbool.h>

#include "base/compiler.h"
#include "cm/id.h"
#include "lib/unit.h"

#define REMEMBERED 256u

static const uint8_t host[16] = {[15] = 1}, other[16] = {[15] = 2}, close_by[16] = {1, [15] = 1};

TEST(all_three_count)
{
	static const struct {
		const uint8_t *from;
		uint32_t comm;
		uint64_t transaction;
		bool stale;
	} rows[] = {
		{host, 7, 70, true},   {other, 7, 70, false}, {close_by, 7, 70, false},
		{host, 8, 70, false},  {host, 7, 71, false},  {host, 7, 70 | 1ull << 32, false},
		{other, 8, 71, false}, {host, 0, 0, false},   {host, 0, 70, false},
	};

	av_cm_stale_add(host, 7, 70);
	for (size_t i = 0; i < AV_ARRAY_SIZE(rows); i++)
		assert_int_equal(av_cm_stale_is(rows[i].from, rows[i].comm, rows[i].transaction),
				 rows[i].stale);
}

/* A place that nothing was put into yet is no request of an address of zeros. */
TEST(empty_places)
{
	static const uint8_t nowhere[16];

	assert_false(av_cm_stale_is(nowhere, 0, 0));
}

TEST(the_last_ones)
{
	for (uint32_t i = 1; i <= 2 * REMEMBERED; i++)
		av_cm_stale_add(host, i, i);
	for (uint32_t i = 1; i <= 2 * REMEMBERED; i++)
		assert_int_equal(av_cm_stale_is(host, i, i), i > REMEMBERED);
	av_cm_stale_add(host, 1, 1);
	assert_true(av_cm_stale_is(host, 1, 1));
	assert_false(av_cm_stale_is(host, REMEMBERED + 1, REMEMBERED + 1));
	assert_true(av_cm_stale_is(host, REMEMBERED + 2, REMEMBERED + 2));
}

int main(void)
{
	return run_cases(NULL, NULL);
}
