/* SPDX-License-Identifier: MIT */
/* A key's number, what is known of keys that have gone, and how a key ends, changes and is locked.
 */
#include <errno.h>

#include "base/compiler.h"
#include "lib/unit.h"
#include "memory/key.h"
#include "segment/pages.h"
#include "unit/memory/heap_fixture.h"

#define PD	3u
#define KEYS	16u
#define BASE	0x1000000ull
#define ADDR	0x7000000ull
#define LENGTH	0x3000ull
#define TAGS	256u
#define NOWHERE (AV_SLAB_CHUNKS * AV_KEY_CHUNK << 8 | 7) /* beyond the table */

static const struct av_key region = {.kind = AV_KEY_REGION,
				     .pd = PD,
				     .access = IBV_ACCESS_REMOTE_READ,
				     .base = BASE,
				     .addr = ADDR,
				     .length = LENGTH,
				     .heap = 5};

static uint32_t make(uint8_t kind)
{
	struct av_key what = region;
	uint32_t key;

	what.kind = kind;
	key = av_key_create(seg, &what, KEYS);
	assert_int_not_equal(key, 0);
	return key;
}

static struct av_key *entry(uint32_t key)
{
	struct av_key *k = av_key_entry(seg, key);

	assert_non_null(k);
	return k;
}

/* --- numbers --------------------------------------------------------------------- */

/* The next key of an index. */
static uint32_t again(uint32_t key)
{
	assert_int_equal(av_key_destroy(seg, key), 0);
	for (unsigned int i = 0; i < AV_KEY_CHUNK; i++) {
		uint32_t next = make(AV_KEY_REGION);

		if (AV_KEY_INDEX(next) == AV_KEY_INDEX(key))
			return next;
		assert_int_equal(av_key_destroy(seg, next), 0);
	}
	fail_msg("the index does not come again");
	return 0;
}

TEST_WITH(an_index_has_all_tags_in_turn, set_up, tear_down)
{
	uint32_t key = make(AV_KEY_REGION), first = key;

	for (unsigned int i = 1; i <= TAGS; i++) {
		uint32_t next = again(key);

		assert_int_equal(next, (key & ~0xffu) | (uint8_t)(key + 1));
		assert_int_equal(atomic_load(&entry(next)->key), next);
		assert_int_equal(atomic_load(&entry(next)->held), next);
		key = next;
	}
	assert_int_equal(key, first);
}

/* Contexts begin with different tags: most tags are there, and none is there often. */
TEST_WITH(first_tags_are_scattered, set_up, tear_down)
{
	unsigned int seen[TAGS] = {0}, most = 0, different = 0;

	for (uint32_t ref = 1; ref <= TAGS; ref++) {
		uint32_t key;

		seg->ref = ref;
		for (unsigned int i = 0; i < 4; i++) {
			key = make(AV_KEY_NONE); /* so that it is new again */
			seen[key & 0xff]++;
			atomic_store(&entry(key)->kind, AV_KEY_NONE);
			av_slab_free(seg, AV_SLAB_KEY, AV_KEY_INDEX(key));
		}
	}
	for (unsigned int i = 0; i < TAGS; i++) {
		most = seen[i] > most ? seen[i] : most;
		different += seen[i] > 0;
	}
	if (different < TAGS * 3 / 4 || most > 16)
		fail_msg("%u tags, one of them %u times", different, most);
}

TEST_WITH(what_was_given, set_up, tear_down)
{
	uint32_t key = make(AV_KEY_REGION), window;
	struct av_key what = {.kind = AV_KEY_WINDOW, .pd = PD};

	for (uint32_t given = 1; given < TAGS; given++) {
		uint32_t index = key & ~0xffu, tag = key & 0xff;

		for (uint32_t ago = 0; ago < TAGS; ago++)
			if (av_key_was_given(seg, index | (uint8_t)(tag - ago)) != (ago < given))
				fail_msg("of %u keys, the one %u before the last", given, ago);
		key = again(key);
	}
	window = av_key_create(seg, &what, KEYS);
	assert_true(av_key_was_given(seg, window));
	assert_true(av_key_was_given(seg, window ^ 0x80)); /* programs choose them */
	assert_false(av_key_was_given(seg, 0));
	assert_false(av_key_was_given(seg, 7));
	for (uint32_t tag = 0; tag < TAGS; tag++) /* of an index that has not been used */
		assert_false(av_key_was_given(seg, (AV_KEY_CHUNK - 1) << 8 | tag));
	assert_false(av_key_was_given(seg, NOWHERE));
}

TEST_WITH(there_are_no_more_keys_than_allowed, set_up, tear_down)
{
	for (uint32_t i = 0; i < KEYS; i++)
		assert_int_not_equal(make(AV_KEY_REGION), 0);
	errno = 0;
	assert_int_equal(av_key_create(seg, &region, KEYS), 0);
	assert_int_equal(errno, ENOMEM);
}

/* The listener of invalidations finds regions on demand, and no others. */
TEST_WITH(regions_on_demand_are_found, set_up, tear_down)
{
	uint32_t odp, at = 0;
	struct av_odp_region found;

	make(AV_KEY_REGION);
	odp = make(AV_KEY_ODP);
	assert_true(av_odp_region_next(seg, &at, &found));
	assert_int_equal(found.key, odp);
	assert_false(av_odp_region_next(seg, &at, &found));
	at = 0;
	assert_int_equal(av_key_destroy(seg, odp), 0);
	assert_false(av_odp_region_next(seg, &at, &found));
}

