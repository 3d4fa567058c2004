/* SPDX-License-Identifier: MIT */
/* Memory that has huge pages keeps them, since it is left alone; adopted memory gets them. */
#include <errno.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "adopt_fixture.h"

#define UNITS 4ul /* huge pages that the room for a row has */

/* Room that begins where a huge page may. */
static uint8_t *map_units(void)
{
	uint8_t *room = map_private((UNITS + 1) * HUGE_BYTES);

	return (uint8_t *)(((uintptr_t)room + HUGE_BYTES - 1) & ~(HUGE_BYTES - 1));
}

static void unmap_units(uint8_t *p)
{
	munmap(p, UNITS * HUGE_BYTES);
}

static const struct huge {
	const char *name;
	bool had;	   /* the program's memory has huge pages before */
	size_t from, to;   /* of UNITS * HUGE_BYTES: the region */
	size_t first, end; /* units that the adopted pages fill; equal: it is left alone */
	bool beside;	   /* pages of the region outside of those units are adopted, too */
} huges[] = {
	{"whole ones, of small pages", false, 0, UNITS *HUGE_BYTES, 0, UNITS, false},
	{"beginning and ending elsewhere, of small pages", false, 3 * PAGE,
	 UNITS *HUGE_BYTES - PAGE, 1, UNITS - 1, true},
	{"less than one, of small pages", false, PAGE, HUGE_BYTES, 0, 0, true},
	{"whole ones, of huge pages", true, HUGE_BYTES, 3 * HUGE_BYTES, 1, 1, false},
	{"a part of the first, of huge pages", true, HUGE_BYTES - PAGE, 3 * HUGE_BYTES, 1, 1,
	 false},
	{"a part of the last, of huge pages", true, HUGE_BYTES, 3 * HUGE_BYTES + 100, 1, 1, false},
	{"parts on both sides, of huge pages", true, 16, UNITS *HUGE_BYTES - 1, 1, 1, false},
};

/* As many units as have one, the program has one of each. */
static void expect_huge(const uint8_t *p, const char *when)
{
	EXPECT(pages_huge(p, UNITS * HUGE_BYTES) == UNITS, "%zu of %lu units are huge pages, %s",
	       pages_huge(p, UNITS * HUGE_BYTES), UNITS, when);
}

static void huge_units_row(const struct huge *h, bool by_fork)
{
	uint8_t *p = map_units(), *at = p + h->from;
	struct ibv_mr *mr;

	row("huge pages: %s%s", h->name, by_fork ? ", and a fork" : "");
	if (madvise(p, UNITS * HUGE_BYTES, h->had ? MADV_HUGEPAGE : MADV_NOHUGEPAGE))
		DIE("madvise: errno %d", errno);
	fill(p, UNITS * HUGE_BYTES, 21);
	if (h->had && pages_huge(p, UNITS * HUGE_BYTES) < UNITS) { /* the kernel has none left */
		unmap_units(p);
		return;
	}
	mr = reg(at, h->to - h->from);
	for (size_t i = 0; i < UNITS; i++)
		expect_adopted(p + i * HUGE_BYTES + PAGE * (HUGE_BYTES / PAGE / 2),
			       i >= h->first && i < h->end ? true
							   : h->beside && h->to > i * HUGE_BYTES);
	expect_filled(p, UNITS * HUGE_BYTES, 21);
	if (h->first < h->end)
		EXPECT(pages_huge(p + h->first * HUGE_BYTES, (h->end - h->first) * HUGE_BYTES) ==
			       h->end - h->first,
		       "adopted pages are small");
	if (h->had)
		expect_huge(p, "registered");
	expect_reached(p + ((h->from + 63) & ~63ul), mr);
	expect_reached(p + h->first * HUGE_BYTES + h->from % HUGE_BYTES, mr);
	if (by_fork) {
		pid_t child = fork();

		if (child == 0)
			_exit(0);
		waitpid(child, NULL, 0);
	}
	fill(p, UNITS * HUGE_BYTES, 22);
	dereg(mr);
	expect_adopted(p + h->first * HUGE_BYTES, false);
	expect_filled(p, UNITS * HUGE_BYTES, 22);
	if (h->had)
		expect_huge(p, "afterwards");
	EXPECT(madvise(p, UNITS * HUGE_BYTES, MADV_DONTNEED) == 0 && p[HUGE_BYTES] == 0,
	       "discarding afterwards");
	unmap_units(p);
}

static void run(void)
{
	for (size_t i = 0; i < COUNT_OF(huges); i++) {
		huge_units_row(&huges[i], false);
		huge_units_row(&huges[i], true);
	}
}

int main(int argc, char **argv)
{
	if (!pages_huge_possible()) {
		printf("SKIPPED: no huge pages here\n");
		return 77;
	}
	return adopt_test(argc, argv, run);
}
