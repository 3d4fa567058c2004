/* SPDX-License-Identifier: MIT */
/*
 * Lists of UMR keys: their arithmetic, and reading lists that another process has written, which
 * may say anything.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "fake_seg.h"

#include "base/limits.h"
#include "memory/klm_list.h"
#include "memory/key.h"
#include "memory/xfer.h"
#include "memory/translate.h"
#include "memory/klm_iter.h"

#define CHUNK_AT (2u << 20) /* of the key table, in the segment; lists lie behind it */
#define LIST_AT	 (3u << 20)
#define TOP	 (1u << 8)
#define REGION	 (2u << 8)
#define PD	 7u
#define BYTES	 4096u

static struct fake_seg fake;
static uint8_t memory[BYTES];

/* --- arithmetic ------------------------------------------------------------------ */

struct layout_row {
	struct av_klm_entry entries[2];
	uint64_t rounds, base;
	int want;
};

static void layouts(void **state)
{
	const uint64_t big = 1ull << 63, last = UINT64_MAX;
	const struct layout_row rows[] = {
		{{{.addr = 5, .length = 3}, {.addr = 9, .length = 4}}, 1, 0, 0},
		{{{.addr = 5, .length = 0}, {.addr = last, .length = 1}}, 1, 0, 0},
		{{{.addr = last, .length = 2}, {.addr = 0, .length = 1}}, 1, 0, EINVAL},
		{{{.length = big}, {.length = big - 1}}, 1, 0, 0},
		{{{.length = big}, {.length = big}}, 1, 0, EINVAL},
		{{{.length = 4}, {.length = 4}}, 1, last - 7, 0},
		{{{.length = 4}, {.length = 4}}, 1, last - 6, EINVAL},
		{{{.length = 4, .stride = 4}, {.length = 4, .stride = 4}}, 1ull << 60, 0, 0},
		{{{.length = 4, .stride = 4}, {.length = 4, .stride = 4}}, 1ull << 61, 0, EINVAL},
		{{{.length = 1, .stride = big}, {.length = 0}}, 2, 0, 0},
		{{{.length = 1, .stride = big}, {.length = 0}}, 3, 0, EINVAL},
		{{{.length = 1, .addr = big, .stride = big}, {.length = 0}}, 2, 0, EINVAL},
		{{{.length = 0, .addr = last, .stride = last}, {.length = 0}}, last, 0, 0},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct layout_row r = rows[i];

		CHECK_EQUAL(av_klm_layout(r.entries, 2, r.rounds, r.base), r.want);
		if (r.want == 0)
			CHECK_EQUAL(r.entries[1].start, r.entries[0].length);
	}
}

/* --- reading --------------------------------------------------------------------- */

static struct av_key *key_at(uint32_t key)
{
	struct av_key *k = av_key_entry(&fake.seg, key);

	if (!k)
		abort(); /* unlike cmocka's, the compiler knows that one */
	return k;
}

static struct av_klm_list *list_at(void)
{
	return (struct av_klm_list *)(void *)((uint8_t *)fake.seg.head + LIST_AT);
}

/* A region, and a key of 100 bytes from its byte 10 on in pieces of 60 and 40. */
static int setup(void **state)
{
	struct av_key *k;

	fake_open(&fake, 1);
	atomic_store(&fake.seg.head->chunk[AV_SLAB_KEY][0], CHUNK_AT);
	k = key_at(REGION);
	k->kind = AV_KEY_REGION;
	k->pd = PD;
	k->access = IBV_ACCESS_LOCAL_WRITE;
	k->base = 0;
	k->length = BYTES;
	k->addr = (uintptr_t)memory;
	atomic_store(&k->intact, 0);
	atomic_store(&k->key, REGION);
	k = key_at(TOP);
	k->kind = AV_KEY_UMR;
	k->pd = PD;
	k->access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ;
	k->base = 1000;
	k->length = 100;
	k->addr = LIST_AT;
	atomic_store(&k->key, TOP);
	*list_at() = (struct av_klm_list){.capacity = 2, .count = 2, .round = 100};
	list_at()->at[0] = (struct av_klm_entry){.addr = 10, .length = 60, .key = REGION};
	list_at()->at[1] =
		(struct av_klm_entry){.addr = 70, .length = 40, .start = 60, .key = REGION};
	return 0;
}

static int teardown(void **state)
{
	for (int i = 0; i < AV_PINS; i++)
		CHECK_EQUAL(atomic_load(&fake.seg.head->pin[i].word), 0);
	fake_close(&fake);
	return 0;
}

static enum av_mem_fault get(uint64_t addr, uint64_t length)
{
	struct av_mem_request req = {.key = TOP,
				     .pd = PD,
				     .access = IBV_ACCESS_REMOTE_READ,
				     .remote = true,
				     .addr = addr,
				     .length = length};
	struct av_span span;
	enum av_mem_fault fault = av_mem_get(&fake.seg, &req, &span);

