/* SPDX-License-Identifier: MIT */
#include "memory/odp_implicit.h"

#include <stdlib.h>

#include "memory/nodes.h"
#include "memory/odp_table.h"
#include "memory/region_count.h"

#define IMPLICIT SIZE_MAX

/* All regions but implicit ones; the first @room are listed. Return: how many there are. */
static size_t others_of(const struct av_seg *seg, struct av_page_run *runs, size_t room,
			bool *implicit)
{
	struct av_odp_region r;
	uint32_t at = 0;
	size_t n = 0;

	*implicit = false;
	while (av_odp_region_next(seg, &at, &r)) {
		struct av_page_run run;

		if (r.length == IMPLICIT)
			*implicit = true;
		else if (av_page_run_of(r.addr, r.length, &run) && n++ < room)
			runs[n - 1] = run;
	}
	return n;
}

static int by_first(const void *a, const void *b)
{
	const struct av_page_run *x = a, *y = b;

	return (x->first > y->first) - (x->first < y->first);
}

/* Pages [first, end) that are valid. */
static uint64_t valid(const struct av_seg *seg, uint64_t first, uint64_t end)
{
	return first < end ? av_odp_valid(seg, first << AV_NODE_PAGE_SHIFT,
					  (end - first) << AV_NODE_PAGE_SHIFT)
			   : 0;
}

/* The valid pages between runs that may overlap. Orders them. */
static uint64_t valid_between(const struct av_seg *seg, struct av_page_run *runs, size_t n)
{
	uint64_t pages = 0, next = 0;

	qsort(runs, n, sizeof(*runs), by_first);
	for (size_t i = 0; i < n; i++) {
		pages += valid(seg, next, runs[i].first);
		if (runs[i].last >= next)
			next = runs[i].last + 1;
	}
	return pages + valid(seg, next, UINT64_MAX >> AV_NODE_PAGE_SHIFT);
}

uint64_t av_odp_implicit_pages(const struct av_seg *seg)
{
	struct av_page_run *runs;
	bool implicit;
	size_t room = others_of(seg, NULL, 0, &implicit), n;
	uint64_t pages;

	if (!implicit)
		return 0;
	runs = calloc(room + 1, sizeof(*runs));
	if (!runs)
		return 0;
	n = others_of(seg, runs, room, &implicit);
	pages = valid_between(seg, runs, n < room ? n : room);
	free(runs);
	return pages;
}
