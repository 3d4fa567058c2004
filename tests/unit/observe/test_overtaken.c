/* SPDX-License-Identifier: MIT */
/* Which of three that wait go on, in which order, and when the next one does. */
#include <stdlib.h>

#include "base/compiler.h"
#include "lib/unit.h"
#include "observe/faults.h"

#define HELD  3
#define START 1000000000ull
#define WAIT  ((uint64_t)AV_OVERTAKEN_NS)
#define NONE  UINT64_MAX

/* Verdicts of A, B and C. */
static const struct av_faults_verdict overtaken[HELD] = {{.after = 1}, {.after = 2}, {.after = 3}};
static const struct av_faults_verdict delayed[HELD] = {
	{.delay_ns = 5},
	{.after = 1},
	{.delay_ns = 3 * WAIT, .after = 1},
};

struct held {
	struct av_late late;
	char name;
};

static const struct row {
	const char *name;
	const struct av_faults_verdict *verdict;
	unsigned int passed; /* others that went before them */
	uint64_t at;	     /* so much later */
	const char *go;	     /* those that go on then */
	uint64_t next;	     /* when one of the rest does, if no other comes */
} rows[] = {
	{"nothing passes", overtaken, 0, WAIT - 1, "", WAIT},
	{"one passes", overtaken, 1, 0, "A", WAIT},
	{"two pass", overtaken, 2, 0, "AB", WAIT},
	{"more pass than must", overtaken, 9, 0, "ABC", NONE},
	{"nothing comes in time", overtaken, 0, WAIT, "ABC", NONE},
	{"a delay is not over", delayed, 9, 4, "B", 5},
	{"a delay is over", delayed, 0, 5, "A", WAIT},
	{"a delay is longer than others wait", delayed, 0, WAIT, "AB", 3 * WAIT},
	{"all delays are over", delayed, 0, 3 * WAIT, "ABC", NONE},
};

static void row_holds(void **state)
{
	const struct row *row = *state;
	struct av_overtaken o = {0};
	struct held *h;

	for (int i = 0; i < HELD; i++) {
		h = av_overtaken_add(&o, sizeof(*h), &row->verdict[i], START);
		assert_non_null(h);
		h->name = (char)('A' + i);
	}
	for (unsigned int i = 0; i < row->passed; i++)
		av_overtaken_pass(&o);
	for (const char *c = row->go; *c; c++) {
		h = av_overtaken_take(&o, START + row->at);
		assert_non_null(h);
		assert_int_equal(h->name, *c);
		free(h);
	}
	assert_null(av_overtaken_take(&o, START + row->at));
	assert_true(av_overtaken_next(&o) == (row->next == NONE ? NONE : START + row->next));
	while ((h = av_overtaken_take(&o, UINT64_MAX)))
		free(h);
}

static void no_more_wait_than_there_is_room_for(void **state)
{
	const struct av_faults_verdict v = {.times = 7, .after = 1};
	struct av_overtaken o = {0};
	unsigned int taken = 0;
	struct held *h;

	for (int i = 0; i < AV_OVERTAKEN_MAX; i++)
		assert_non_null(av_overtaken_add(&o, sizeof(*h), &v, START));
	assert_null(av_overtaken_add(&o, sizeof(*h), &v, START));
	for (; (h = av_overtaken_take(&o, UINT64_MAX)); taken++) {
		assert_int_equal(h->late.times, v.times);
		free(h);
	}
	assert_int_equal(taken, AV_OVERTAKEN_MAX);
	h = av_overtaken_add(&o, sizeof(*h), &v, START);
	assert_non_null(h);
	assert_ptr_equal(av_overtaken_take(&o, UINT64_MAX), h);
	free(h);
}

int main(void)
{
	struct CMUnitTest tests[AV_ARRAY_SIZE(rows) + 1];
	size_t n = 0;

	for (; n < AV_ARRAY_SIZE(rows); n++)
		tests[n] = (struct CMUnitTest){
			.name = rows[n].name,
			.test_func = row_holds,
			.initial_state = (void *)(uintptr_t)&rows[n],
		};
	tests[n] = (struct CMUnitTest)cmocka_unit_test(no_more_wait_than_there_is_room_for);
	return cmocka_run_group_tests_name("what is overtaken", tests, NULL, NULL);
}
