/* SPDX-License-Identifier: MIT */
/* The device page table against a model, at its edges, with nonsense in it, and from several
 * threads. */
#include <pthread.h>

#include "base/compiler.h"
#include "lib/unit.h"
#include "memory/odp.h"
#include "random.h"
#include "unit/memory/seg_fixture.h"

#define PAGE 4096ull

static uint32_t seed = 12345;

static uint32_t random_below(uint32_t n)
{
	return random_from(&seed, n);
}

static uint64_t fill(uint64_t addr, uint64_t len, bool write)
{
	uint64_t stamp;

	assert_true(av_odp_prepare(&fake.seg, addr, len, &stamp));
	return av_odp_set(&fake.seg, addr, len, write);
}

/* --- against a model: every operation on random ranges, across both kinds of boundary --- */

#define MODEL_PAGES 16384u
#define MODEL_BASE  ((3ull << 34) - MODEL_PAGES / 2 * PAGE)

static uint8_t model[MODEL_PAGES]; /* bit 0: readable, bit 1: writable */

static uint64_t model_op(char op, uint32_t first, uint32_t last, bool write)
{
	uint8_t want = write ? 2 : 1;
	uint64_t n = 0;

	for (uint32_t i = first; i <= last; i++) {
		n += op == 'c' ? model[i] != 0 : !(model[i] & want);
		if (op == 's')
			model[i] |= write ? 3 : 1;
		else if (op == 'c')
			model[i] = 0;
	}
	return n;
}

TEST_WITH(behaves_like_a_bitmap, open_fake, close_fake)
{
	for (int i = 0; i < 20000; i++) {
		uint32_t most = random_below(4) ? 40 * PAGE : MODEL_PAGES * PAGE;
		uint64_t offset = random_below(MODEL_PAGES * PAGE), len = 1 + random_below(most);
		bool write = random_below(2);
		char op = "msc"[random_below(3)];
		uint32_t first = (uint32_t)(offset / PAGE), last;
		uint64_t got;

		if (offset + len > MODEL_PAGES * PAGE)
			len = MODEL_PAGES * PAGE - offset;
		last = (uint32_t)((offset + len - 1) / PAGE);
		if (op == 'm')
			got = fake_missing(&fake.seg, MODEL_BASE + offset, len, write);
		else if (op == 's')
			got = fill(MODEL_BASE + offset, len, write);
		else
			got = av_odp_clear(&fake.seg, MODEL_BASE + offset, len);
		assert_int_equal(got, model_op(op, first, last, write));
	}
}

/* --- edges ----------------------------------------------------------------------- */

TEST_WITH(writing_includes_reading, open_fake, close_fake)
{
	assert_int_equal(fill(PAGE, PAGE, false), 1);
	assert_int_equal(fake_missing(&fake.seg, PAGE, 1, true), 1);
	assert_int_equal(fill(PAGE, PAGE, true), 1);
	assert_int_equal(fill(PAGE, PAGE, false), 0);
	assert_int_equal(fake_missing(&fake.seg, PAGE, 1, true), 0);
	assert_int_equal(av_odp_clear(&fake.seg, PAGE, 1), 1);
}

TEST_WITH(empty_ranges_are_hits, open_fake, close_fake)
{
	uint64_t stamp, fresh;

	assert_int_equal(av_odp_pages(123, 0), 0);
	assert_int_equal(fake_missing(&fake.seg, 123, 0, true), 0);
	assert_int_equal(av_odp_clear(&fake.seg, 123, 0), 0);
	assert_int_equal(av_odp_set(&fake.seg, 123, 0, true), 0);
	assert_true(av_odp_prepare(&fake.seg, UINT64_MAX, 0, &stamp));
	assert_true(av_odp_mark(&fake.seg, UINT64_MAX, 0, true, stamp, &fresh));
}

TEST_WITH(pages_touched_are_counted, open_fake, close_fake)
{
	assert_int_equal(av_odp_pages(PAGE - 1, 2), 2);
	assert_int_equal(av_odp_pages(PAGE, PAGE), 1);
	assert_int_equal(av_odp_pages(0, UINT64_MAX), 1ull << 52);
	assert_int_equal(av_odp_pages(UINT64_MAX, 1), 1);
	assert_int_equal(av_odp_pages(UINT64_MAX - 1, 100), 1);
}

