/* SPDX-License-Identifier: MIT */
/*
 * Lists of UMR keys: their arithmetic, and reading lists that another process has written, which
 * may say anything.
 */
#include <errno.h>

#include "fake_seg.h"

#include "base/limits.h"
#include "lib/own_directory.h"
#include "lib/unit.h"
#include "memory/klm.c" /* with what is static in it */

#define CHUNK_AT (2u << 20) /* of the key table, in the segment; lists lie behind it */
#define LIST_AT	 (3u << 20)
#define TOP	 (1u << 8)
#define REGION	 (2u << 8)
#define OTHER	 (3u << 8) /* a key to the same bytes; more of them follow */
#define NOWHERE	 (AV_SLAB_CHUNKS * AV_KEY_CHUNK << 8)
#define NOBODY	 0x300005u /* a context that is not there */
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

TEST(layouts)
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

static void make_region(uint32_t key)
{
	struct av_key *k = key_at(key);

	k->kind = AV_KEY_REGION;
	k->pd = PD;
	k->access = IBV_ACCESS_LOCAL_WRITE;
	k->base = 0;
	k->length = BYTES;
	k->addr = (uintptr_t)memory;
	atomic_store(&k->intact, 0);
	atomic_store(&k->key, key);
}

/* A region, and a key of 100 bytes from its byte 10 on in pieces of 60 and 40. */
static int setup(void **state)
{
	struct av_key *k;

	fake_open(&fake, 1);
	atomic_store(&fake.seg.head->chunk[AV_SLAB_KEY][0], CHUNK_AT);
	make_region(REGION);
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

/* What was found of the piece itself. */
static enum av_check of_piece(enum av_check found, const struct av_span *span)
{
	return found == AV_CHECK_KEY_PIECE ? av_klm_iter_check(span) : found;
}

static enum av_check get_by(uint32_t key, uint64_t addr, uint64_t length)
{
	struct av_mem_request req = {.key = key,
				     .pd = PD,
				     .access = IBV_ACCESS_REMOTE_READ,
				     .remote = true,
				     .addr = addr,
				     .length = length};
	struct av_span span;
	enum av_check fault = av_mem_get(&fake.seg, &req, &span);

	if (fault == AV_CHECK_NONE)
		av_pin_end(span.pin);
	return of_piece(fault, &span);
}

static enum av_check get(uint64_t addr, uint64_t length)
{
	return get_by(TOP, addr, length);
}

TEST_WITH(a_good_list, setup, teardown)
{
	CHECK_EQUAL(get(1000, 100), AV_CHECK_NONE);
	CHECK_EQUAL(get(1059, 2), AV_CHECK_NONE);
	CHECK_EQUAL(get(1099, 1), AV_CHECK_NONE);
	CHECK_EQUAL(get(1099, 2), AV_CHECK_KEY_BEHIND);
	CHECK_EQUAL(get(999, 1), AV_CHECK_KEY_BEFORE);
}

TEST_WITH(a_list_of_one, setup, teardown)
{
	list_at()->count = 1;
	list_at()->at[0].length = 100;
	CHECK_EQUAL(get(1000, 100), AV_CHECK_NONE);
	CHECK_EQUAL(get(1099, 1), AV_CHECK_NONE);
}

/* Pieces come as they lie, and keep what they lie in alive until they are dropped. */
TEST_WITH(pieces, setup, teardown)
{
	struct av_mem_request req = {.key = TOP, .pd = PD, .addr = 1050, .length = 30};
	struct av_span span;
	struct av_pin *other;
	struct run run;

	CHECK_EQUAL(av_mem_get(&fake.seg, &req, &span), AV_CHECK_NONE);
	CHECK_EQUAL(expand_span(&span, 5, 20, &run), AV_CHECK_NONE);
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
	drop_run(&run);
	CHECK_EQUAL(run.count, 0);
	CHECK_EQUAL(run.pins.count, 0);
	assert_int_not_equal(atomic_load(&other->word), 0);
	av_pin_end(other);
	av_pin_end(span.pin);
}

/* --- rounds ---------------------------------------------------------------------- */

static const struct {
	uint64_t addr;	     /* in the key's space, from its base on */
	uint64_t at, length; /* the first piece */
} rounds[] = {
	{0, 10, 60},	{59, 69, 1},	{60, 70, 40},	{99, 109, 1},	 {100, 1010, 60},
	{159, 1069, 1}, {160, 570, 40}, {299, 1109, 1}, {101, 1011, 59},
};

/* Each round begins a stride later, for each element its own. */
TEST_WITH(rounds_follow_each_other, setup, teardown)
{
	list_at()->at[0].stride = 1000;
	list_at()->at[1].stride = 500;
	key_at(TOP)->base = 1003; /* no multiple of a round */
	key_at(TOP)->length = 300;
	for (size_t i = 0; i < AV_ARRAY_SIZE(rounds); i++) {
		struct av_mem_request req = {.key = TOP, .pd = PD, .addr = 1003, .length = 300};
		uint64_t left = 300 - rounds[i].addr;
		struct av_span span;
		struct run run;

		CHECK_EQUAL(av_mem_get(&fake.seg, &req, &span), AV_CHECK_NONE);
		CHECK_EQUAL(expand_span(&span, rounds[i].addr, left, &run), AV_CHECK_NONE);
		if (run.at[0].addr != (uintptr_t)memory + rounds[i].at ||
		    run.at[0].length != rounds[i].length || run.bytes != left)
			fail_msg("row %zu", i);
		drop_run(&run);
		av_pin_end(span.pin);
	}
}

/* --- how far a check and a run go ------------------------------------------------ */

static void one_after_another(uint32_t count, uint32_t keys)
{
	list_at()->count = count;
	list_at()->round = key_at(TOP)->length = count;
	for (uint32_t i = 0; i < keys; i++)
		make_region(OTHER + (i << 8));
	for (uint32_t i = 0; i < count; i++)
		list_at()->at[i] = (struct av_klm_entry){
			.addr = 2 * i, .length = 1, .start = i, .key = OTHER + (i % keys << 8)};
}

static void expect_run(uint32_t count, uint64_t bytes, uint32_t pins)
{
	struct av_mem_request req = {.key = TOP, .pd = PD, .whole = true};
	struct av_span span;
	struct run run;

	CHECK_EQUAL(av_mem_get(&fake.seg, &req, &span), AV_CHECK_NONE);
	CHECK_EQUAL(expand_span(&span, 0, span.length, &run), AV_CHECK_NONE);
	CHECK_EQUAL(run.count, count);
	CHECK_EQUAL(run.bytes, bytes);
	CHECK_EQUAL(run.pins.count, pins);
	for (uint32_t i = 0; i < pins; i++)
		CHECK_EQUAL(atomic_load(&run.pins.at[i].pin->word) & UINT32_MAX,
			    run.pins.at[i].key);
	drop_run(&run);
	av_pin_end(span.pin);
}

TEST_WITH(a_run_has_so_many_pieces_and_keys, setup, teardown)
{
	one_after_another(RUN_PIECES, 1);
	expect_run(RUN_PIECES, RUN_PIECES, 1);
	one_after_another(RUN_PIECES + 1, 1);
	expect_run(RUN_PIECES, RUN_PIECES, 1);
	one_after_another(20, 2);
	expect_run(20, 20, 2);
	one_after_another(AV_KLM_PINS, AV_KLM_PINS);
	expect_run(AV_KLM_PINS, AV_KLM_PINS, AV_KLM_PINS);
	one_after_another(AV_KLM_PINS + 1, AV_KLM_PINS + 1);
	expect_run(AV_KLM_PINS, AV_KLM_PINS, AV_KLM_PINS);
}

/* A list of more keys than there are pins left is gone through one key at a time. */
TEST_WITH(a_check_can_do_with_one_pin, setup, teardown)
{
	const uint64_t other = (uint64_t)av_lock_self << 32 | NOWHERE;

	one_after_another(20, 20);
	for (uint32_t left = 3; left-- > 0;) {
		for (uint32_t i = 0; i < AV_PINS; i++)
			atomic_store(&fake.seg.head->pin[i].word, i < left ? 0 : other);
		CHECK_EQUAL(get(1000, 20), left == 2 ? AV_CHECK_NONE : AV_CHECK_BUSY);
	}
	for (uint32_t i = 0; i < AV_PINS; i++)
		atomic_store(&fake.seg.head->pin[i].word, 0);
}

static const struct {
	struct av_klm_entry first, second;
	uint64_t length; /* that is asked for */
	enum av_check fault;
} bounds[] = {
	/* only what is asked for is looked at, and all of that */
	{{.length = 60, .key = REGION},
	 {.addr = BYTES - 5, .length = 40, .key = REGION},
	 65,
	 AV_CHECK_NONE},
	{{.length = 60, .key = REGION},
	 {.addr = BYTES - 5, .length = 40, .key = REGION},
	 66,
	 AV_CHECK_KEY_BEHIND},
	{{.length = 60, .key = REGION}, {.length = 40, .key = NOWHERE}, 60, AV_CHECK_NONE},
	{{.length = 60, .key = REGION}, {.length = 40, .key = NOWHERE}, 61, AV_CHECK_LKEY_UNKNOWN},
	{{.length = 60, .key = REGION}, {.length = 40, .key = 0}, 61, AV_CHECK_LKEY_UNKNOWN},
	{{.length = 1, .key = NOWHERE}, {.length = 40, .key = REGION}, 41, AV_CHECK_LKEY_UNKNOWN},
	{{.length = 1, .key = OTHER}, {.length = 40, .key = REGION}, 41, AV_CHECK_LKEY_UNKNOWN},
};

TEST_WITH(all_that_is_asked_for_is_checked, setup, teardown)
{
	for (size_t i = 0; i < AV_ARRAY_SIZE(bounds); i++) {
		enum av_check fault;

		list_at()->at[0] = bounds[i].first;
		list_at()->at[1] = bounds[i].second;
		list_at()->at[1].start = bounds[i].first.length;
		list_at()->round = bounds[i].first.length + bounds[i].second.length;
		key_at(TOP)->length = list_at()->round;
		fault = get(1000, bounds[i].length);
		if (fault != bounds[i].fault)
			fail_msg("row %zu: %d", i, (int)fault);
	}
}

/* Pieces before a bad one come, and the next call finds it. */
TEST_WITH(a_run_ends_before_a_fault, setup, teardown)
{
	struct av_mem_request req = {.key = TOP, .pd = PD, .addr = 1000, .length = 100};
	struct av_span span;
	struct run run;

	CHECK_EQUAL(av_mem_get(&fake.seg, &req, &span), AV_CHECK_NONE);
	list_at()->at[1].key = OTHER;
	CHECK_EQUAL(expand_span(&span, 0, 100, &run), AV_CHECK_NONE);
	CHECK_EQUAL(run.count, 1);
	CHECK_EQUAL(run.bytes, 60);
	drop_run(&run);
	CHECK_EQUAL(expand_span(&span, 60, 40, &run), AV_CHECK_LKEY_UNKNOWN);
	CHECK_EQUAL(run.pins.count, 0);
	av_pin_end(span.pin);
}

TEST_WITH(a_part_of_a_plain_span, setup, teardown)
{
	struct av_span span = {.local = memory, .addr = 77, .length = 100, .seg = &fake.seg};
	struct run run;

	CHECK_EQUAL(expand_span(&span, 30, 20, &run), AV_CHECK_NONE);
	CHECK_EQUAL(run.count, 1);
	CHECK_EQUAL(run.bytes, 20);
	CHECK_EQUAL(run.at[0].local, memory + 30);
	CHECK_EQUAL(run.at[0].addr, 107);
	CHECK_EQUAL(run.at[0].length, 20);
	CHECK_EQUAL(run.pins.count, 0);
	drop_run(&run);
}

/* --- rights ---------------------------------------------------------------------- */

static const struct {
	uint32_t access; /* of the access, */
	uint32_t top, region;
	enum av_check fault;
} rights[] = {
	{IBV_ACCESS_REMOTE_READ, IBV_ACCESS_REMOTE_READ, 0, AV_CHECK_NONE},
	{IBV_ACCESS_REMOTE_WRITE, IBV_ACCESS_REMOTE_WRITE, 0, AV_CHECK_KEY_RIGHTS},
	{IBV_ACCESS_REMOTE_WRITE, IBV_ACCESS_REMOTE_WRITE, IBV_ACCESS_LOCAL_WRITE, AV_CHECK_NONE},
	{IBV_ACCESS_REMOTE_ATOMIC, IBV_ACCESS_REMOTE_ATOMIC, 0, AV_CHECK_KEY_RIGHTS},
	{IBV_ACCESS_LOCAL_WRITE, IBV_ACCESS_LOCAL_WRITE, 0, AV_CHECK_KEY_RIGHTS},
	{IBV_ACCESS_REMOTE_WRITE, IBV_ACCESS_REMOTE_READ, IBV_ACCESS_LOCAL_WRITE,
	 AV_CHECK_KEY_RIGHTS},
	{0, 0, 0, AV_CHECK_NONE},
};

/* The key gives the right, and its pieces must be writable for a change. */
TEST_WITH(pieces_are_used_locally, setup, teardown)
{
	for (size_t i = 0; i < AV_ARRAY_SIZE(rights); i++) {
		struct av_mem_request req = {.key = TOP,
					     .pd = PD,
					     .access = rights[i].access,
					     .addr = 1000,
					     .length = 100};
		enum av_check fault;
		struct av_span span;

		key_at(TOP)->access = rights[i].top;
		key_at(REGION)->access = rights[i].region;
		fault = of_piece(av_mem_get(&fake.seg, &req, &span), &span);
		if (fault != rights[i].fault)
			fail_msg("row %zu: %d", i, (int)fault);
		if (fault == AV_CHECK_NONE)
			av_pin_end(span.pin);
	}
	key_at(REGION)->pd = PD + 1;
	key_at(TOP)->access = IBV_ACCESS_REMOTE_READ;
	CHECK_EQUAL(get(1000, 1), AV_CHECK_KEY_PD);
}

/* --- nonsense -------------------------------------------------------------------- */

struct damage {
	const char *what;
	uint32_t count;
	uint64_t round, list, start, length, addr;
	enum av_check found;
};

/* What a list says that cannot be true, where the second piece is looked for: refused, and nothing
 * else. */
TEST_WITH(lists_that_lie, setup, teardown)
{
	const struct damage rows[] = {
		{"no elements", 0, 100, LIST_AT, 60, 40, 70, AV_CHECK_KEY_PIECE},
		{"no bytes", 2, 0, LIST_AT, 60, 40, 70, AV_CHECK_KEY_PIECE},
		{"elements beyond the segment", UINT32_MAX, 100, LIST_AT, 60, 40, 70,
		 AV_CHECK_KEY_PIECE},
		{"a place outside of the segment", 2, 100, AV_SEG_BYTES, 60, 40, 70,
		 AV_CHECK_KEY_PIECE},
		{"a place that overflows", 2, 100, UINT64_MAX - 63, 60, 40, 70, AV_CHECK_KEY_PIECE},
		{"a place in the head", 2, 100, 0, 60, 40, 70, AV_CHECK_KEY_PIECE},
		{"a place between lines", 2, 100, LIST_AT + 4, 60, 40, 70, AV_CHECK_KEY_PIECE},
		{"an element that begins later", 2, 100, LIST_AT, 99, 40, 70, AV_CHECK_KEY_PIECE},
		{"an element that is too short", 2, 100, LIST_AT, 60, 5, 70, AV_CHECK_KEY_PIECE},
		{"an empty element", 2, 100, LIST_AT, 60, 0, 70, AV_CHECK_KEY_PIECE},
		{"a piece that is not there", 2, 100, LIST_AT, 60, 40, BYTES - 10,
		 AV_CHECK_KEY_BEHIND},
		{"a piece that wraps", 2, 100, LIST_AT, 60, UINT64_MAX, UINT64_MAX - 10,
		 AV_CHECK_KEY_BEHIND},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		enum av_check fault;

		list_at()->count = rows[i].count;
		list_at()->round = rows[i].round;
		list_at()->at[1].start = rows[i].start;
		list_at()->at[1].length = rows[i].length;
		list_at()->at[1].addr = rows[i].addr;
		key_at(TOP)->addr = rows[i].list;
		fault = get(1060, 40);
		if (fault != rows[i].found)
			fail_msg("%s: %d", rows[i].what, (int)fault);
	}
}

TEST_WITH(no_way_is_endless, setup, teardown)
{
	list_at()->at[1].key = TOP;
	list_at()->at[1].addr = 1060;
	CHECK_EQUAL(get(1060, 10), AV_CHECK_KEY_PIECE);
}

/* Of a context on another one's device, small keys in a list are the other's. */
TEST_WITH(a_piece_of_an_origin_that_is_gone, setup, teardown)
{
	const uint32_t own = (AV_IMPORT_KEYS + 1) << 8;

	atomic_store(&fake.seg.head->chunk[AV_SLAB_KEY][AV_IMPORT_KEYS / AV_KEY_CHUNK],
		     CHUNK_AT + (1u << 19));
	*key_at(own) = *key_at(TOP);
	atomic_store(&key_at(own)->key, own);
	fake.seg.head->origin = NOBODY;
	CHECK_EQUAL(get_by(own, 1000, 100), AV_CHECK_LKEY_UNKNOWN);
	list_at()->at[0].key = list_at()->at[1].key = own + (1u << 8);
	make_region(own + (1u << 8));
	CHECK_EQUAL(get_by(own, 1000, 100), AV_CHECK_NONE);
}

/* Key by key of a way to the bytes. */
TEST_WITH(ways_have_a_greatest_length, setup, teardown)
{
	for (uint32_t length = 1; length <= AV_KLM_DEPTH + 1; length++) {
		uint32_t key = TOP;

		for (uint32_t i = 1; i <= length; i++) {
			struct av_klm_list *list =
				(struct av_klm_list *)(void *)((uint8_t *)list_at() + 4096ul * i);
			struct av_key *k = key_at(key);

			k->kind = AV_KEY_UMR;
			k->pd = PD;
			k->access = IBV_ACCESS_REMOTE_READ;
			k->base = 0;
			k->length = 100;
			k->addr = LIST_AT + 4096ul * i;
			atomic_store(&k->key, key);
			key = i == length ? REGION : OTHER + (i << 8);
			*list = (struct av_klm_list){.capacity = 1, .count = 1, .round = 100};
			list->at[0] = (struct av_klm_entry){.length = 100, .key = key};
		}
		CHECK_EQUAL(get(0, 100),
			    length <= AV_KLM_DEPTH ? AV_CHECK_NONE : AV_CHECK_KEY_PIECE);
	}
}

int main(void)
{
	return run_cases(own_directory_join, own_directory_leave);
}
