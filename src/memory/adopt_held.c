/* SPDX-License-Identifier: MIT */
#include "memory/adopt_held.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <linux/magic.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/map.h"
#include "segment/map_file.h"
#include "segment/pages.h"
#include "memory/hold.h"
#include "memory/vma.h"

#ifndef FUSE_SUPER_MAGIC
#define FUSE_SUPER_MAGIC 0x65735546
#endif

#define LOOKS 200

/*
 * Bytes before and behind a thread's list of mutexes that are its other variables: they lie before
 * its control block, or behind. No more, for buffers are mapped next to threads' stacks.
 */
#if defined(__x86_64__) || defined(__i386__)
#define BEFORE (64u << 10)
#define BEHIND 0u
#else
#define BEFORE 0u
#define BEHIND (64u << 10)
#endif

static void *pointer(uint64_t addr)
{
	return (void *)(uintptr_t)addr;
}

/* --- whether --------------------------------------------------------------------- */

/* Ask of each number that is a name in a folder. Return: false: one of them says so, or there is no
 * folder */
static bool each_number(const char *path, bool (*ask)(int number, const void *arg), const void *arg)
{
	DIR *folder = opendir(path);
	const struct dirent *entry;
	bool ret = folder != NULL;

	while (ret && (entry = readdir(folder)))
		if (entry->d_name[0] != '.')
			ret = ask(atoi(entry->d_name), arg);
	if (folder)
		closedir(folder);
	return ret;
}

/* A thread that ends has none for a moment before it is gone. Return: false: it is gone */
static bool list_of_mutexes(int tid, uint64_t *head)
{
	uint64_t size;

	*head = 0;
	for (int i = 0; i < LOOKS && *head == 0; i++)
		if (syscall(SYS_get_robust_list, tid, head, &size))
			return errno != ESRCH;
		else if (*head == 0)
			sched_yield();
	return true;
}

/* Where its list of mutexes is the C library's other knowledge of a thread is, too. */
static bool thread_elsewhere(int tid, const void *arg)
{
	const struct av_adopt_copy *c = arg;
	uint64_t head;

	if (!list_of_mutexes(tid, &head))
		return true;
	return head && (av_round_up(head + 1, AV_PAGE_BYTES) + BEHIND <= c->addr ||
			(head & ~(uint64_t)(AV_PAGE_BYTES - 1)) >= c->addr + c->bytes + BEFORE);
}

/* The last two read into memory of the program's in their own ways. */
static bool file_buffered(int fd, const void *arg)
{
	struct statfs fs;
	int flags = fcntl(fd, F_GETFL);

	(void)arg;
	if (flags < 0)
		return true; /* the folder itself is none any more */
	if ((flags & O_DIRECT) || fstatfs(fd, &fs))
		return false;
	return fs.f_type != V9FS_MAGIC && fs.f_type != FUSE_SUPER_MAGIC;
}

bool av_adopt_can_hold(uint64_t begin, uint64_t bytes)
{
	const struct av_adopt_copy range = {.addr = begin, .bytes = bytes};

	return av_hold_possible() && each_number("/proc/self/task", thread_elsewhere, &range) &&
	       each_number("/proc/self/fd", file_buffered, NULL);
}

/* --- shared by both ways --------------------------------------------------------- */

/* Everything that is needed, on the stack: the heap may be in the range. */
struct held {
	const struct av_adopt_copy *c;
	int uffd, maps;
	uint64_t aside; /* memory for the pages meanwhile */
};

static void close_fd(int fd)
{
	if (fd >= 0)
		syscall(SYS_close, fd);
}

static bool prepare(struct held *h, const struct av_adopt_copy *c)
{
	*h = (struct held){.c = c, .uffd = av_hold_open(), .maps = av_vma_open_own()};
	h->aside = (uintptr_t)av_map_private_like(c->bytes, c->addr);
	return h->uffd >= 0 && h->maps >= 0 && h->aside;
}

static void finish(struct held *h)
{
	close_fd(h->uffd);
	close_fd(h->maps);
	if (h->aside)
		av_munmap(pointer(h->aside), h->c->bytes);
}

/* What the program discards of the range is discarded of the segment. */
static void punch(void *arg, uint64_t addr, uint64_t bytes)
{
	const struct av_adopt_copy *c = arg;
	uint64_t begin = addr > c->addr ? addr : c->addr, end = addr + bytes;

	end = end < c->addr + c->bytes ? end : c->addr + c->bytes;
	if (begin < end)
		syscall(SYS_fallocate, c->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
			c->at + (begin - c->addr), end - begin);
}

static bool map_segment(const struct av_adopt_copy *c)
{
	return av_mmap(pointer(c->addr), c->bytes, c->prot, MAP_SHARED | MAP_FIXED, c->fd,
		       (off_t)c->at) != MAP_FAILED;
}

