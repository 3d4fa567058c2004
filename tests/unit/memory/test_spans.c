/* SPDX-License-Identifier: MIT */
/* A list of spans from which the first bytes are gone names the others. */
#include "base/compiler.h"
#include "lib/unit.h"
#include "memory/translate.h"

#define N 4u

static uint8_t memory[1000]; /* where the second and the last span are mapped */

static const struct {
	uint64_t length[N];
	uint32_t count;
	uint64_t skip;
	uint32_t gone;	 /* spans that are gone, */
	uint64_t offset; /* and bytes of the next one */
} rows[] = {
	{{10, 20, 30, 40}, 4, 0, 0, 0},
	{{10, 20, 30, 40}, 4, 1, 0, 1},
	{{10, 20, 30, 40}, 4, 9, 0, 9},
	{{10, 20, 30, 40}, 4, 10, 1, 0},
	{{10, 20, 30, 40}, 4, 11, 1, 1},
	{{10, 20, 30, 40}, 4, 30, 2, 0},
	{{10, 20, 30, 40}, 4, 60, 3, 0},
	{{10, 20, 30, 40}, 4, 99, 3, 39},
	{{10, 20, 30, 40}, 4, 100, 4, 0},
	{{10, 0, 30, 40}, 4, 10, 2, 0},
	{{10, 20, 30, 0}, 4, 60, 4, 0},
	{{10}, 1, 3, 0, 3},
	{{10}, 1, 10, 1, 0},
};

static void bytes_are_skipped(void **state)
{
	for (size_t i = 0; i < AV_ARRAY_SIZE(rows); i++) {
		struct av_spans spans = {.count = rows[i].count};

		for (uint32_t n = 0; n < rows[i].count; n++) {
			spans.at[n].addr = 1000 * (n + 1);
			spans.at[n].length = rows[i].length[n];
			spans.at[n].local = n % 2 ? &memory[100 * n] : NULL;
			spans.bytes += rows[i].length[n];
		}
		av_spans_skip(&spans, rows[i].skip);
		assert_int_equal(spans.count, rows[i].count - rows[i].gone);
		for (uint32_t n = 0; n < spans.count; n++) {
			uint32_t was = n + rows[i].gone;
			uint64_t offset = n == 0 ? rows[i].offset : 0;

			if (spans.at[n].addr != 1000 * (was + 1) + offset ||
			    spans.at[n].length != rows[i].length[was] - offset ||
			    spans.at[n].local != (was % 2 ? &memory[100 * was + offset] : NULL))
				fail_msg("row %zu: span %u", i, n);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(bytes_are_skipped)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
