/* SPDX-License-Identifier: MIT */
/* A scatter/gather list becomes spans: as many bytes as are wanted, or nothing at all. */
#include "base/compiler.h"
#include "lib/unit.h"
#include "memory/key.h"
#include "memory/translate.h"
#include "unit/memory/heap_fixture.h"

#define PD    3u
#define BASE  0x1000000ull
#define BYTES 0x4000ull
#define KEYS  16u
#define LOCAL IBV_ACCESS_LOCAL_WRITE

/* Keys of a list. */
enum name { GOOD, READ_ONLY, NONE };

static uint32_t key[NONE];

static void make_keys(void)
{
	struct av_key what = {.kind = AV_KEY_REGION,
			      .pd = PD,
			      .access = LOCAL,
			      .base = BASE,
			      .addr = BASE,
			      .length = BYTES};

	seg->proc = av_lock_self;
	key[GOOD] = av_key_create(seg, &what, KEYS);
	what.access = 0;
	key[READ_ONLY] = av_key_create(seg, &what, KEYS);
	assert_true(key[GOOD] && key[READ_ONLY]);
}

static unsigned int pins(void)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < AV_PINS; i++)
		n += atomic_load(&seg->head->pin[i].word) != 0;
	return n;
}

struct element {
	enum name name;
	uint32_t at, length;
};

static struct ibv_sge sge_of(const struct element *e)
{
	return (struct ibv_sge){.lkey = e->name == NONE ? 0 : key[e->name],
				.addr = BASE + e->at,
				.length = e->length};
}

static const struct {
	struct element list[3];
	uint32_t count, access, pd;
	uint64_t bytes;
	enum av_check fault;
	uint32_t spans, last; /* how many there are, and the length of the last one */
} rows[] = {
	{{{GOOD, 0, 10}, {GOOD, 20, 30}, {GOOD, 90, 50}}, 3, LOCAL, PD, 90, AV_CHECK_NONE, 3, 50},
	{{{GOOD, 0, 10}, {GOOD, 20, 30}, {GOOD, 90, 50}}, 3, LOCAL, PD, 89, AV_CHECK_NONE, 3, 49},
	{{{GOOD, 0, 10}, {GOOD, 20, 30}, {GOOD, 90, 50}}, 3, LOCAL, PD, 41, AV_CHECK_NONE, 3, 1},
	{{{GOOD, 0, 10}, {GOOD, 20, 30}, {GOOD, 90, 50}}, 3, LOCAL, PD, 40, AV_CHECK_NONE, 2, 30},
	{{{GOOD, 0, 10}, {GOOD, 20, 30}, {GOOD, 90, 50}}, 3, LOCAL, PD, 1, AV_CHECK_NONE, 1, 1},
	{{{GOOD, 0, 10}}, 1, LOCAL, PD, 0, AV_CHECK_NONE, 0, 0},
	{{{GOOD, 0, 0}}, 0, LOCAL, PD, 0, AV_CHECK_NONE, 0, 0},
	/* shorter than what is wanted */
	{{{GOOD, 0, 10}, {GOOD, 20, 30}, {GOOD, 90, 50}},
	 3,
	 LOCAL,
	 PD,
	 91,
	 AV_CHECK_KEY_LIST,
	 0,
	 0},
	{{{GOOD, 0, 10}, {GOOD, 20, 30}}, 1, LOCAL, PD, 11, AV_CHECK_KEY_LIST, 0, 0},
	{{{GOOD, 0, 10}}, 0, LOCAL, PD, 1, AV_CHECK_KEY_LIST, 0, 0},
	/* what is empty, or behind the last byte, is not looked at */
	{{{NONE, 0, 0}, {GOOD, 20, 30}, {NONE, 90, 50}}, 3, LOCAL, PD, 30, AV_CHECK_NONE, 1, 30},
	{{{GOOD, 0, 10}, {NONE, 0, 0}, {GOOD, 90, 50}}, 3, LOCAL, PD, 60, AV_CHECK_NONE, 2, 50},
	/* one that is refused, and all are given back */
	{{{GOOD, 0, 10}, {NONE, 20, 30}}, 2, LOCAL, PD, 40, AV_CHECK_LKEY_UNKNOWN, 0, 0},
	{{{GOOD, 0, 10}, {READ_ONLY, 20, 30}}, 2, LOCAL, PD, 40, AV_CHECK_KEY_RIGHTS, 0, 0},
	{{{GOOD, 0, 10}, {READ_ONLY, 20, 30}}, 2, 0, PD, 40, AV_CHECK_NONE, 2, 30},
	{{{GOOD, 0, 10}, {GOOD, BYTES - 29, 30}}, 2, LOCAL, PD, 40, AV_CHECK_KEY_BEHIND, 0, 0},
	{{{GOOD, 0, 10}, {GOOD, BYTES - 29, 30}}, 2, LOCAL, PD, 39, AV_CHECK_NONE, 2, 29},
	{{{GOOD, 0, 10}}, 1, LOCAL, PD + 1, 10, AV_CHECK_KEY_PD, 0, 0},
};

