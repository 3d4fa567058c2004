/* SPDX-License-Identifier: MIT */
/* What lingers of a region, what is freed of it when, and who frees what several keys share. */
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/compiler.h"
#include "lib/own_directory.h"
#include "lib/unit.h"
#include "lib/wait.h"
#include "memory/deferred_free.c" /* with what is static in it */
#include "segment/pages.h"
#include "unit/memory/heap_fixture.h"

#define KEYS	    16u
#define PATIENCE_MS 30000u
#define PAGE	    4096u
#define PART	    (7u << AV_HEAP_PART_SHIFT) /* offset of a descriptor */
#define NOWHERE	    (PAGE * 1000ull)	       /* a block that nobody has */

static uint32_t create(uint32_t limit)
{
	const struct av_key what = {.kind = AV_KEY_REGION};

	return av_key_create(seg, &what, limit);
}

/* A key that lingers with what it leads to. */
static uint32_t linger(uint64_t leads_to)
{
	uint32_t key = create(KEYS);

	assert_int_not_equal(key, 0);
	assert_true(begin_deferral(seg, key, leads_to));
	return key;
}

static void end(uint32_t key)
{
	av_deferred_settle(seg, key);
	av_deferred_sweep(seg);
}

/* Somebody uses the key, by the pin of this number; 0: nobody does. */
static void pin(unsigned int number, uint32_t key)
{
	atomic_store(&seg->head->pin[number].word, key ? (uint64_t)av_lock_self << 32 | key : 0);
}

/* --- what is known of it ----------------------------------------------------------- */

TEST_WITH(a_key_lingers_from_its_begin_to_its_end, set_up, tear_down)
{
	struct av_seg other = *seg;
	uint32_t key, another = create(KEYS);

	assert_false(av_deferred_has_key(seg, another));
	assert_false(av_deferred_leads_to(seg, PART));
	key = linger(PART);
	cancel_deferral(seg, another); /* which does not linger */
	cancel_deferral(&other, key);
	assert_true(av_deferred_has_key(seg, key));
	assert_false(av_deferred_has_key(seg, another));
	assert_false(av_deferred_has_key(&other, key));
	assert_true(av_deferred_leads_to(seg, PART));
	assert_false(av_deferred_leads_to(seg, PART + 1));
	assert_false(av_deferred_leads_to(&other, PART));
	cancel_deferral(seg, key);
	assert_false(av_deferred_has_key(seg, key));
	assert_false(av_deferred_leads_to(seg, PART));
}

TEST_WITH(a_closed_context_forgets_its_own, set_up, tear_down)
{
	struct av_seg other = *seg;
	uint32_t key = linger(0), second = linger(0);

	assert_true(begin_deferral(&other, key, 0));
	av_deferred_forget(seg);
	assert_false(av_deferred_has_key(seg, key));
	assert_false(av_deferred_has_key(seg, second));
	assert_true(av_deferred_has_key(&other, key));
	av_deferred_forget(&other);
	assert_false(av_deferred_has_key(&other, key));
}

TEST_WITH(a_forked_child_has_none, set_up, tear_down)
{
	uint32_t key = linger(PART);
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		CHECK(!av_deferred_has_key(seg, key) && !av_deferred_leads_to(seg, PART));
		CHECK(begin_deferral(seg, key, 0));
		cancel_deferral(seg, key);
		CHECK(!av_deferred_has_key(seg, key));
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_true(av_deferred_has_key(seg, key));
	av_deferred_forget(seg);
}

/* --- when it is freed -------------------------------------------------------------- */

static const struct {
	bool settled, used, freed;
} sweeps[] = {
	{false, false, false},
	{false, true, false},
	{true, true, false},
	{true, false, true},
};