	if (fault == AV_MEM_OK)
		av_pin_end(span.pin);
	return fault;
}

static void a_good_list(void **state)
{
	CHECK_EQUAL(get(1000, 100), AV_MEM_OK);
	CHECK_EQUAL(get(1059, 2), AV_MEM_OK);
	CHECK_EQUAL(get(1099, 1), AV_MEM_OK);
	CHECK_EQUAL(get(1099, 2), AV_MEM_RANGE);
	CHECK_EQUAL(get(999, 1), AV_MEM_RANGE);
}

static void a_list_of_one(void **state)
{
	list_at()->count = 1;
	list_at()->at[0].length = 100;
	CHECK_EQUAL(get(1000, 100), AV_MEM_OK);
	CHECK_EQUAL(get(1099, 1), AV_MEM_OK);
}

/* Pieces come as they lie, and keep what they lie in alive until they are dropped. */
static void pieces(void **state)
{
	struct av_mem_request req = {.key = TOP, .pd = PD, .addr = 1050, .length = 30};
	struct av_span span;
	struct av_pin *other;
	struct av_run run;

	CHECK_EQUAL(av_mem_get(&fake.seg, &req, &span), AV_MEM_OK);
	CHECK_EQUAL(av_klm_iter_expand(&span, 5, 20, &run), AV_MEM_OK);
	CHECK_EQUAL(run.count, 2);
	CHECK_EQUAL(run.bytes, 20);
	CHECK_EQUAL(run.at[0].addr, (uintptr_t)memory + 65);
	CHECK_EQUAL(run.at[0].length, 5);
	CHECK_EQUAL(run.at[1].addr, (uintptr_t)memory + 70);
	CHECK_EQUAL(run.at[1].length, 15);
	CHECK_EQUAL(run.pins.count, 1);
	/* What is behind the last pin of the run is not the run's. */
	other = av_pin_begin(&fake.seg, REGION);
	assert_non_null(other);
	run.pins.at[1].pin = other;
	av_klm_iter_drop(&run);
	CHECK_EQUAL(run.count, 0);
	CHECK_EQUAL(run.pins.count, 0);
	assert_int_not_equal(atomic_load(&other->word), 0);
	av_pin_end(other);
	av_pin_end(span.pin);
}

struct damage {
	const char *what;
	uint32_t count;
	uint64_t round, list, start, length, addr;
};

/* What a list says that cannot be true, where the second piece is looked for: refused, and nothing
 * else. */
static void lists_that_lie(void **state)
{
	const struct damage rows[] = {
		{"no elements", 0, 100, LIST_AT, 60, 40, 70},
		{"no bytes", 2, 0, LIST_AT, 60, 40, 70},
		{"elements beyond the segment", UINT32_MAX, 100, LIST_AT, 60, 40, 70},
		{"a place outside of the segment", 2, 100, AV_SEG_BYTES, 60, 40, 70},
		{"a place that overflows", 2, 100, UINT64_MAX - 63, 60, 40, 70},
		{"a place in the head", 2, 100, 0, 60, 40, 70},
		{"a place between lines", 2, 100, LIST_AT + 4, 60, 40, 70},
		{"an element that begins later", 2, 100, LIST_AT, 99, 40, 70},
		{"an element that is too short", 2, 100, LIST_AT, 60, 5, 70},
		{"an empty element", 2, 100, LIST_AT, 60, 0, 70},
		{"a piece that is not there", 2, 100, LIST_AT, 60, 40, BYTES - 10},
		{"a piece that wraps", 2, 100, LIST_AT, 60, UINT64_MAX, UINT64_MAX - 10},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		enum av_mem_fault fault;

		list_at()->count = rows[i].count;
		list_at()->round = rows[i].round;
		list_at()->at[1].start = rows[i].start;
		list_at()->at[1].length = rows[i].length;
		list_at()->at[1].addr = rows[i].addr;
		key_at(TOP)->addr = rows[i].list;
		fault = get(1060, 40);
		if (fault == AV_MEM_OK)
			fail_msg("%s", rows[i].what);
	}
}

static void no_way_is_endless(void **state)
{
	list_at()->at[1].key = TOP;
	list_at()->at[1].addr = 1060;
	CHECK_EQUAL(get(1060, 10), AV_MEM_DEPTH);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(layouts),
		cmocka_unit_test_setup_teardown(a_good_list, setup, teardown),
		cmocka_unit_test_setup_teardown(a_list_of_one, setup, teardown),
		cmocka_unit_test_setup_teardown(pieces, setup, teardown),
		cmocka_unit_test_setup_teardown(lists_that_lie, setup, teardown),
		cmocka_unit_test_setup_teardown(no_way_is_endless, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