TEST_WITH(little_in_much_is_cleared_cheaply, open_fake, close_fake)
{
	assert_int_equal(fill(0x1000, 1, true), 1);
	assert_int_equal(fill(1ull << 40, 3 * PAGE, false), 3);
	assert_int_equal(fill((1ull << 47) - PAGE, PAGE, false), 1);
	assert_int_equal(fake_missing(&fake.seg, 1ull << 40, 1ull << 40, false), (1ull << 28) - 3);
	assert_int_equal(fake_missing(&fake.seg, 0, UINT64_MAX, false), (1ull << 52) - 5);
	for (int i = 0; i < 1000; i++) /* would take hours page by page */
		assert_int_equal(av_odp_clear(&fake.seg, 2ull << 40, 1ull << 44), 0);
	assert_int_equal(av_odp_clear(&fake.seg, 0, UINT64_MAX), 5);
	assert_int_equal(av_odp_clear(&fake.seg, 0, UINT64_MAX), 0);
}

TEST_WITH(beyond_47_bits_nothing_is_valid, open_fake, close_fake)
{
	uint64_t end = 1ull << 47, stamp, fresh;

	assert_false(av_odp_prepare(&fake.seg, end, PAGE, &stamp));
	assert_false(av_odp_prepare(&fake.seg, end - PAGE, 2 * PAGE, &stamp));
	assert_false(av_odp_mark(&fake.seg, end, PAGE, true, 0, &fresh));
	assert_int_equal(av_odp_set(&fake.seg, end, PAGE, true), 0);
	assert_int_equal(fake_missing(&fake.seg, end, PAGE, false), 1);
	assert_int_equal(fill(end - PAGE, PAGE, true), 1);
	assert_int_equal(fake_missing(&fake.seg, end - PAGE, 3 * PAGE, true), 2);
}

/* --- no room, nonsense ----------------------------------------------------------- */

/* What is behind the last node of the root is no node, whatever is there. */
TEST_WITH(behind_the_last_page_is_none, open_fake, close_fake)
{
	const uint64_t top = 1ull << 47, first = top - (1ull << 34);
	struct av_odp_root *root;
	uint64_t stamp;

	assert_int_equal(fill(first, PAGE, true), 1);
	assert_int_equal(fill(top - PAGE, PAGE, true), 1);
	root = av_odp_root(&fake.seg);
	assert_non_null(root);
	memcpy(root + 1, &root->l1[(1 << AV_ODP_L1_SHIFT) - 1], sizeof(root->l1[0]));
	assert_int_equal(fake_missing(&fake.seg, top, PAGE, false), 1);
	assert_int_equal(fake_missing(&fake.seg, top - PAGE, 2 * PAGE, false), 1);
	assert_false(av_odp_prepare(&fake.seg, top - PAGE, 2 * PAGE, &stamp));
	for (stamp = 0; stamp < 3; stamp++) {
		assert_false(av_odp_unchanged(&fake.seg, top, PAGE, stamp));
		assert_false(av_odp_unchanged(&fake.seg, top - PAGE, 2 * PAGE, stamp));
	}
}

/* All of a leaf, and nothing beside it. */
TEST_WITH(leaves_lie_beside_other_nodes, open_fake, close_fake)
{
	uint64_t at[6];

	assert_int_equal(fill(2 * AV_ODP_LEAF_SPAN, 1, true), 1); /* the nodes above */
	for (size_t i = 0; i < AV_ARRAY_SIZE(at); i++) {
		if (i == 3) {
			assert_int_equal(fill(0, 1, true), 1);
			assert_int_equal(fill(AV_ODP_LEAF_SPAN, 1, true), 1);
		}
		at[i] = av_node_take(&fake.seg, 512);
		assert_int_not_equal(at[i], 0);
	}
	assert_int_equal(av_odp_set(&fake.seg, 0, 2 * AV_ODP_LEAF_SPAN, true),
			 2 * AV_ODP_LEAF_SPAN / PAGE - 2);
	for (size_t i = 0; i < AV_ARRAY_SIZE(at); i++)
		for (uint64_t n = 0; n < 512; n++)
			assert_int_equal(((const uint8_t *)fake.seg.head)[at[i] + n], 0);
}