TEST_WITH(a_key_is_free_when_its_region_has_ended_and_nobody_uses_it, set_up, tear_down)
{
	struct av_seg other = *seg;

	for (size_t i = 0; i < AV_ARRAY_SIZE(sweeps); i++) {
		uint32_t key = create(1);

		assert_int_not_equal(key, 0);
		assert_true(begin_deferral(seg, key, 0));
		atomic_store(&seg->head->pin[1].revoked, key);
		pin(0, sweeps[i].used ? key : 0);
		av_deferred_settle(seg, key + 1);
		av_deferred_settle(&other, key);
		if (sweeps[i].settled)
			av_deferred_settle(seg, key);
		av_deferred_sweep(&other);
		assert_true(av_deferred_has_key(seg, key));
		av_deferred_sweep(seg);
		if (av_deferred_has_key(seg, key) == sweeps[i].freed ||
		    atomic_load(&seg->head->pin[1].revoked) != (sweeps[i].freed ? 0 : key))
			fail_msg("row %zu", i);
		if (!sweeps[i].freed)
			assert_int_equal(create(1), 0); /* its index is taken */
		pin(0, 0);
		end(key);
		assert_false(av_deferred_has_key(seg, key));
	}
}

/* --- pages ------------------------------------------------------------------------- */

static uint64_t block(void)
{
	struct av_page_block b;

	assert_int_equal(av_pages_alloc(seg, PAGE, AV_PAGES_SMALL, &b), 0);
	return b.at;
}

static volatile uint8_t *byte_at(uint64_t at)
{
	return (volatile uint8_t *)seg->head + at;
}

/* Is the block free? */
static bool pages_are_free(uint64_t at)
{
	uint64_t next = block();

	if (next != at)
		av_pages_free(seg, next);
	return next == at;
}

TEST_WITH(a_block_waits_for_its_user, set_up, tear_down)
{
	for (unsigned int freed = 0; freed < 2; freed++) {
		uint64_t at = block();
		uint32_t key = linger(at);

		*byte_at(at) = 1;
		if (freed)
			av_deferred_free(seg, at, PAGE);
		assert_int_equal(*byte_at(at), 1);
		assert_false(pages_are_free(at));
		end(key);
		assert_int_equal(*byte_at(at), !freed);
		assert_int_equal(pages_are_free(at), freed);
	}
}

TEST_WITH(a_block_that_does_not_linger_is_freed_at_once, set_up, tear_down)
{
	for (unsigned int others = 0; others < 2; others++) {
		uint64_t at = block();

		if (others)
			linger(NOWHERE);
		av_deferred_free(seg, at, PAGE);
		assert_true(pages_are_free(at));
	}
	av_deferred_forget(seg);
}

/* --- descriptors, and what keys lead to -------------------------------------------- */

#define LIST_BYTES 256u

static uint64_t heap_bytes(bool descriptor)
{
	return descriptor ? sizeof(struct av_heap_part) : LIST_BYTES;
}

/* The heap gives out first what was freed last. */
static bool heap_is_free(uint64_t at, bool descriptor)
{
	uint64_t next = av_seg_alloc(seg, heap_bytes(descriptor));

	assert_int_not_equal(next, 0);
	assert_int_equal(next % (1u << AV_HEAP_PART_SHIFT), 0);
	return next == at;
}

static void free_heap(uint64_t at, bool descriptor)
{
	av_deferred_free(seg, at, heap_bytes(descriptor));
}

TEST_WITH(memory_of_the_heap_waits_for_its_user, set_up, tear_down)
{
	for (unsigned int i = 0; i < 4; i++) {
		bool descriptor = i % 2, freed = i / 2;
		uint64_t at = av_seg_alloc(seg, heap_bytes(descriptor));
		uint32_t key = linger(at);

		if (freed)
			free_heap(at, descriptor);
		assert_false(heap_is_free(at, descriptor));
		end(key);
		assert_int_equal(heap_is_free(at, descriptor), freed);
	}
}

