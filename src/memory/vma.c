/* SPDX-License-Identifier: MIT */
#include "memory/region.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

size_t av_page_bytes(void)
{
	return (size_t)sysconf(_SC_PAGESIZE);
}

/* By number: callers hold execution rights, and the library's versions are cancellation points. */

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ  22
#define MADV_POPULATE_WRITE 23
#endif

/* In <linux/fs.h> since 6.11. */
struct procmap_question {
	uint64_t size, flags, addr;
	uint64_t begin, end, rights, page_size, offset, inode;
	uint32_t dev_major, dev_minor, name_size, build_id_size;
	uint64_t name_addr, build_id_addr;
};
#define PROCMAP_QUESTION	 _IOWR('f', 17, struct procmap_question)
#define PROCMAP_COVERING_OR_NEXT 0x10
#define PROCMAP_READABLE	 0x01
#define PROCMAP_WRITABLE	 0x02
#define PROCMAP_EXECUTABLE	 0x04
#define PROCMAP_SHARED		 0x08

static int open_own(const char *path)
{
	return (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
}

int av_vma_open_own(void)
{
	return open_own("/proc/self/maps");
}

/* The number that the text begins with; it then begins behind the byte that ends it. */
static uint64_t take_number(const char **p, unsigned int base)
{
	uint64_t n = 0;

	for (; **p && !strchr(" -:", **p); ++*p)
		n = n * base + (uint64_t)(**p <= '9' ? **p - '0' : **p - 'a' + 10);
	*p += **p != '\0';
	return n;
}

/* "BEGIN-END rwxp OFFSET DEVICE INODE  NAME": proc_pid_maps(5). */
static struct av_vma parse_vma(const char *p)
{
	struct av_vma vma = {0};
	unsigned int major;

	vma.begin = take_number(&p, 16);
	vma.end = take_number(&p, 16);
	for (; *p && *p != ' '; p++) {
		vma.readable |= *p == 'r';
		vma.writable |= *p == 'w';
		vma.executable |= *p == 'x';
		vma.shared |= *p == 's';
	}
	p += *p == ' ';
	vma.offset = take_number(&p, 16);
	major = (unsigned int)take_number(&p, 16);
	vma.dev = makedev(major, (unsigned int)take_number(&p, 16));
	vma.inode = take_number(&p, 10);
	vma.anonymous = !vma.shared && !vma.inode;
	return vma;
}

/* For older kernels. */
static bool read_next_vma(int maps, uint64_t addr, struct av_vma *vma)
{
	char text[1024], line[128]; /* enough for all but the name */
	size_t used = 0;
	off_t at = 0;
	long n;

	for (; (n = syscall(SYS_pread64, maps, text, sizeof(text), at)) > 0; at += n)
		for (long i = 0; i < n; i++) {
			if (text[i] != '\n') {
				if (used < sizeof(line) - 1)
					line[used++] = text[i];
				continue;
			}
			line[used] = '\0';
			used = 0;
			*vma = parse_vma(line);
			if (vma->end > addr)
				return true;
		}
	return false;
}

bool av_vma_next(int maps, uint64_t addr, struct av_vma *vma)
{
	struct procmap_question q = {
		.size = sizeof(q), .flags = PROCMAP_COVERING_OR_NEXT, .addr = addr};

	if (ioctl(maps, PROCMAP_QUESTION, &q))
		return errno != ENOENT && read_next_vma(maps, addr, vma);
	*vma = (struct av_vma){
		.begin = q.begin,
		.end = q.end,
		.anonymous = !q.inode && !(q.rights & PROCMAP_SHARED),
		.readable = q.rights & PROCMAP_READABLE,
		.writable = q.rights & PROCMAP_WRITABLE,
		.executable = q.rights & PROCMAP_EXECUTABLE,
		.shared = q.rights & PROCMAP_SHARED,
		.inode = q.inode,
		.dev = makedev(q.dev_major, q.dev_minor),
		.offset = q.offset,
	};
	return true;
}

int av_vma_rights_of(int maps, uint64_t addr, uint64_t bytes)
{
	uint64_t end = addr + bytes;
	struct av_vma vma;
	int ret = -1;

	for (uint64_t at = addr; at < end; at = vma.end) {
		if (!av_vma_next(maps, at, &vma) || vma.begin > at ||
		    (at > addr && av_vma_rights(&vma) != ret))
			return -1;
		ret = av_vma_rights(&vma);
	}
	return ret;
}

int av_mapped_check(uint64_t addr, uint64_t bytes, bool writable)
{
	uint64_t at = addr, last = addr + bytes;
	int maps = av_vma_open_own();
	struct av_vma vma;

	if (maps < 0)
		return EFAULT;
	while (at != last && av_vma_next(maps, at, &vma) && vma.begin <= at && vma.readable &&
	       (vma.writable || !writable))
		at = vma.end - at < last - at ? vma.end : last;
	close(maps);
	return at == last ? 0 : EFAULT;
}

/* Does the kernel know the advice? Then it follows it for this thread's stack. */
static bool can_populate(int advice)
{
	size_t page = av_page_bytes();
	uintptr_t here = (uintptr_t)__builtin_frame_address(0);

	return madvise((void *)(here & ~(page - 1)), page, advice) == 0;
}

int av_mapped_populate(uint64_t begin, uint64_t bytes, bool writable)
{
	int advice = writable ? MADV_POPULATE_WRITE : MADV_POPULATE_READ, err = 0;

	do
		err = madvise((void *)(uintptr_t)begin, bytes, advice) ? errno : 0;
	while (err == EINTR || err == EAGAIN);
	if (err == 0)
		return 0;
	if (err == EFAULT || err == EHWPOISON || av_mapped_check(begin, bytes, writable))
		return EFAULT;
	if (err == ENOMEM)
		return ENOMEM;
	return err == EINVAL && can_populate(advice) ? EFAULT : EINVAL;
}

/* Asking the kernel about pages. */

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

static int scan_page_runs(uint64_t *begin, uint64_t end, struct av_page_scan_run *runs)
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

/* --- before ---------------------------------------------------------------------- */

/* Return: false: there is no room for another run */
static bool add_page(struct av_page_scan_run *runs, int *n, uint64_t page)
{
	if (*n && runs[*n - 1].end == page) {
		runs[*n - 1].end += av_page_bytes();
		return true;
	}
	if (*n == AV_PAGE_RUNS)
		return false;
	runs[(*n)++] = (struct av_page_scan_run){page, page + av_page_bytes()};
	return true;
}

/* The entries of at most @max pages from @begin on. Return: their number; 0 or less: none. */
static long read_entries(int pagemap, uint64_t begin, uint64_t end, uint64_t *entry, size_t max)
{
	uint64_t pages = (end - begin) / av_page_bytes();
	size_t bytes = (pages < max ? pages : max) * sizeof(*entry);

	return syscall(SYS_pread64, pagemap, entry, bytes,
		       (off_t)(begin / av_page_bytes() * sizeof(*entry))) /
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
		for (long i = 0; i < got; i++, *begin += av_page_bytes())
			if (entry[i] & ENTRY_PRESENT && !add_page(runs, &n, *begin))
				return n;
	}
	return n;
}

static int scan_page_runs_before(uint64_t *begin, uint64_t end, struct av_page_scan_run *runs)
{
	int pagemap = open_own("/proc/self/pagemap"), n;

	if (pagemap < 0)
		return -1;
	n = read_present(pagemap, begin, end, runs);
	close(pagemap);
	return n;
}

int av_page_scan_in_memory(uint64_t *begin, uint64_t end, struct av_page_scan_run *runs)
{
	int n = scan_page_runs(begin, end, runs);

	return n >= 0 ? n : scan_page_runs_before(begin, end, runs);
}

bool av_page_is_of_file(uint64_t addr)
{
	int pagemap = open_own("/proc/self/pagemap");
	uint64_t entry = 0;

	if (pagemap < 0)
		return false;
	if (read_entries(pagemap, addr, addr + av_page_bytes(), &entry, 1) != 1)
		entry = 0;
	close(pagemap);
	return (entry & ENTRY_PRESENT) && (entry & ENTRY_FILE);
}
