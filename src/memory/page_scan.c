/* SPDX-License-Identifier: MIT */
/* Asking the kernel about pages. System calls are made by number, as in vma.c. */
#include "memory/page_scan.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "segment/pages.h"

static int open_own(const char *path)
{
	return (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
}

/* --- since 6.7 ------------------------------------------------------------------- */

/* <linux/fs.h> */
struct scan_request {
	uint64_t size, flags, start, end, walk_end, vec, vec_len, max_pages;
	uint64_t inverted, all, any, wanted;
};
struct scan_answer {
	uint64_t start, end, categories;
};
#define PAGE_SCAN    _IOWR('f', 16, struct scan_request)
#define SCAN_PRESENT (1u << 3)
#define SCAN_SWAPPED (1u << 4)
#define SCAN_HUGE    (1u << 6)

static int scan(uint64_t *begin, uint64_t end, uint64_t any, struct av_page_scan_run *runs)
{
	struct scan_answer found[AV_PAGE_RUNS];
	struct scan_request s = {
		.size = sizeof(s),
		.start = *begin,
		.end = end,
		.vec = (uintptr_t)found,
		.vec_len = AV_PAGE_RUNS,
		.any = any,
		.wanted = any,
	};
	int pagemap = open_own("/proc/self/pagemap"), n;

	if (pagemap < 0)
		return -1;
	n = ioctl(pagemap, PAGE_SCAN, &s);
	close(pagemap);
	for (int i = 0; i < n; i++)
		runs[i] = (struct av_page_scan_run){found[i].start, found[i].end};
	if (n >= 0)
		*begin = n < AV_PAGE_RUNS ? end : s.walk_end;
	return n;
}

int av_page_scan_present(uint64_t *begin, uint64_t end, struct av_page_scan_run *runs)
{
	int n = scan(begin, end, SCAN_PRESENT | SCAN_SWAPPED, runs);

	return n >= 0 ? n : av_page_scan_present_text(begin, end, runs);
}

int av_page_scan_huge(uint64_t *begin, uint64_t end, struct av_page_scan_run *runs)
{
	int n = scan(begin, end, SCAN_HUGE, runs);

	return n >= 0 ? n : av_page_scan_huge_text(begin, end, runs);
}

/* --- before: present pages ------------------------------------------------------- */

#define ENTRY_THERE (3ull << 62) /* present, or swapped out: proc_pid_pagemap(5) */

/*
 * Add a page to the runs.
 * Return:  false: there is no room for another run
 */
static bool add_page(struct av_page_scan_run *runs, int *n, uint64_t page)
{
	if (*n && runs[*n - 1].end == page) {
		runs[*n - 1].end += AV_PAGE_BYTES;
		return true;
	}
	if (*n == AV_PAGE_RUNS)
		return false;
	runs[(*n)++] = (struct av_page_scan_run){page, page + AV_PAGE_BYTES};
	return true;
}

/*
 * Read the entries of pages from @begin on, at most @max.
 * Return:  their number; 0 or less: none
 */
static long read_entries(int pagemap, uint64_t begin, uint64_t end, uint64_t *entry, size_t max)
{
	uint64_t pages = (end - begin) / AV_PAGE_BYTES;
	size_t bytes = (pages < max ? pages : max) * sizeof(*entry);

	return syscall(SYS_pread64, pagemap, entry, bytes,
		       (off_t)(begin / AV_PAGE_BYTES * sizeof(*entry))) /
	       (long)sizeof(*entry);
}

static int read_present(int pagemap, uint64_t *begin, uint64_t end, struct av_page_scan_run *runs)
{
	uint64_t entry[256];
	int n = 0;

	while (*begin < end) {
		long got = read_entries(pagemap, *begin, end, entry, AV_ARRAY_SIZE(entry));

		if (got <= 0)
			return -1;
		for (long i = 0; i < got; i++, *begin += AV_PAGE_BYTES)
			if (entry[i] & ENTRY_THERE && !add_page(runs, &n, *begin))
				return n;
	}
	return n;
}

int av_page_scan_present_text(uint64_t *begin, uint64_t end, struct av_page_scan_run *runs)
{
	int pagemap = open_own("/proc/self/pagemap"), n;

	if (pagemap < 0)
		return -1;
	n = read_present(pagemap, begin, end, runs);
	close(pagemap);
	return n;
}

/* --- before: huge pages ---------------------------------------------------------- */

#define LINE 64 /* only this much of a line matters */

/* A mapping of "smaps", and the runs found so far. */
struct smaps {
	uint64_t begin, end;	     /* of the requested range */
	uint64_t vma_begin, vma_end; /* of the mapping whose lines are being read */
	struct av_page_scan_run *runs;
	int count;
};

static uint64_t max_of(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static uint64_t min_of(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* Does the mapping that is being read overlap the range? */
static bool overlaps_range(const struct smaps *s)
{
	return s->vma_end > s->begin && s->vma_begin < s->end;
}

/*
 * A line "BEGIN-END rwxp ...", or "Name:   NUMBER kB".
 * Return:  false: no later line matters
 */
static bool take_line(struct smaps *s, const char *line)
{
	static const char huge[] = "AnonHugePages:";
	char *rest;

	if (*line < 'A' || *line > 'Z') {
		s->vma_begin = strtoull(line, &rest, 16);
		s->vma_end = *rest == '-' ? strtoull(rest + 1, NULL, 16) : 0;
		return s->vma_begin < s->end;
	}
	if (strncmp(line, huge, sizeof(huge) - 1) != 0 || !overlaps_range(s) ||
	    strtoull(line + sizeof(huge) - 1, NULL, 10) == 0)
		return true;
	s->runs[s->count++] = (struct av_page_scan_run){max_of(s->begin, s->vma_begin),
							min_of(s->end, s->vma_end)};
	return s->count < AV_PAGE_RUNS;
}

/* Return:  false: it cannot be read to the end of the range */
static bool read_smaps(int smaps, struct smaps *s)
{
	char text[4096], line[LINE];
	size_t length = 0;
	long n;

	while ((n = syscall(SYS_read, smaps, text, sizeof(text))) > 0) {
		for (long i = 0; i < n; i++) {
			if (text[i] != '\n') {
				if (length < LINE - 1)
					line[length++] = text[i];
				continue;
			}
			line[length] = '\0';
			length = 0;
			if (!take_line(s, line))
				return true;
		}
	}
	return n == 0;
}

int av_page_scan_huge_text(uint64_t *begin, uint64_t end, struct av_page_scan_run *runs)
{
	int smaps = open_own("/proc/self/smaps");
	struct smaps s = {.begin = *begin, .end = end, .runs = runs};
	bool ok;

	if (smaps < 0)
		return -1;
	ok = read_smaps(smaps, &s);
	close(smaps);
	if (!ok)
		return -1;
	*begin = s.count < AV_PAGE_RUNS ? end : runs[s.count - 1].end;
	return s.count;
}