/* --- exchanges, for who discards ------------------------------------------------- */

static _Atomic uint64_t exchanges; /* odd: one is under way */

void av_adopt_exchange_begin(void)
{
	atomic_fetch_add(&exchanges, 1);
}

void av_adopt_exchange_end(void)
{
	atomic_fetch_add(&exchanges, 1);
}

uint64_t av_adopt_exchange_settle(void)
{
	uint64_t now;

	while ((now = atomic_load(&exchanges)) & 1)
		sched_yield();
	return now;
}

/* --- in -------------------------------------------------------------------------- */

/* What the program has made of it meanwhile is not to be mapped over. */
static bool as_it_was(const struct held *h)
{
	struct av_vma vma;

	for (uint64_t at = h->c->addr, end = at + h->c->bytes; at < end; at = vma.end)
		if (!av_vma_next(h->maps, at, &vma) || vma.begin > at || !vma.anonymous ||
		    !vma.readable || !vma.writable)
			return false;
	return true;
}

/* The range is held. */
static bool exchange_in(struct held *h)
{
	struct av_adopt_copy c = *h->c;
	uint64_t moved = 0;
	bool all = av_hold_begin(h->uffd, h->aside, c.bytes) &&
		   av_hold_shift(h->uffd, h->maps, h->aside, c.addr, c.bytes, &moved);

	av_hold_end(h->uffd, h->aside, c.bytes);
	if (all && c.copy(&c, h->aside) && as_it_was(h) && map_segment(&c)) {
		av_hold_events(h->uffd, punch, &c);
		return true;
	}
	av_hold_fill(h->uffd, h->maps, c.addr, h->aside, moved);
	return false;
}

bool av_adopt_held_in(const struct av_adopt_copy *c)
{
	struct held h;
	bool ret = prepare(&h, c);

	av_adopt_exchange_begin();
	ret = ret && av_hold_begin(h.uffd, c->addr, c->bytes);
	if (ret) {
		ret = exchange_in(&h);
		av_hold_end(h.uffd, c->addr, c->bytes);
	}
	av_adopt_exchange_end();
	finish(&h);
	return ret;
}

/* --- out ------------------------------------------------------------------------- */

/* The range is held, and empty. Return: false: the segment's pages are there again */
static bool fill(struct held *h)
{
	struct av_adopt_copy c = *h->c;

	av_hold_events(h->uffd, punch, &c);
	while (!c.copy(&c, h->aside)) /* no memory */
		if (map_segment(&c))
			return false;
	if (c.huge)
		av_pages_collapse(pointer(h->aside), c.bytes);
	av_hold_fill(h->uffd, h->maps, c.addr, h->aside, c.bytes);
	if (c.prot != (PROT_READ | PROT_WRITE))
		(void)!mprotect(pointer(c.addr), c.bytes, c.prot);
	return true;
}

static void advise(uint64_t addr, const struct av_adopt_copy *c)
{
	if (c->huge)
		(void)!av_madvise(pointer(addr), c->bytes, MADV_HUGEPAGE);
}

/* Return: memory that is held, to take the place of the segment's; 0: none */
static uint64_t fresh_memory(const struct held *h)
{
	uint64_t fresh = (uintptr_t)av_map_private_like(h->c->bytes, h->c->addr);

	if (!fresh)
		return 0;
	advise(fresh, h->c);
	if (av_hold_begin(h->uffd, fresh, h->c->bytes))
		return fresh;
	av_munmap(pointer(fresh), h->c->bytes);
	return 0;
}

/* What the mover needs, it has; the heap may be in the range. */
static bool exchange_held(struct held *h, struct av_hold_mover *mover)
{
	struct av_adopt_copy c = *h->c;
	bool ret;

	av_adopt_exchange_begin();
	ret = av_hold_replace(h->uffd, mover, punch, &c);
	if (!ret)
		av_munmap(pointer(mover->fresh), c.bytes);
	else
		ret = fill(h);
	av_hold_end(h->uffd, c.addr, c.bytes);
	av_adopt_exchange_end();
	return ret;
}

static bool exchange_out(struct held *h)
{
	struct av_hold_mover mover = {.addr = h->c->addr, .bytes = h->c->bytes};
	bool ret = false;

	if (!av_hold_mover_start(&mover))
		return false;
	mover.fresh = fresh_memory(h);
	advise(h->aside, h->c);
	if (mover.fresh)
		ret = exchange_held(h, &mover);
	av_hold_mover_end(&mover);
	return ret;
}

bool av_adopt_held_out(const struct av_adopt_copy *c)
{
	struct held h;
	bool ret = prepare(&h, c) && exchange_out(&h);

	finish(&h);
	return ret;
}
