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

#include "memory/smaps.h"

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

/* Bits of an entry of "pagemap", see proc_pid_pagemap(5). */
#define ENTRY_PRESENT (1ull << 63)
#define ENTRY_SWAPPED (1ull << 62)

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

static int present_text(uint64_t *begin, uint64_t end, uint64_t bits,
			struct av_page_scan_run *runs);

int av_page_scan_present(uint64_t *begin, uint64_t end, struct av_page_scan_run *runs)
{
	int n = scan(begin, end, SCAN_PRESENT | SCAN_SWAPPED, runs);

	return n >= 0 ? n : present_text(begin, end, ENTRY_PRESENT | ENTRY_SWAPPED, runs);
}

int av_page_scan_in_memory(uint64_t *begin, uint64_t end, struct av_page_scan_run *runs)
{
	int n = scan(begin, end, SCAN_PRESENT, runs);

	return n >= 0 ? n : present_text(begin, end, ENTRY_PRESENT, runs);
}

int av_page_scan_huge(uint64_t *begin, uint64_t end, struct av_page_scan_run *runs)
{
	int n = scan(begin, end, SCAN_HUGE, runs);

	return n >= 0 ? n : av_page_scan_huge_text(begin, end, runs);
}

/* --- before: present pages ------------------------------------------------------- */

static uint64_t page_bytes(void)
{
	return (uint64_t)sysconf(_SC_PAGESIZE);
}

/* Return: false: there is no room for another run */
static bool add_page(struct av_page_scan_run *runs, int *n, uint64_t page)
{
	if (*n && runs[*n - 1].end == page) {
		runs[*n - 1].end += page_bytes();
		return true;
	}
	if (*n == AV_PAGE_RUNS)
		return false;
	runs[(*n)++] = (struct av_page_scan_run){page, page + page_bytes()};
	return true;
}

/* The entries of at most @max pages from @begin on. Return: their number; 0 or less: none. */
static long read_entries(int pagemap, uint64_t begin, uint64_t end, uint64_t *entry, size_t max)
{
	uint64_t pages = (end - begin) / page_bytes();
	size_t bytes = (pages < max ? pages : max) * sizeof(*entry);

	return syscall(SYS_pread64, pagemap, entry, bytes,
		       (off_t)(begin / page_bytes() * sizeof(*entry))) /
	       (long)sizeof(*entry);
}

static int read_present(int pagemap, uint64_t *begin, uint64_t end, uint64_t bits,
			struct av_page_scan_run *runs)
{
	uint64_t entry[256];
	int n = 0;

	while (*begin < end) {
		long got = read_entries(pagemap, *begin, end, entry, AV_ARRAY_SIZE(entry));

		if (got <= 0)
			return -1;
		for (long i = 0; i < got; i++, *begin += page_bytes())
			if (entry[i] & bits && !add_page(runs, &n, *begin))
				return n;
	}
	return n;
}

static int present_text(uint64_t *begin, uint64_t end, uint64_t bits, struct av_page_scan_run *runs)
{
	int pagemap = open_own("/proc/self/pagemap"), n;

	if (pagemap < 0)
		return -1;
	n = read_present(pagemap, begin, end, bits, runs);
	close(pagemap);
	return n;
}

int av_page_scan_present_text(uint64_t *begin, uint64_t end, struct av_page_scan_run *runs)
{
	return present_text(begin, end, ENTRY_PRESENT | ENTRY_SWAPPED, runs);
}

/* --- before: huge pages ---------------------------------------------------------- */

/* The requested range, and the runs found so far. */
struct huge_runs {
	uint64_t begin, end;
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

static bool take_huge(void *arg, uint64_t vma_begin, uint64_t vma_end, const char *line)
{
	static const char huge[] = "AnonHugePages:";
	struct huge_runs *h = arg;

	if (strncmp(line, huge, sizeof(huge) - 1) != 0 ||
	    strtoull(line + sizeof(huge) - 1, NULL, 10) == 0)
		return true;
	h->runs[h->count++] =
		(struct av_page_scan_run){max_of(h->begin, vma_begin), min_of(h->end, vma_end)};
	return h->count < AV_PAGE_RUNS;
}

int av_page_scan_huge_text(uint64_t *begin, uint64_t end, struct av_page_scan_run *runs)
{
	struct huge_runs h = {.begin = *begin, .end = end, .runs = runs};

	if (!av_smaps_read(*begin, end, take_huge, &h))
		return -1;
	*begin = h.count < AV_PAGE_RUNS ? end : runs[h.count - 1].end;
	return h.count;
}