/* --- ends and changes ------------------------------------------------------------ */

TEST_WITH(a_change_replaces_all_but_the_number, set_up, tear_down)
{
	uint32_t key = make(AV_KEY_REGION);
	const struct av_key new = {.kind = AV_KEY_ODP,
				   .pd = PD + 1,
				   .access = IBV_ACCESS_LOCAL_WRITE,
				   .base = 1,
				   .addr = 2,
				   .length = 3,
				   .in_origin = 1,
				   .intact = 4,
				   .heap = 6};
	struct av_key got;

	for (unsigned int i = 0; i < 2; i++) {
		const struct av_key *want = i ? &new : &region;

		if (i)
			assert_int_equal(av_key_change(seg, key, &new), 0);
		av_key_describe(entry(key), &got);
		assert_int_equal(got.kind, want->kind);
		assert_int_equal(got.pd, want->pd);
		assert_int_equal(got.access, want->access);
		assert_int_equal(got.base, want->base);
		assert_int_equal(got.addr, want->addr);
		assert_int_equal(got.length, want->length);
		assert_int_equal(got.in_origin, want->in_origin);
		assert_int_equal(got.intact, want->intact);
		assert_int_equal(got.heap, want->heap);
		assert_int_equal(atomic_load(&entry(key)->key), key);
		assert_int_equal(atomic_load(&entry(key)->held), key);
	}
}

TEST_WITH(windows_keep_a_region_as_it_is, set_up, tear_down)
{
	uint32_t key = make(AV_KEY_REGION), window[2];
	struct av_key what = region;

	entry(key)->access |= IBV_ACCESS_MW_BIND;
	for (unsigned int i = 0; i < 2; i++) {
		struct av_window_bind bind = {.region = key,
					      .access = IBV_ACCESS_REMOTE_READ,
					      .pd = PD,
					      .addr = BASE,
					      .length = LENGTH};

		bind.window = window[i] = av_window_create(seg, IBV_MW_TYPE_1, PD, KEYS);
		bind.rkey = bind.window + 1;
		assert_int_equal(av_window_bind(seg, &bind), AV_CHECK_NONE);
	}
	what.length = 1;
	for (uint32_t windows = 3; windows-- > 0;) {
		int err = windows ? EBUSY : 0;

		assert_int_equal(entry(key)->windows, windows);
		assert_int_equal(av_key_change(seg, key, &what), err);
		assert_int_equal(entry(key)->length, err ? LENGTH : 1);
		assert_int_equal(av_key_destroy(seg, key), err);
		assert_int_equal(atomic_load(&entry(key)->key), err ? key : 0);
		assert_int_equal(atomic_load(&entry(key)->held), err ? key : 0);
		if (windows)
			assert_int_equal(av_window_destroy(seg, window[windows - 1]), 0);
	}
}

TEST_WITH(the_right_key_is_killed, set_up, tear_down)
{
	uint32_t key = make(AV_KEY_REGION);

	av_key_kill(seg, key ^ 1);
	av_key_kill(seg, NOWHERE);
	assert_int_equal(atomic_load(&entry(key)->key), key);
	assert_int_equal(atomic_load(&entry(key)->held), key);
	av_key_kill(seg, key);
	assert_int_equal(atomic_load(&entry(key)->key), 0);
	assert_int_equal(atomic_load(&entry(key)->held), 0);
	av_key_kill(seg, key); /* nothing is left to do */
}

/* --- locks ----------------------------------------------------------------------- */

/* Only keys that exist are locked: they are not left locked either. */
static void expect_lock(const char *name, uint32_t key, bool locked, bool on_demand)
{
	struct av_key *k = av_key_lock_region(seg, key);

	if ((k != NULL) != locked || (k && k != av_key_entry(seg, key)))
		fail_msg("%s: %p", name, (void *)k);
	if (k)
		av_lock_release(&k->lock);
	if (av_key_is_on_demand(seg, key) != on_demand)
		fail_msg("%s: on demand", name);
}

TEST_WITH(keys_that_exist_are_locked, set_up, tear_down)
{
	uint32_t plain = make(AV_KEY_REGION), odp = make(AV_KEY_ODP);

	for (unsigned int twice = 0; twice < 2; twice++) {
		expect_lock("a region", plain, true, false);
		expect_lock("on demand", odp, true, true);
	}
	expect_lock("another tag", odp ^ 1, false, false);
	expect_lock("no key", 0, false, false);
	expect_lock("beyond the table", NOWHERE, false, false);
	assert_int_equal(av_key_destroy(seg, odp), 0);
	expect_lock("one that has gone", odp, false, false);
	/* Its owner has gone in the middle of a change. */
	atomic_store(&entry(plain)->key, 0);
	atomic_store(&seg->gone, true);
	expect_lock("one that changes no more", plain, false, false);
	atomic_store(&entry(plain)->kind, AV_KEY_ODP);
	assert_true(av_key_is_on_demand(seg, plain));
}

int main(void)
{
	return run_cases(NULL, NULL);
}
