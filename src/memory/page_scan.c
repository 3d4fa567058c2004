/* SPDX-License-Identifier: MIT */
/* Asking the kernel about pages. System calls are made by number, as in vma.c. */
#include "memory/page_scan.h"

#include <fcntl.h>
#include <stdbool.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

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

/* A bit of an entry of "pagemap", see proc_pid_pagemap(5). */
#define ENTRY_PRESENT (1ull << 63)
#define ENTRY_FILE    (1ull << 61)

static int scan(uint64_t *begin, uint64_t end, struct av_page_scan_run *runs)
{
	struct scan_answer found[AV_PAGE_RUNS];
	struct scan_request s = {
		.size = sizeof(s),
		.start = *begin,
		.end = end,
		.vec = (uintptr_t)found,
		.vec_len = AV_PAGE_RUNS,
		.any = SCAN_PRESENT,
		.wanted = SCAN_PRESENT,
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

int av_page_scan_in_memory(uint64_t *begin, uint64_t end, struct av_page_scan_run *runs)
{
	int n = scan(begin, end, runs);

	return n >= 0 ? n : av_page_scan_in_memory_text(begin, end, runs);
}

/* --- before ---------------------------------------------------------------------- */

static uint64_t scan_page_bytes(void)
{
	return (uint64_t)sysconf(_SC_PAGESIZE);
}

/* Return: false: there is no room for another run */
static bool add_page(struct av_page_scan_run *runs, int *n, uint64_t page)
{
	if (*n && runs[*n - 1].end == page) {
		runs[*n - 1].end += scan_page_bytes();
		return true;
	}
	if (*n == AV_PAGE_RUNS)
		return false;
	runs[(*n)++] = (struct av_page_scan_run){page, page + scan_page_bytes()};
	return true;
}

/* The entries of at most @max pages from @begin on. Return: their number; 0 or less: none. */
static long read_entries(int pagemap, uint64_t begin, uint64_t end, uint64_t *entry, size_t max)
{
	uint64_t pages = (end - begin) / scan_page_bytes();
	size_t bytes = (pages < max ? pages : max) * sizeof(*entry);

	return syscall(SYS_pread64, pagemap, entry, bytes,
		       (off_t)(begin / scan_page_bytes() * sizeof(*entry))) /
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
		for (long i = 0; i < got; i++, *begin += scan_page_bytes())
			if (entry[i] & ENTRY_PRESENT && !add_page(runs, &n, *begin))
				return n;
	}
	return n;
}

int av_page_scan_in_memory_text(uint64_t *begin, uint64_t end, struct av_page_scan_run *runs)
{
	int pagemap = open_own("/proc/self/pagemap"), n;

	if (pagemap < 0)
		return -1;
	n = read_present(pagemap, begin, end, runs);
	close(pagemap);
	return n;
}

bool av_page_is_of_file(uint64_t addr)
{
	int pagemap = open_own("/proc/self/pagemap");
	uint64_t entry = 0;

	if (pagemap < 0)
		return false;
	if (read_entries(pagemap, addr, addr + scan_page_bytes(), &entry, 1) != 1)
		entry = 0;
	close(pagemap);
	return (entry & ENTRY_PRESENT) && (entry & ENTRY_FILE);
}
