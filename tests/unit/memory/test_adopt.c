/* SPDX-License-Identifier: MIT */
/*
 * What is adopted: whole pages of a region, once for all regions on them; until the last one ends,
 * the program forks or has other plans with them, or its context is closed.
 */
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/compiler.h"
#include "lib/own_directory.h"
#include "lib/sanitized.h"
#include "lib/wait.h"
#include "memory/adopt.h"
#include "memory/adopt_pages.h"
#include "memory/adopted.h"
#include "memory/key.h"
#include "memory/odp_notify.h"
#include "memory/page_move.h"
#include "memory/vma.h"
#include "unit/memory/adopted_pages.h"

#define PAGE  4096ul
#define PAGES 16ul
#define RW    (PROT_READ | PROT_WRITE)

static struct av_seg *seg, *other;
static uint8_t *mem; /* PAGES of it, with a page of nobody's on either side */

static struct av_seg *new_context(void)
{
	const struct av_seg_device dev = {.name = "any0"};
	struct av_seg *s = av_seg_create(&dev, 0);

	if (s) {
		av_page_move_add(s);
		av_odp_watch(s);
	}
	return s;
}

static void close_context(struct av_seg *s)
{
	av_adopt_close(s);
	av_page_move_remove(s);
	av_odp_unwatch(s);
	av_seg_end_calls(s);
	av_seg_close(s);
}