TEST_WITH(as_many_bytes_as_are_wanted, set_up, tear_down)
{
	make_keys();
	for (size_t i = 0; i < AV_ARRAY_SIZE(rows); i++) {
		struct ibv_sge sge[AV_ARRAY_SIZE(rows[i].list)];
		struct av_spans spans = {.count = 77};
		struct av_pin *other;
		uint64_t sum = 0;

		for (size_t n = 0; n < AV_ARRAY_SIZE(sge); n++)
			sge[n] = sge_of(&rows[i].list[n]);
		if (av_mem_get_list(seg, rows[i].pd, rows[i].access, sge, rows[i].count,
				    rows[i].bytes, &spans) != rows[i].fault ||
		    spans.count != rows[i].spans || pins() != rows[i].spans)
			fail_msg("row %zu: %u spans, %u pins", i, spans.count, pins());
		for (uint32_t n = 0; n < spans.count; n++)
			sum += spans.at[n].length;
		if (spans.count && (sum != rows[i].bytes || spans.bytes != sum ||
				    spans.at[spans.count - 1].length != rows[i].last))
			fail_msg("row %zu: %lu bytes", i, (unsigned long)sum);
		/* What is behind the last span is not the list's. */
		other = av_pin_begin(seg, key[GOOD]);
		assert_non_null(other);
		spans.at[spans.count].pin = other;
		av_mem_put_list(&spans);
		assert_int_equal(spans.count, 0);
		assert_int_equal(pins(), 1);
		av_pin_end(other);
		assert_int_equal(pins(), 0);
	}
}

/* A peer may write any number where the length of its list is. */
TEST_WITH(a_list_has_a_greatest_length, set_up, tear_down)
{
	struct ibv_sge sge[AV_MAX_SGE + 1];
	struct av_spans spans;

	make_keys();
	for (uint32_t i = 0; i < AV_ARRAY_SIZE(sge); i++)
		sge[i] = sge_of(&(struct element){GOOD, i, 1});
	assert_int_equal(av_mem_get_list(seg, PD, LOCAL, sge, AV_MAX_SGE, AV_MAX_SGE, &spans),
			 AV_CHECK_NONE);
	assert_int_equal(spans.count, AV_MAX_SGE);
	av_mem_put_list(&spans);
	assert_int_equal(av_mem_get_list(seg, PD, LOCAL, sge, AV_MAX_SGE + 1, 1, &spans),
			 AV_CHECK_KEY_LIST);
	assert_int_equal(spans.count, 0);
}

TEST_WITH(all_of_a_list_is_part_of_a_message, set_up, tear_down)
{
	struct av_odp_message *message = (void *)&heap;
	struct av_spans spans = {.count = 3};

	av_spans_are_part(&spans, message);
	for (uint32_t i = 0; i < 4; i++)
		assert_ptr_equal(spans.at[i].message, i < 3 ? message : NULL);
}

int main(void)
{
	return run_cases(NULL, NULL);
}
