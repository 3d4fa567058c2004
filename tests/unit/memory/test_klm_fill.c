/* SPDX-License-Identifier: MIT */
/* Which lists a UMR key takes, and what it stands for afterwards. */
#include <errno.h>

#include "base/compiler.h"
#include "lib/unit.h"
#include "memory/key.h"
#include "memory/translate.h"
#include "unit/memory/heap_fixture.h"

#define PD	 3u
#define KEYS	 16u
#define CAPACITY 3u
#define LOCAL	 IBV_ACCESS_LOCAL_WRITE
#define READ	 IBV_ACCESS_REMOTE_READ
#define NOWHERE	 (AV_SLAB_CHUNKS * AV_KEY_CHUNK << 8 | 7) /* beyond the table */

static struct av_klm_entry entries[CAPACITY + 1] = {
	{.addr = 10, .length = 60, .stride = 100, .key = 5},
	{.addr = 20, .length = 40, .stride = 200, .start = 60, .key = 6},
	{.addr = 30, .length = 7, .stride = 300, .start = 100, .key = 7},
	{.addr = 40, .length = 1, .stride = 400, .start = 107, .key = 8},
};

static uint32_t key;
static struct av_klm_list *list;

static struct av_key *entry(void)
{
	struct av_key *k = av_key_entry(seg, key);

	assert_non_null(k);
	return k;
}

/* A key that stands for nothing yet. */
static int set_up_key(void **state)
{
	struct av_key what = {.kind = AV_KEY_UMR, .pd = PD, .access = LOCAL, .base = 77};

	set_up(state);
	what.addr = av_klm_alloc(seg, CAPACITY);
	list = what.addr ? av_seg_at(seg, what.addr, sizeof(*list)) : NULL;
	key = list ? av_key_create(seg, &what, KEYS) : 0;
	return key == 0;
}

static struct av_klm_fill fill_of(uint32_t count)
{
	return (struct av_klm_fill){.key = key,
				    .pd = PD,
				    .access = LOCAL | READ,
				    .base = 0x1000,
				    .rounds = 5,
				    .entries = entries,
				    .count = count};
}

TEST_WITH(a_key_has_room_for_so_many, set_up_key, tear_down)
{
	static const uint64_t round[] = {0, 60, 100, 107};

	assert_int_equal(list->capacity, CAPACITY);
	for (uint32_t count = CAPACITY + 1; count-- > 0;) {
		struct av_klm_fill fill = fill_of(count);

		assert_int_equal(av_klm_fill(seg, &fill), 0);
		assert_int_equal(list->count, count);
		assert_int_equal(list->round, round[count]);
		assert_memory_equal(list->at, entries, count * sizeof(entries[0]));
		assert_int_equal(entry()->length, 5 * round[count]);
		assert_int_equal(entry()->base, 0x1000);
		assert_int_equal(entry()->access, LOCAL | READ);
		assert_int_equal(atomic_load(&entry()->key), key);
		assert_int_equal(atomic_load(&entry()->held), key);
	}
}

/* --- refusals -------------------------------------------------------------------- */

/* A line each. */
/* clang-format off */
static void one_too_many(struct av_klm_fill *fill) { fill->count = CAPACITY + 1; }
static void no_key(struct av_klm_fill *fill) { fill->key = 0; }
static void another_tag(struct av_klm_fill *fill) { fill->key ^= 1; }
static void no_such_index(struct av_klm_fill *fill) { fill->key = NOWHERE; }
static void another_domain(struct av_klm_fill *fill) { fill->pd = PD + 1; }
static void a_region(struct av_klm_fill *fill) { entry()->kind = AV_KEY_REGION; }
static void gone(struct av_klm_fill *fill) { atomic_store(&entry()->held, 0); }
/* What a peer may have written. */
static void a_place_in_the_head(struct av_klm_fill *fill) { entry()->addr = 64; }
static void no_place(struct av_klm_fill *fill) { entry()->addr = 0; }
static void a_place_beyond(struct av_klm_fill *fill) { entry()->addr = AV_SEG_BYTES; }
static void a_list_partly_beyond(struct av_klm_fill *fill)
{
	struct av_klm_list *last = av_seg_at(seg, AV_SEG_BYTES - 64, sizeof(*last));

	assert_non_null(last);
	last->capacity = CAPACITY;
	entry()->addr = AV_SEG_BYTES - 64;
	fill->count = CAPACITY;
}
/* clang-format on */

static const struct {
	const char *name;
	void (*spoil)(struct av_klm_fill *fill);
} refused[] = {
	{"one too many", one_too_many},
	{"no key", no_key},
	{"another tag", another_tag},
	{"no such index", no_such_index},
	{"another domain", another_domain},
	{"a region", a_region},
	{"a key that is gone", gone},
	{"a list in the head", a_place_in_the_head},
	{"no list", no_place},
	{"a list beyond the segment", a_place_beyond},
	{"a list partly beyond", a_list_partly_beyond},
};

/* Nothing has changed then. */
TEST(what_does_not_fit_is_refused)
{
	for (size_t i = 0; i < AV_ARRAY_SIZE(refused); i++) {
		struct av_klm_fill fill = fill_of(1);

		assert_int_equal(set_up_key(NULL), 0);
		refused[i].spoil(&fill);
		if (av_klm_fill(seg, &fill) != EINVAL || list->count != 0 || list->round != 0 ||
		    entry()->length != 0 || entry()->base != 77 || entry()->access != LOCAL ||
		    atomic_load(&entry()->key) != key)
			fail_msg("%s", refused[i].name);
		tear_down(NULL);
	}
}

int main(void)
{
	return run_cases(NULL, NULL);
}