TEST_WITH(memory_that_does_not_linger_is_freed_at_once, set_up, tear_down)
{
	for (unsigned int i = 0; i < 4; i++) {
		bool descriptor = i % 2;
		uint64_t at = av_seg_alloc(seg, heap_bytes(descriptor));

		if (i / 2)
			linger(at + 2 * PAGE);
		free_heap(at, descriptor);
		assert_true(heap_is_free(at, descriptor));
	}
	av_deferred_forget(seg);
}

/* Where in the memory a key leads to. */
static const struct {
	int64_t leads_to; /* from its begin on */
	bool within;
} ends[] = {
	{-1, false}, {0, true}, {1, true}, {LIST_BYTES - 1, true}, {LIST_BYTES, false},
};

TEST_WITH(a_key_that_leads_elsewhere_is_none_of_its_users, set_up, tear_down)
{
	for (size_t i = 0; i < AV_ARRAY_SIZE(ends); i++) {
		uint64_t at = av_seg_alloc(seg, LIST_BYTES);
		uint32_t key = linger(at + (uint64_t)ends[i].leads_to);

		av_deferred_free(seg, at, LIST_BYTES);
		if (heap_is_free(at, false) == ends[i].within)
			fail_msg("row %zu", i);
		end(key);
	}
}

/* --- what several keys share ------------------------------------------------------- */

enum shared { PAGES, DESCRIPTOR, MEMORY, SHARED_N };

static uint64_t make_shared(enum shared what)
{
	return what == PAGES ? block() : av_seg_alloc(seg, heap_bytes(what == DESCRIPTOR));
}

static void end_shared(enum shared what, uint64_t at)
{
	if (what == PAGES)
		av_deferred_free(seg, at, PAGE);
	else
		free_heap(at, what == DESCRIPTOR);
}

static bool shared_is_free(enum shared what, uint64_t at)
{
	if (what == PAGES)
		return pages_are_free(at);
	return heap_is_free(at, what == DESCRIPTOR);
}

/* Whichever it is. A stranger's key, which stays longer, inherits nothing. */
TEST_WITH(the_last_of_its_users_frees_it, set_up, tear_down)
{
	for (unsigned int i = 0; i < 2 * SHARED_N; i++) {
		enum shared what = i / 2;
		uint64_t at = make_shared(what);
		uint32_t key[2] = {linger(at), 0};

		linger(NOWHERE);
		linger(0);
		key[1] = linger(at);
		end_shared(what, at);
		end(key[i % 2]);
		if (shared_is_free(what, at))
			fail_msg("%d was freed while it had a user", (int)what);
		end(key[1 - i % 2]);
		if (!shared_is_free(what, at))
			fail_msg("%d was not freed", (int)what);
		av_deferred_forget(seg);
	}
}

/* --- waiting ----------------------------------------------------------------------- */

static _Atomic uint32_t left; /* uses that have not ended */

static void *end_uses(void *arg)
{
	for (unsigned int i = 0; i < 2; i++) {
		unsigned long before = task_waits(getpid());

		(void)WAIT_UNTIL(task_waits(getpid()) > before + 2, PATIENCE_MS);
		atomic_fetch_sub(&left, 1);
		pin(i, 0);
	}
	return NULL;
}

/* For each of its keys in turn. */
TEST_WITH(all_users_of_a_part_are_waited_for, set_up, tear_down)
{
	uint32_t key[2] = {linger(PART), linger(PART)};
	pthread_t thread;

	av_deferred_wait(seg, PART); /* nobody uses it: at once */
	pin(0, key[0]);
	pin(1, key[1]);
	av_deferred_wait(seg, PART + 1); /* likewise */
	atomic_store(&left, 2);
	assert_int_equal(pthread_create(&thread, NULL, end_uses, NULL), 0);
	av_deferred_wait(seg, PART);
	assert_int_equal(atomic_load(&left), 0);
	pthread_join(thread, NULL);
	av_deferred_forget(seg);
}

int main(void)
{
	return run_cases(own_directory_join, own_directory_leave);
}
