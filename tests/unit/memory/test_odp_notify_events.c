/* SPDX-License-Identifier: MIT */
/* Each thing a program can do to its memory: which pages are no longer valid, and how it is
 * counted. */
#include "odp_notify_fixture.h"

#include "base/compiler.h"
#include "memory/key.h"

#define ANY	  ((1u << KINDS) - 1)
#define IN_MEMORY (1u << SHARED | 1u << MEMFD_SHARED)

static void do_munmap(uint8_t *p)
{
	CHECK(munmap(p, PAGES * PAGE) == 0);
}

static void do_munmap_part(uint8_t *p)
{
	CHECK(munmap(p + 3 * PAGE, 5 * PAGE) == 0);
}

static void do_munmap_over_a_hole(uint8_t *p)
{
	CHECK(munmap(p + 3 * PAGE, 2 * PAGE) == 0);
	CHECK(munmap(p + PAGE, 9 * PAGE) == 0);
}

static void do_map_over(uint8_t *p)
{
	CHECK(mmap(p + 2 * PAGE, 4 * PAGE, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == p + 2 * PAGE);
}

static void do_move(uint8_t *p)
{
	uint8_t *to = mmap(NULL, PAGES * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(mremap(p, PAGES * PAGE, PAGES * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, to) == to);
}

static void do_move_part(uint8_t *p)
{
	uint8_t *to = mmap(NULL, PAGES * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(mremap(p + 4 * PAGE, 4 * PAGE, 4 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, to) == to);
}

static void do_shrink(uint8_t *p)
{
	CHECK(mremap(p, PAGES * PAGE, 10 * PAGE, 0) == p);
}

static void do_grow_in_place(uint8_t *p)
{
	CHECK(munmap(p + PAGES * PAGE, PAGES * PAGE) == 0);
	CHECK(mremap(p, PAGES * PAGE, (PAGES + 4) * PAGE, 0) == p);
}

static void do_grow_and_move(uint8_t *p)
{
	CHECK(mremap(p, PAGES * PAGE, (PAGES + 4) * PAGE, MREMAP_MAYMOVE) != p);
}

static void do_move_and_leave(uint8_t *p)
{
	CHECK(mremap(p, PAGES * PAGE, PAGES * PAGE, MREMAP_MAYMOVE | 4 /* MREMAP_DONTUNMAP */,
		     NULL) != MAP_FAILED);
}

static void do_dontneed(uint8_t *p)
{
	CHECK(madvise(p + 5 * PAGE, 6 * PAGE, MADV_DONTNEED) == 0);
}

static void do_free(uint8_t *p)
{
	CHECK(madvise(p + 5 * PAGE, 6 * PAGE, MADV_FREE) == 0);
}

static void do_remove(uint8_t *p)
{
	CHECK(madvise(p + 5 * PAGE, 6 * PAGE, MADV_REMOVE) == 0);
}

/* Not invalidations, or none that the kernel tells of. */
static void do_nothing(uint8_t *p)
{
	CHECK(mprotect(p, PAGES * PAGE, PROT_NONE) == 0);
	CHECK(mprotect(p, PAGES * PAGE, PROT_READ | PROT_WRITE) == 0);
	CHECK(madvise(p, PAGES * PAGE, MADV_WILLNEED) == 0);
	CHECK(munmap(p + PAGES * PAGE, PAGE) == 0);
}

struct row {
	const char *name;
	void (*act)(uint8_t *p);
	unsigned int kinds;
	int first, last; /* pages that are not valid afterwards */
	uint64_t events;
	bool unmaps; /* they are gone, or other ones: a region there has ended */
};

static const struct row rows[] = {
	{"munmap", do_munmap, ANY, 0, PAGES, 1, true},
	{"munmap_part", do_munmap_part, ANY, 3, 8, 1, true},
	{"munmap_over_a_hole", do_munmap_over_a_hole, ANY, 1, 10, 2, true},
	{"map_over", do_map_over, ANY, 2, 6, 1, true},
	{"mremap_move", do_move, ANY, 0, PAGES, 1, true},
	{"mremap_move_part", do_move_part, ANY, 4, 8, 1, true},
	{"mremap_shrink", do_shrink, ANY, 10, PAGES, 1, true},
	{"mremap_grow_in_place", do_grow_in_place, ANY, 0, 0, 0, false},
	{"mremap_grow_and_move", do_grow_and_move, ANY, 0, PAGES, 1, true},
	{"mremap_dontunmap", do_move_and_leave, 1u << PRIVATE, 0, PAGES, 1, true},
	{"madv_dontneed", do_dontneed, ANY, 5, 11, 1, false},
	{"madv_free", do_free, 1u << PRIVATE, 5, 11, 1, false},
	{"madv_remove", do_remove, IN_MEMORY, 5, 11, 1, false},
	{"no_invalidation", do_nothing, ANY, 0, 0, 0, false},
};

static void event_child(const void *arg)
{
	const struct row *row = arg;

	for (enum kind kind = 0; kind < KINDS; kind++) {
		uint64_t events = counted(&f, AV_ODP_COUNT_INVALIDATIONS);
		uint64_t pages = counted(&f, AV_ODP_COUNT_INVALIDATION_PAGES);
		uint64_t then = av_unmapped_now(&f.seg);
		uint8_t *p;

		if (!(row->kinds & 1u << kind))
			continue;
		p = map_kind(kind);
		CHECK(access_at(p, PAGES * PAGE, true));
		CHECK(is_valid(p));
		row->act(p);
		check_only_invalid(p, row->first, row->last);
		CHECK_EQUAL(counted(&f, AV_ODP_COUNT_INVALIDATIONS), events + row->events);
		CHECK_EQUAL(counted(&f, AV_ODP_COUNT_INVALIDATION_PAGES),
			    pages + (uint64_t)(row->last - row->first));
		for (int i = 0; i < PAGES; i++)
			CHECK_EQUAL(fake_unmapped_since(&f.seg, (uintptr_t)p + (uintptr_t)i * PAGE,
							PAGE, then),
				    row->unmaps && i >= row->first && i < row->last);
	}
}

static void clears_exactly(void **state)
{
	as_both(event_child, *state);
}

static void brk_child(const void *arg)
{
	uint8_t *p;

	CHECK(((uintptr_t)sbrk(0) & (PAGE - 1)) == 0 ||
	      sbrk((intptr_t)(PAGE - ((uintptr_t)sbrk(0) & (PAGE - 1)))));
	p = sbrk(PAGES * PAGE);
	CHECK(p != (void *)-1 && access_at(p, PAGES * PAGE, true));
	CHECK(sbrk(-(intptr_t)(6 * PAGE)) != (void *)-1);
	check_only_invalid(p, PAGES - 6, PAGES);
	CHECK_EQUAL(counted(&f, AV_ODP_COUNT_INVALIDATIONS), 1);
}

static void shrinking_the_heap(void **state)
{
	as_both(brk_child, NULL);
}

/* What moved is still watched where it is now. */
static void moved_child(const void *arg)
{
	uint8_t *p = map_kind(PRIVATE), *q;

	CHECK(access_at(p, PAGES * PAGE, true));
	q = mremap(p, PAGES * PAGE, (PAGES + 4) * PAGE, MREMAP_MAYMOVE);
	CHECK(q != MAP_FAILED && access_at(q, PAGES * PAGE, true));
	CHECK(munmap(q, PAGES * PAGE) == 0);
	check_only_invalid(q, 0, PAGES);
	CHECK_EQUAL(counted(&f, AV_ODP_COUNT_INVALIDATIONS), 2);
}

static void what_moved_is_still_watched(void **state)
{
	as_both(moved_child, NULL);
}

int main(void)
{
	const struct CMUnitTest others[] = {
		cmocka_unit_test(shrinking_the_heap),
		cmocka_unit_test(what_moved_is_still_watched),
	};
	struct CMUnitTest tests[AV_ARRAY_SIZE(rows) + AV_ARRAY_SIZE(others)];

	if (!can_watch())
		return 77;
	for (size_t i = 0; i < AV_ARRAY_SIZE(rows); i++)
		tests[i] = (struct CMUnitTest){rows[i].name, clears_exactly, NULL, NULL,
					       (void *)(uintptr_t)&rows[i]};
	memcpy(tests + AV_ARRAY_SIZE(rows), others, sizeof(others));
	return cmocka_run_group_tests(tests, NULL, NULL);
}