TEST_WITH(a_full_area_is_no_node, open_fake, close_fake)
{
	uint64_t stamp;

	assert_int_equal(fill(PAGE, PAGE, true), 1);
	atomic_store(&fake.seg.head->odp_brk, AV_ODP_BYTES);
	assert_false(av_odp_prepare(&fake.seg, 1ull << 30, PAGE, &stamp));
	assert_int_equal(av_odp_set(&fake.seg, 1ull << 30, PAGE, true), 0);
	atomic_store(&fake.seg.head->odp_brk, UINT64_MAX);
	assert_false(av_odp_prepare(&fake.seg, 1ull << 30, PAGE, &stamp));
	assert_int_equal(fake_missing(&fake.seg, PAGE, PAGE, true), 0);
}

/* Memory beyond the end of the file faults as memory of a full file system does. */
TEST_WITH(a_full_file_system_is_no_node_and_uses_nothing_up, open_fake, close_fake)
{
	uint64_t stamp, before;

	assert_int_equal(ftruncate(fake.fd, (off_t)AV_ODP_OFFSET), 0);
	assert_false(av_odp_prepare(&fake.seg, PAGE, PAGE, &stamp));
	assert_int_equal(atomic_load(&fake.seg.head->odp_brk), 0);
	assert_int_equal(ftruncate(fake.fd, (off_t)AV_SEG_BYTES), 0);
	assert_true(av_odp_prepare(&fake.seg, PAGE, PAGE, &stamp));
	before = atomic_load(&fake.seg.head->odp_brk);
	assert_true(av_odp_prepare(&fake.seg, PAGE, PAGE, &stamp));
	assert_int_equal(atomic_load(&fake.seg.head->odp_brk), before);
}

TEST_WITH(nonsense_is_no_node, open_fake, close_fake)
{
	static const uint64_t offset[] = {1,
					  64,
					  AV_ODP_OFFSET + 1,
					  AV_ODP_OFFSET + AV_ODP_BYTES - 64,
					  AV_SEG_BYTES,
					  UINT64_MAX & ~63ull,
					  UINT64_MAX};
	struct av_odp_root *root = av_odp_root_make(&fake.seg);
	uint64_t stamp, good = atomic_load(&fake.seg.head->odp_root);

	for (size_t i = 0; i < AV_ARRAY_SIZE(offset); i++) {
		atomic_store(&fake.seg.head->odp_root, offset[i]);
		assert_null(av_odp_root(&fake.seg));
		assert_false(av_odp_prepare(&fake.seg, PAGE, PAGE, &stamp));
		assert_int_equal(fake_missing(&fake.seg, PAGE, PAGE, true), 1);
		atomic_store(&fake.seg.head->odp_root, good);

		atomic_store(&root->l1[0], offset[i]);
		assert_false(av_odp_prepare(&fake.seg, PAGE, PAGE, &stamp));
		assert_int_equal(av_odp_set(&fake.seg, PAGE, PAGE, true), 0);
		assert_int_equal(av_odp_clear(&fake.seg, 0, UINT64_MAX), 0);
		atomic_store(&root->l1[0], 0);
	}
	assert_int_equal(fill(PAGE, PAGE, true), 1);
	*(_Atomic uint64_t *)((uint8_t *)fake.seg.head + atomic_load(&root->l1[0])) =
		0xffffff; /* no such leaf */
	assert_false(av_odp_prepare(&fake.seg, PAGE, PAGE, &stamp));
	assert_int_equal(fake_missing(&fake.seg, PAGE, PAGE, true), 1);
	assert_int_equal(av_odp_clear(&fake.seg, 0, UINT64_MAX), 0);
}

/* --- stamps ---------------------------------------------------------------------- */

TEST_WITH(a_stamp_is_of_its_range, open_fake, close_fake)
{
	uint64_t addr = 5 * AV_ODP_LEAF_SPAN - PAGE, stamp, fresh;

	assert_true(av_odp_prepare(&fake.seg, addr, 2 * PAGE, &stamp));
	av_odp_clear(&fake.seg, addr + 2 * AV_ODP_LEAF_SPAN, PAGE);
	av_odp_clear(&fake.seg, addr - 2 * AV_ODP_LEAF_SPAN, PAGE);
	assert_true(av_odp_mark(&fake.seg, addr, 2 * PAGE, true, stamp, &fresh));
	assert_int_equal(fresh, 2);
	av_odp_clear(&fake.seg, addr + PAGE, PAGE);
	assert_false(av_odp_unchanged(&fake.seg, addr, 2 * PAGE, stamp));
	assert_false(av_odp_mark(&fake.seg, addr, 2 * PAGE, true, stamp, &fresh));
	assert_int_equal(fresh, 0);
	assert_int_equal(fake_missing(&fake.seg, addr, 2 * PAGE, true), 1);
}

