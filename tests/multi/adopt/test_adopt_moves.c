/* SPDX-License-Identifier: MIT */
/*
 * Adopted memory, what of a region is: its whole pages, from registration to deregistration,
 * whatever regions overlap, change, or are closed with their context; and nothing is left of it.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "adopt_fixture.h"
#include "lib/sandbox.h"
#include "lib/userfaultfd.h"

#define LONG (64ul << 20) /* moves back in many pieces */

struct range {
	const char *name;
	size_t from, to;	     /* of BYTES */
	size_t first_page, end_page; /* whole pages in it; equal: none */
};

static const struct range ranges[] = {
	{"all", 0, BYTES, 0, PAGES},
	{"one page", 3 * PAGE, 4 * PAGE, 3, 4},
	{"beginning within a page", 100, BYTES, 1, PAGES},
	{"ending within a page", 0, BYTES - 1, 0, PAGES - 1},
	{"beginning and ending within pages", PAGE - 1, 5 * PAGE + 1, 1, 5},
	{"two parts of pages", PAGE - 8, PAGE + 8, 0, 0},
	{"less than a page", 16, 24, 0, 0},
	{"a page and no whole one", 8, PAGE + 7, 0, 0},
};

static void range_row(const struct range *r)
{
	uint8_t *p = map_private(BYTES);
	struct ibv_mr *mr;

	row("whole pages: %s", r->name);
	fill(p, BYTES, 1);
	mr = reg(p + r->from, r->to - r->from);
	for (size_t i = 0; i < PAGES; i++)
		EXPECT(pages_private(p + i * PAGE) == (i < r->first_page || i >= r->end_page),
		       "page %zu", i);
	expect_filled(p, BYTES, 1);
	if (r->to - r->from >= 4 * PAGE) {
		expect_reached(p + r->from, mr);
		fill(p, BYTES, 2);
	} else {
		fill(p, BYTES, 2);
	}
	dereg(mr);
	for (size_t i = 0; i < PAGES; i++)
		EXPECT(pages_private(p + i * PAGE), "page %zu, afterwards", i);
	expect_filled(p, BYTES, 2);
	munmap(p, BYTES);
}

static void absent_row(void)
{
	uint8_t *p = map_private(BYTES);
	struct ibv_mr *mr;
	bool zero = true;

	row("pages that are not there yet");
	p[5 * PAGE] = 5;
	mr = reg(p, BYTES);
	expect_adopted(p, true);
	for (size_t i = 0; i < BYTES; i++)
		zero = zero && p[i] == (i == 5 * PAGE ? 5 : 0);
	EXPECT(zero, "not zeros");
	dereg(mr);
	EXPECT(p[5 * PAGE] == 5 && p[6 * PAGE] == 0, "contents");
	munmap(p, BYTES);
}

static void overlap_row(void)
{
	uint8_t *p = map_private(BYTES);
	struct ibv_mr *all, *part, *more;

	row("regions on the same pages");
	fill(p, BYTES, 3);
	all = reg(p, BYTES);
	part = reg(p + PAGE, 4 * PAGE);
	dereg(all);
	expect_adopted(p + PAGE, true);
	expect_reached(p + PAGE, part);
	more = reg(p, BYTES);
	expect_reached(p, more);
	dereg(part);
	fill(p, BYTES, 4);
	dereg(more);
	expect_adopted(p, false);
	expect_filled(p, BYTES, 4);
	munmap(p, BYTES);
}

static void rereg_row(void)
{
	uint8_t *p = map_private(BYTES), *q = map_private(BYTES);
	struct ibv_mr *mr;

	row("ibv_rereg_mr()");
	fill(p, BYTES, 5);
	fill(q, BYTES, 6);
	mr = reg(p, BYTES);
	EXPECT(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, q, BYTES, 0) == 0,
	       "errno %d", errno);
	expect_adopted(p, false);
	expect_adopted(q, true);
	expect_filled(p, BYTES, 5);
	expect_filled(q, BYTES, 6);
	EXPECT(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
			    IBV_ACCESS_REMOTE_READ) == 0,
	       "errno %d", errno);
	expect_adopted(q, true);
	EXPECT(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, PROBE_ALL) == 0,
	       "errno %d", errno);
	expect_reached(q, mr);
	dereg(mr);
	expect_adopted(q, false);
	munmap(p, BYTES);
	munmap(q, BYTES);
}

static void close_row(void)
{
	uint8_t *p = map_private(BYTES);
	struct node other;
	struct ibv_mr *mr;

	row("a context that is closed with a region");
	memset(&other, 0, sizeof(other));
	other.ctx = node_open_device();
	other.pd = ibv_alloc_pd(other.ctx);
	fill(p, BYTES, 7);
	mr = ibv_reg_mr(other.pd, p, BYTES, PROBE_ALL);
	EXPECT(mr, "ibv_reg_mr");
	expect_adopted(p, true);
	ibv_close_device(other.ctx);
	expect_adopted(p, false);
	expect_filled(p, BYTES, 7);
	munmap(p, BYTES);
}

static void *end_region(void *mr)
{
	dereg(mr);
	return NULL;
}

/* Its second half, before that has had its turn: whoever gets the addresses next keeps them. */
static void unmapped_row(void)
{
	uint8_t *p = map_private(LONG), *half = p + LONG / 2;
	struct ibv_mr *mr;
	pthread_t thread;
	bool before;

	row("memory is unmapped while it moves back");
	madvise(p, LONG, MADV_NOHUGEPAGE); /* memory with huge pages is not adopted */
	memset(p, 1, LONG);
	mr = reg_adopted(p, LONG);
	pthread_create(&thread, NULL, end_region, mr);
	while (!pages_private(p))
		sched_yield();
	munmap(half, LONG / 2);
	before = !pages_private(half - PAGE);
	pthread_join(thread, NULL);
	for (uint8_t *at = half; before && at < p + LONG; at += LONG / 16)
		EXPECT(!pages_mapped(at), "unmapped memory is back at byte %zu", (size_t)(at - p));
	EXPECT(p[0] == 1 && memcmp(p, p + 1, LONG / 2 - 1) == 0, "contents");
	munmap(p, LONG);
}

static void leak_row(void)
{
	uint8_t *p = map_private(BYTES);
	size_t before = 0;

	row("again and again");
	for (int i = 0; i < 2000; i++) {
		dereg(reg(p, BYTES));
		if (i == 100)
			before = segment_bytes(getpid());
	}
	EXPECT(segment_bytes(getpid()) <= before + 16 * PAGE,
	       "the segment grew from %zu to %zu bytes", before, segment_bytes(getpid()));
	munmap(p, BYTES);
}

static void run(void)
{
	for (size_t i = 0; i < COUNT_OF(ranges); i++)
		range_row(&ranges[i]);
	absent_row();
	overlap_row();
	rereg_row();
	if (!TEST_SANITIZED) /* what a program leaks so is its own */
		close_row();
	unmapped_row();
	leak_row();
}

int main(int argc, char **argv)
{
	need_userfaultfd();
	return adopt_test(argc, argv, run);
}