static uint8_t *new_memory(size_t pages)
{
	uint8_t *p = mmap(NULL, (pages + 2) * PAGE, PROT_NONE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	assert_true(p != MAP_FAILED);
	assert_int_equal(mprotect(p + PAGE, pages * PAGE, RW), 0);
	return p + PAGE;
}

static void drop_memory(uint8_t *p, size_t pages)
{
	munmap(p - PAGE, (pages + 2) * PAGE);
}

static int set_up(void **state)
{
	seg = new_context();
	other = new_context();
	mem = new_memory(PAGES);
	memset(mem, 1, PAGES * PAGE);
	return !seg || !other;
}

static int tear_down(void **state)
{
	close_context(seg);
	close_context(other);
	drop_memory(mem, PAGES);
	return 0;
}

static uint64_t at_of(uint32_t id)
{
	return atomic_load(&described(seg, id)->at);
}

static uint32_t adopt(struct av_seg *s, size_t page, size_t pages)
{
	uint8_t why = 0;
	uint32_t id = av_adopt(s, (uintptr_t)mem + page * PAGE, pages * PAGE, &why);

	assert_int_equal(why, 0);
	return id;
}

/* Is that page of the program's in a segment? */
static bool is_out(size_t page)
{
	struct av_vma vma;
	int maps = av_vma_open_own();
	bool found = av_vma_next(maps, (uintptr_t)mem + page * PAGE, &vma);

	close(maps);
	assert_true(found);
	return vma.shared;
}

static void expect_out(size_t begin, size_t end)
{
	for (size_t i = 0; i < PAGES; i++)
		assert_int_equal(is_out(i), i >= begin && i < end);
	assert_int_equal(av_adopted_any((uintptr_t)mem, PAGES * PAGE), begin < end);
}

static void *lock_page(void)
{
	void *p = locked_page();

	if (!p)
		skip();
	return p;
}

/* --- whole pages ----------------------------------------------------------------------------- */

static void only_whole_pages_are_adopted(void **state)
{
	static const struct {
		uint64_t off, length;
		size_t begin, end; /* pages; none if they are equal */
	} rows[] = {
		{0, PAGE, 0, 1},
		{0, PAGE - 1, 0, 0},
		{1, PAGE, 0, 0},
		{1, 2 * PAGE - 1, 1, 2},
		{1, 2 * PAGE - 2, 0, 0},
		{PAGE - 1, PAGE + 1, 1, 2},
		{2 * PAGE + 7, 5 * PAGE, 3, 7},
		{0, PAGES * PAGE, 0, PAGES},
		{5, 0, 0, 0},
	};

	for (size_t i = 0; i < AV_ARRAY_SIZE(rows); i++) {
		uint8_t why = 0;
		uint32_t id = av_adopt(seg, (uintptr_t)mem + rows[i].off, rows[i].length, &why);

		assert_int_equal(id != 0, rows[i].begin != rows[i].end);
		assert_int_equal(why, 0);
		expect_out(rows[i].begin, rows[i].end);
		if (!id)
			continue;
		assert_int_equal(described(seg, id)->addr, (uintptr_t)mem + rows[i].begin * PAGE);
		assert_int_equal(described(seg, id)->bytes, (rows[i].end - rows[i].begin) * PAGE);
		assert_int_equal(*(uint8_t *)av_seg_at(seg, at_of(id), 1), 1);
		mem[rows[i].begin * PAGE] = 2;
		assert_int_equal(*(uint8_t *)av_seg_at(seg, at_of(id), 1), 2);
		mem[rows[i].begin * PAGE] = 1;
		av_adopt_end(seg, id);
		expect_out(0, 0);
	}
}

static void *sleep_for_ever(void *arg)
{
	for (;;)
		pause();
	return arg;
}

/* Each by itself. */
static void what_does_not_suit_is_left_alone(void **state)
{
	pthread_t thread;

	assert_int_equal(mprotect(mem + 2 * PAGE, PAGE, PROT_READ), 0);
	assert_int_equal(adopt(seg, 0, 4), 0);
	assert_int_equal(mprotect(mem + 2 * PAGE, PAGE, RW), 0);
	assert_int_equal(pthread_create(&thread, NULL, sleep_for_ever, NULL), 0);
	assert_int_equal(adopt(seg, 0, 4), 0);
	pthread_cancel(thread);
	pthread_join(thread, NULL);
	/* It may be in /proc for another moment, and under ThreadSanitizer another one always is.
	 */
	assert_true(UNDER_TSAN || WAIT_UNTIL(av_adopt_single_threaded(), 30000));
	expect_out(0, 0);
}

/* --- several regions ------------------------------------------------------------------------- */

static void regions_on_adopted_pages_have_the_same(void **state)
{
	static const struct {
		size_t begin, pages;
		bool same;
	} rows[] = {
		{4, 8, true},  {4, 1, true},   {11, 1, true},  {6, 3, true},
		{3, 2, false}, {11, 2, false}, {3, 10, false}, {0, PAGES, false},
	};
	uint32_t id = adopt(seg, 4, 8);

	assert_int_not_equal(id, 0);
	for (size_t i = 0; i < AV_ARRAY_SIZE(rows); i++) {
		uint32_t second = adopt(seg, rows[i].begin, rows[i].pages);

		assert_int_equal(second, rows[i].same ? id : 0);
		assert_int_equal(adopt(other, rows[i].begin, rows[i].pages), 0);
		expect_out(4, 12);
		av_adopt_end(seg, second);
		expect_out(4, 12);
	}
	assert_int_not_equal(at_of(id), 0);
	av_adopt_end(other, id); /* of a number that is another context's */
	expect_out(4, 12);
	av_adopt_end(seg, id);
	expect_out(0, 0);
}

/* Those beside it are adopted by themselves. */
static void regions_beside_adopted_pages_have_their_own(void **state)
{
	uint32_t a = adopt(seg, 4, 4), b = adopt(other, 8, 2), c = adopt(seg, 2, 2);

	assert_true(a && b && c && a != c);
	expect_out(2, 10);
	av_adopt_end(seg, a);
	assert_true(is_out(3) && !is_out(4) && !is_out(7) && is_out(8));
	av_adopt_end(other, b);
	expect_out(2, 4);
	av_adopt_end(seg, c);
	expect_out(0, 0);
}

/*
 * The program has put a page of its own among those that were adopted. A region is on its own pages
 * only, but peers look at the pages beside it as well, which it may cover in part.
 */
static void replaced_pages_are_noticed(void **state)
{
	static const struct {
		size_t begin, pages;
		bool same;
	} rows[] = {
		{7, 1, false}, {6, 1, false}, {8, 1, false}, {6, 3, false},
		{4, 2, true},  {5, 1, true},  {9, 1, true},  {9, 3, true},
		{4, 3, false}, {8, 4, false}, {4, 8, false},
	};
	uint32_t id = adopt(seg, 4, 8);

	assert_true(mmap(mem + 7 * PAGE, PAGE, RW, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
			 0) != MAP_FAILED);
	for (size_t i = 0; i < AV_ARRAY_SIZE(rows); i++) {
		uint32_t second = adopt(seg, rows[i].begin, rows[i].pages);

		assert_int_equal(second, rows[i].same ? id : 0);
		av_adopt_end(seg, second);
	}
	av_adopt_end(seg, id);
	expect_out(0, 0);
	assert_int_equal(mem[7 * PAGE], 0);
	assert_int_equal(mem[8 * PAGE], 1);
}

/* --- pages that must stay -------------------------------------------------------------------- */

static void locked_memory_is_left_alone(void **state)
{
	void *locked = lock_page();
	uint8_t why = 0;

	assert_int_equal(av_adopt(seg, (uintptr_t)mem, PAGE, &why), 0);
	assert_int_equal(why, AV_KEY_SPECIAL);
	munmap(locked, PAGE);
	assert_int_equal(madvise(mem, PAGE, MADV_DONTDUMP), 0);
	why = 0;
	assert_int_equal(av_adopt(seg, (uintptr_t)mem, PAGES * PAGE, &why), 0);
	assert_int_equal(why, AV_KEY_SPECIAL);
	assert_int_equal(madvise(mem, PAGE, MADV_DODUMP), 0);
	expect_out(0, 0);
}

/* Pages stay behind without a region. The next region has them, or they make way. */
static void pages_that_stayed_are_used_again(void **state)
{
	uint32_t id = adopt(seg, 4, 8), again;
	void *locked = lock_page();

	av_adopt_end(seg, id);
	expect_out(4, 12);
	assert_int_equal(adopt(other, 4, 8), 0);
	assert_int_equal(adopt(seg, 3, 2), 0);
	again = adopt(seg, 5, 2);
	assert_int_not_equal(again, 0);
	assert_int_equal(described(seg, again)->addr, (uintptr_t)mem + 4 * PAGE);
	assert_int_equal(described(seg, again)->bytes, 8 * PAGE);
	assert_int_not_equal(at_of(again), 0);
	av_adopt_end(seg, again);
	assert_true(is_free(seg, again));
	expect_out(4, 12);
	munmap(locked, PAGE);
	id = adopt(other, 0, 5); /* they move out, and the new ones in */
	assert_int_not_equal(id, 0);
	expect_out(0, 5);
	av_adopt_end(other, id);
	expect_out(0, 0);
}

static void what_stayed_is_not_used_again_if_replaced(void **state)
{
	uint32_t id = adopt(seg, 4, 8);
	void *locked = lock_page();

	av_adopt_end(seg, id);
	assert_true(mmap(mem + 7 * PAGE, PAGE, RW, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
			 0) != MAP_FAILED);
	assert_int_equal(adopt(seg, 7, 1), 0);
	assert_int_equal(adopt(seg, 4, 8), 0);
	id = adopt(seg, 4, 3);
	assert_int_not_equal(id, 0);
	av_adopt_end(seg, id);
	munmap(locked, PAGE);
	id = adopt(seg, 6, 3);
	assert_int_not_equal(id, 0);
	expect_out(6, 9);
	av_adopt_end(seg, id);
}

static void pages_are_replaceable_unless_they_must_stay(void **state)
{
	struct av_key key = {.adopted = adopt(seg, 4, 8)};
	uint64_t at = 1;
	void *locked;

	assert_true(av_adopt_replaceable(seg, &key, &at));
	assert_int_equal(at, at_of(key.adopted));
	assert_false(av_adopt_replaceable(other, &key, &at));
	assert_int_equal(at, 0);
	locked = lock_page();
	at = 1;
	assert_false(av_adopt_replaceable(seg, &key, &at));
	assert_int_equal(at, 0);
	munmap(locked, PAGE);
	av_adopt_leave((uintptr_t)mem, PAGES * PAGE);
	at = 1;
	assert_true(av_adopt_replaceable(seg, &key, &at));
	assert_int_equal(at, 0);
	av_adopt_end(seg, key.adopted);
	assert_false(av_adopt_replaceable(seg, &key, &at));
}

/* --- pages that leave ------------------------------------------------------------------------ */

static void only_what_overlaps_leaves(void **state)
{
	static const struct {
		uint64_t off, bytes;
		bool leaves;
	} rows[] = {
		{4 * PAGE, PAGE, true},	 {8 * PAGE - 1, 1, true}, {4 * PAGE - 1, 2, true},
		{0, PAGES * PAGE, true}, {3 * PAGE, PAGE, false}, {8 * PAGE, PAGE, false},
	};

	for (size_t i = 0; i < AV_ARRAY_SIZE(rows); i++) {
		uint32_t far = adopt(seg, 12, 1), id = adopt(seg, 4, 4);

		av_adopt_leave((uintptr_t)mem + rows[i].off, rows[i].bytes);
		assert_int_equal(at_of(id) == 0, rows[i].leaves);
		assert_int_equal(is_out(4), !rows[i].leaves);
		assert_int_equal(is_out(7), !rows[i].leaves);
		assert_int_equal(is_out(12), rows[i].bytes != PAGES * PAGE);
		av_adopt_end(seg, id);
		av_adopt_end(seg, far);
		expect_out(0, 0);
	}
}

static void nothing_leaves_that_must_stay(void **state)
{
	uint32_t id = adopt(seg, 4, 4);
	void *locked = lock_page();

	av_adopt_leave((uintptr_t)mem, PAGES * PAGE);
	assert_int_not_equal(at_of(id), 0);
	expect_out(4, 8);
	munmap(locked, PAGE);
	av_adopt_end(seg, id);
}

/* Regions whose pages have left keep their number, and new ones are adopted anew. */
static void left_pages_are_adopted_anew(void **state)
{
	uint32_t id = adopt(seg, 4, 4), next;

	av_adopt_leave((uintptr_t)mem, PAGES * PAGE);
	next = adopt(seg, 4, 4);
	assert_true(next && next != id);
	expect_out(4, 8);
	av_adopt_end(seg, id);
	expect_out(4, 8);
	assert_true(is_free(seg, id));
	av_adopt_end(seg, next);
	expect_out(0, 0);
}

/* --- fork() ---------------------------------------------------------------------------------- */

/* The child has its own bytes, and nothing adopted. */
static bool child_is_apart(uint32_t id)
{
	bool apart = !is_out(4) && !is_out(7) && mem[4 * PAGE] == 1 && mem[5 * PAGE] == 5;

	mem[5 * PAGE] = 6;
	av_adopt_end(seg, id);
	return apart && !av_adopted_any((uintptr_t)mem, PAGES * PAGE);
}

/* Pages of address space. */
static unsigned long size(void)
{
	FILE *f = fopen("/proc/self/statm", "re");
	unsigned long pages = 0;

	assert_non_null(f);
	assert_int_equal(fscanf(f, "%lu", &pages), 1);
	fclose(f);
	return pages;
}

static void fork_with(uint32_t id)
{
	unsigned long before = size();
	int status;
	pid_t child;

	mem[5 * PAGE] = 5;
	child = fork();
	if (child == 0)
		_exit(!child_is_apart(id));
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_int_equal(mem[5 * PAGE], 5);
	if (!SANITIZED)
		assert_int_equal(size(), before); /* no copy is left */
}

static void at_fork_all_move_out(void **state)
{
	uint32_t a = adopt(seg, 4, 4), b = adopt(other, 9, 1);

	assert_true(a && b);
	fork_with(a);
	assert_int_equal(at_of(a), 0);
	expect_out(0, 0);
	av_adopt_end(seg, a);
	av_adopt_end(other, b);
	a = adopt(seg, 4, 4);
	expect_out(4, 8);
	av_adopt_end(seg, a);
}

static void at_fork_children_get_copies_of_what_stays(void **state)
{
	uint32_t a = adopt(seg, 4, 4), b;
	void *locked = lock_page();

	fork_with(a); /* no other pages have to stay */
	assert_int_not_equal(at_of(a), 0);
	munmap(locked, PAGE);
	b = adopt(other, 8, 2);
	locked = lock_page();
	fork_with(a);
	assert_int_not_equal(at_of(a), 0);
	expect_out(4, 10);
	munmap(locked, PAGE);
	av_adopt_end(seg, a);
	av_adopt_end(other, b);
	expect_out(0, 0);
}

/* --- the end of a context -------------------------------------------------------------------- */

static void a_contexts_pages_move_out_with_it(void **state)
{
	uint32_t a = adopt(seg, 4, 4), b = adopt(other, 8, 2);

	assert_int_equal(adopt(seg, 4, 1), a);
	av_adopt_close(seg);
	expect_out(8, 10);
	assert_int_equal(mem[4 * PAGE], 1);
	a = adopt(other, 4, 4);
	assert_int_not_equal(a, 0);
	expect_out(4, 10);
	av_adopt_end(other, a);
	av_adopt_end(other, b);
	expect_out(0, 0);
}

/* --- how many -------------------------------------------------------------------------------- */

static void so_many_at_a_time(void **state)
{
	uint8_t *many, why = 0;
	uint32_t *ids;

	if (SANITIZED) /* it takes minutes */
		skip();
	many = new_memory(AV_ADOPTIONS * 2);
	ids = calloc(AV_ADOPTIONS, sizeof(*ids));
	for (size_t i = 0; i < AV_ADOPTIONS; i++) {
		ids[i] = av_adopt(seg, (uintptr_t)many + 2 * i * PAGE, PAGE, &why);
		assert_int_not_equal(ids[i], 0);
	}
	assert_int_equal(adopt(seg, 0, 1), 0);
	av_adopt_end(seg, ids[AV_ADOPTIONS - 1]);
	ids[AV_ADOPTIONS - 1] = adopt(seg, 0, 1);
	assert_int_not_equal(ids[AV_ADOPTIONS - 1], 0);
	assert_int_equal(adopt(seg, 2, 1), 0);
	for (size_t i = 0; i < AV_ADOPTIONS; i++)
		av_adopt_end(seg, ids[i]);
	expect_out(0, 0);
	free(ids);
	drop_memory(many, AV_ADOPTIONS * 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(only_whole_pages_are_adopted, set_up, tear_down),
		cmocka_unit_test_setup_teardown(what_does_not_suit_is_left_alone, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(regions_on_adopted_pages_have_the_same, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(regions_beside_adopted_pages_have_their_own, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(replaced_pages_are_noticed, set_up, tear_down),
		cmocka_unit_test_setup_teardown(locked_memory_is_left_alone, set_up, tear_down),
		cmocka_unit_test_setup_teardown(pages_that_stayed_are_used_again, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(what_stayed_is_not_used_again_if_replaced, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(pages_are_replaceable_unless_they_must_stay, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(only_what_overlaps_leaves, set_up, tear_down),
		cmocka_unit_test_setup_teardown(nothing_leaves_that_must_stay, set_up, tear_down),
		cmocka_unit_test_setup_teardown(left_pages_are_adopted_anew, set_up, tear_down),
		cmocka_unit_test_setup_teardown(at_fork_all_move_out, set_up, tear_down),
		cmocka_unit_test_setup_teardown(at_fork_children_get_copies_of_what_stays, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(a_contexts_pages_move_out_with_it, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(so_many_at_a_time, set_up, tear_down),
	};

	if (UNDER_TSAN || /* it has a thread of its own; only what is watched is adopted */
	    syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY) < 0)
		return 77;
	setenv("ANYVERBS_ADOPT", "always", 1); /* whatever it costs: test_adopt_cost.c */
	return cmocka_run_group_tests(tests, own_directory_join, own_directory_leave);
}