/* --- threads --------------------------------------------------------------------- */

#define THREADS 4
#define ROUNDS	3000

/* Each thread owns every fourth page, so that all of them share words, leaves and the making of
 * nodes. */
/* Also where pages were invalidated before, however the range lies in its leaves. */
TEST_WITH(a_stamp_is_taken_and_compared_alike, open_fake, close_fake)
{
	static const uint64_t pages[][2] = {{0, 1}, {0, 2048}, {2046, 4}, {2047, 2}, {4000, 3000}};

	fill(0, 8192 * PAGE, true);
	av_odp_clear(&fake.seg, 0, 4096 * PAGE);
	av_odp_clear(&fake.seg, 0, 8192 * PAGE);
	for (size_t i = 0; i < AV_ARRAY_SIZE(pages); i++) {
		const uint64_t addr = pages[i][0] * PAGE, len = pages[i][1] * PAGE;
		uint64_t stamp, fresh;

		assert_true(av_odp_prepare(&fake.seg, addr, len, &stamp));
		assert_true(av_odp_unchanged(&fake.seg, addr, len, stamp));
		assert_false(av_odp_unchanged(&fake.seg, addr, len, stamp + 1));
		assert_false(av_odp_mark(&fake.seg, addr, len, false, stamp - 1, &fresh));
		assert_int_equal(fresh, 0);
		assert_true(av_odp_mark(&fake.seg, addr, len, false, stamp, &fresh));
		assert_int_equal(fresh, pages[i][1]);
		av_odp_clear(&fake.seg, addr, len);
		assert_false(av_odp_unchanged(&fake.seg, addr, len, stamp));
	}
}

static void *own_pages(void *arg)
{
	uint64_t me = (uintptr_t)arg, stamp;

	for (uint64_t i = 0; i < ROUNDS; i++) {
		uint64_t addr = (i * THREADS * 7 % 8192 * 4 + me) * PAGE;

		CHECK(av_odp_prepare(&fake.seg, addr, PAGE, &stamp));
		CHECK_EQUAL(av_odp_set(&fake.seg, addr, PAGE, i & 1), 1);
		CHECK_EQUAL(fake_missing(&fake.seg, addr, PAGE, i & 1), 0);
		CHECK_EQUAL(av_odp_clear(&fake.seg, addr, PAGE), 1);
	}
	return NULL;
}

TEST_WITH(threads_do_not_disturb_each_other, open_fake, close_fake)
{
	pthread_t t[THREADS];

	for (uintptr_t i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&t[i], NULL, own_pages, (void *)i), 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(t[i], NULL);
	assert_int_equal(av_odp_clear(&fake.seg, 0, UINT64_MAX), 0);
}

/* What is mapped there, as a number; the marker's copy is reading it. */
static _Atomic uint64_t mapping, seen;
static pthread_barrier_t barrier;

static void *invalidator(void *arg)
{
	for (int i = 0; i < ROUNDS; i++) {
		pthread_barrier_wait(&barrier);
		atomic_fetch_add(&mapping, 1);
		av_odp_clear(&fake.seg, 0, 4 * PAGE);
		pthread_barrier_wait(&barrier);
	}
	return NULL;
}

/* A page that was read before it was exchanged is never left valid. */
TEST_WITH(what_is_valid_is_what_was_seen, open_fake, close_fake)
{
	pthread_t t;

	pthread_barrier_init(&barrier, NULL, 2);
	assert_int_equal(pthread_create(&t, NULL, invalidator, NULL), 0);
	for (int i = 0; i < ROUNDS; i++) {
		uint64_t stamp, fresh;

		pthread_barrier_wait(&barrier);
		CHECK(av_odp_prepare(&fake.seg, PAGE, PAGE, &stamp));
		atomic_store(&seen, atomic_load(&mapping));
		if (!av_odp_mark(&fake.seg, PAGE, PAGE, true, stamp, &fresh))
			CHECK_EQUAL(fresh, 0);
		pthread_barrier_wait(&barrier);
		if (fake_missing(&fake.seg, PAGE, PAGE, true) == 0)
			CHECK_EQUAL(atomic_load(&seen), atomic_load(&mapping));
	}
	pthread_join(t, NULL);
	pthread_barrier_destroy(&barrier);
}

int main(void)
{
	return run_cases(NULL, NULL);
}
