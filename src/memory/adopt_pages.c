/* SPDX-License-Identifier: MIT */
#include "memory/adopt_pages.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/file_size.h"
#include "base/map.h"
#include "base/signals.h"
#include "base/sparse.h"
#include "base/thread.h"
#include "segment/map_file.h"
#include "segment/alloc.h"
#include "memory/linger.h"
#include "memory/odp_track.h"
#include "memory/page_move.h"
#include "memory/page_scan.h"
#include "memory/special.h"
#include "memory/vma.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

#define PIECE (4ul << 20) /* bytes that exist twice for a moment while they move out */

static void *pointer(uint64_t addr)
{
	return (void *)(uintptr_t)addr;
}

/* --- which memory ---------------------------------------------------------------- */

static bool all_private(int maps, uint64_t begin, uint64_t end)
{
	uint64_t here = (uintptr_t)__builtin_frame_address(0);
	struct av_vma vma;

	for (uint64_t at = begin; at < end; at = vma.end) {
		if (!av_vma_next(maps, at, &vma) || vma.begin > at || !vma.anonymous ||
		    !vma.readable || !vma.writable)
			return false;
		if (here >= vma.begin && here < vma.end)
			return false;
	}
	return true;
}

/* Huge pages would be lost if there are other threads when the pages move back. */
static bool no_huge(uint64_t begin, uint64_t end)
{
	struct av_page_scan_run runs[AV_PAGE_RUNS];

	return av_page_scan_huge(&begin, end, runs) == 0;
}

bool av_adopt_suitable(const struct av_adopt_pages *p)
{
	uint64_t end = p->begin + p->bytes;
	int maps = av_vma_open_own();
	bool ret = maps >= 0 && all_private(maps, p->begin, end);

	if (maps >= 0)
		close(maps);
	return ret && av_file_may_write(AV_SEG_BYTES) && no_huge(p->begin, end);
}

/*
 * Mappings of what may write to this process's memory or keep it pinned, without a processor. Of a
 * socket, a ring is mapped: AF_XDP pins the memory beside it and does not count that in VmPin.
 */
static const char *const foreign_writers[] = {
	"[io_uring]",  "/[aio]",    "/dev/infiniband/", "/dev/vfio/",
	"/dev/nvidia", "/dev/dri/", "/dev/kfd",		"socket:[",
};

static bool no_foreign_writer(const char *line)
{
	for (size_t i = 0; i < AV_ARRAY_SIZE(foreign_writers); i++)
		if (strstr(line, foreign_writers[i]))
			return false;
	return true;
}

static bool is_zero(const char *line, const char *name)
{
	return strncmp(line, name, strlen(name)) != 0 ||
	       strtoul(line + strlen(name), NULL, 10) == 0;
}

/* Pinned pages are written where they were: io_uring's fixed buffers, another adapter's regions. */
static bool nothing_pinned(const char *line)
{
	return is_zero(line, "VmPin:");
}

/* Locked memory would not stay locked. */
static bool nothing_locked(const char *line)
{
	return is_zero(line, "VmLck:");
}

static bool nothing_held(const char *line)
{
	return nothing_pinned(line) && nothing_locked(line);
}

/* Could the file be read, and is every line of it fine? */
static bool all_lines(const char *path, bool (*fine)(const char *line))
{
	FILE *f = fopen(path, "re");
	char *line = NULL;
	size_t room = 0;
	bool ret = f != NULL;

	if (!f)
		return false;
	while (ret && getline(&line, &room, f) > 0)
		ret = fine(line);
	ret = ret && feof(f);
	free(line);
	fclose(f);
	return ret;
}

bool av_adopt_single_threaded(void)
{
	struct stat st;

	/* Its folder has a link of each thread's, its own and its parent's. */
	return stat("/proc/self/task", &st) == 0 && st.st_nlink <= 3 + av_thread_own();
}

bool av_adopt_locked(void)
{
	return !all_lines("/proc/self/status", nothing_locked);
}

bool av_adopt_written_by_others(void)
{
	return !all_lines("/proc/self/status", nothing_pinned) ||
	       !all_lines("/proc/self/maps", no_foreign_writer);
}

bool av_adopt_must_stay(void)
{
	return !all_lines("/proc/self/status", nothing_held) ||
	       !all_lines("/proc/self/maps", no_foreign_writer);
}

/* --- in -------------------------------------------------------------------------- */

static bool copy_run(int fd, uint64_t at, uint64_t begin, uint64_t end)
{
	while (begin < end) {
		ssize_t n = pwrite(fd, pointer(begin), end - begin, (off_t)at);

		if (n <= 0)
			return false;
		begin += (uint64_t)n;
		at += (uint64_t)n;
	}
	return true;
}

/* Copy the pages of [at, end) that exist. Others need no copy: they are zeros on both sides. */
static bool copy_in(const struct av_adopt_pages *p, uint64_t at, uint64_t end)
{
	struct av_page_scan_run runs[AV_PAGE_RUNS];
	bool ret = true;

	while (ret && at < end) {
		int n = av_page_scan_present(&at, end, runs);

		ret = n >= 0;
		for (int i = 0; ret && i < n; i++)
			ret = copy_run(av_own_fd(&p->seg->file), p->at + (runs[i].begin - p->begin),
				       runs[i].begin, runs[i].end);
	}
	return ret;
}

/* The program's signal handlers may write anywhere. */
static void block_signals(sigset_t *old)
{
	sigset_t others;

	av_signals_of_others(&others);
	pthread_sigmask(SIG_BLOCK, &others, old);
}

static bool map_in(const struct av_adopt_pages *p, uint64_t begin, uint64_t end)
{
	return av_mmap(pointer(begin), end - begin, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
		       av_own_fd(&p->seg->file), (off_t)(p->at + (begin - p->begin))) != MAP_FAILED;
}

bool av_adopt_place(struct av_adopt_pages *p)
{
	p->at = av_pages_reserve_for(p->seg, p->bytes, p->begin);
	return p->at != 0;
}

/* Nobody is to hear of an unmapping: what is exchanged in one step is untracked as one range. */
static bool move_piece_in(const struct av_adopt_pages *p, uint64_t begin, uint64_t end)
{
	bool ret;

	av_odp_untrack(begin, end - begin);
	ret = av_pages_back(p->seg->pages, p->at + (begin - p->begin), end - begin) == 0 &&
	      copy_in(p, begin, end) && map_in(p, begin, end);
	av_odp_retrack(p->seg, begin, end - begin);
	return ret;
}

/* Piece by piece, so that there need not be memory for twice as much. */
static bool move_in(const struct av_adopt_pages *p)
{
	uint64_t begin = p->begin, all = p->begin + p->bytes, end;

	for (; begin < all; begin = end) {
		end = begin + PIECE - begin % PIECE; /* up to where a huge page may begin */
		end = end < all ? end : all;
		if (!move_piece_in(p, begin, end))
			return false;
	}
	return true;
}

bool av_adopt_move_in(const struct av_adopt_pages *p)
{
	sigset_t signals;
	bool ret;

	block_signals(&signals);
	ret = move_in(p);
	pthread_sigmask(SIG_SETMASK, &signals, NULL);
	return ret;
}

/* --- out ------------------------------------------------------------------------- */

/* Pages that move out. */
struct piece {
	int fd;		      /* of the segment, */
	uint64_t at;	      /* the pages' offset there */
	uint64_t addr, bytes; /* in the program */
	int prot;
};

/* For one thread: put new private memory in the pages' place, since nobody writes meanwhile. */
static bool replace(const struct piece *c)
{
	void *fresh = av_map_private_like(c->bytes, c->addr);
	bool ret = fresh != NULL;

	if (ret)
		av_special_move_policy(c->addr, c->bytes, fresh);
	ret = ret && av_sparse_read(c->fd, c->at, c->bytes, fresh);
	if (ret && c->prot != (PROT_READ | PROT_WRITE))
		ret = av_mprotect(fresh, c->bytes, c->prot) == 0;
	ret = ret && av_mremap(fresh, c->bytes, c->bytes, MREMAP_MAYMOVE | MREMAP_FIXED,
			       pointer(c->addr)) != MAP_FAILED;
	if (!ret && fresh)
		av_munmap(fresh, c->bytes);
	return ret;
}

/* The same where the program has closed the segment's descriptor. */
static bool replace_without_file(const struct piece *c)
{
	void *fresh = av_map_private_like(c->bytes, c->addr);

	if (!fresh)
		return false;
	if (c->prot & PROT_READ)
		memcpy(fresh, pointer(c->addr), c->bytes);
	if (av_mprotect(fresh, c->bytes, c->prot) == 0 &&
	    av_mremap(fresh, c->bytes, c->bytes, MREMAP_MAYMOVE | MREMAP_FIXED, pointer(c->addr)) !=
		    MAP_FAILED)
		return true;
	av_munmap(fresh, c->bytes);
	return false;
}

/*
 * For several threads, which may write at any moment. A private mapping of the same pages replaces
 * them in one step, so a store is in the page before or in the private copy after. Then every page
 * is copied, and the file's pages are freed for ever, so that what the program discards later reads
 * as zeros. Pages that could not be copied are still the file's: a stopped peer is waited for.
 */
static bool privatise(const struct av_adopt_pages *p, const struct piece *c)
{
	if (av_mmap(pointer(c->addr), c->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED,
		    c->fd, (off_t)c->at) == MAP_FAILED)
		return false;
	if (av_madvise(pointer(c->addr), c->bytes, MADV_POPULATE_WRITE) == 0)
		(void)!fallocate(c->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)c->at,
				 (off_t)c->bytes);
	else
		av_linger_wait(p->seg, p->at);
	if (c->prot != (PROT_READ | PROT_WRITE))
		(void)!av_mprotect(pointer(c->addr), c->bytes, c->prot);
	return true;
}

struct way {
	bool alone; /* the process has one thread */
	bool replaced;
	bool child;    /* after fork(): the segment, and who watches the memory, are the parent's */
	uint8_t *copy; /* in a child: of all pages, made before; NULL: there is none */
};

static bool exchange_piece(const struct av_adopt_pages *p, const struct piece *c, struct way *way)
{
	bool ret;

	av_odp_untrack(c->addr, c->bytes);
	ret = way->alone && (c->fd < 0 ? replace_without_file(c) : replace(c));
	if (!ret) {
		way->replaced = false;
		ret = privatise(p, c);
	}
	av_odp_retrack(p->seg, c->addr, c->bytes);
	return ret;
}

static bool is_of_pages(const struct av_adopt_pages *p, const struct av_vma *vma)
{
	return vma->shared && av_vma_is_of(vma, &p->seg->file);
}

static bool covered(const struct av_adopt_pages *p, int maps, uint64_t at, uint64_t end)
{
	struct av_vma vma;

	for (; at < end; at = vma.end)
		if (!av_vma_next(maps, at, &vma) || vma.begin > at || !is_of_pages(p, &vma) ||
		    vma.offset + (at - vma.begin) != p->at + (at - p->begin))
			return false;
	return true;
}

bool av_adopt_in_place(const struct av_adopt_pages *p, uint64_t begin, uint64_t bytes)
{
	int maps = av_vma_open_own();
	bool ret;

	if (maps < 0)
		return false;
	ret = covered(p, maps, begin, begin + bytes);
	close(maps);
	return ret;
}

/* Is this our own mapping of the segment, and not one of the program's? */
static bool is_segment(const struct av_adopt_pages *p, const struct av_vma *vma)
{
	return av_range_within(vma->begin, vma->end - vma->begin, (uintptr_t)p->seg->head,
			       AV_SEG_BYTES);
}

/*
 * In a child, which has one thread: put a part of the copy in the pages' place. Without a copy they
 * become a private mapping. To divide a mapping may be refused, and to add one; to unmap a whole
 * one is not, and there is room for another then.
 */
static void exchange_in_child(const struct av_vma *vma, const struct piece *c, void *copy)
{
	const uint64_t all = vma->end - vma->begin;

	if (copy && av_mprotect(copy, c->bytes, c->prot) == 0 &&
	    av_mremap(copy, c->bytes, c->bytes, MREMAP_MAYMOVE | MREMAP_FIXED, pointer(c->addr)) !=
		    MAP_FAILED)
		return;
	if (av_mmap(pointer(c->addr), c->bytes, c->prot, MAP_PRIVATE | MAP_FIXED, c->fd,
		    (off_t)c->at) != MAP_FAILED)
		return;
	if (c->fd < 0 && replace_without_file(c))
		return;
	av_munmap(pointer(vma->begin), all);
	(void)!av_mmap(pointer(vma->begin), all, c->prot, MAP_PRIVATE | MAP_FIXED, c->fd,
		       (off_t)vma->offset);
}

/* @end: of the pages in the mapping. @c: may become all of these */
static bool exchange_one(const struct av_adopt_pages *p, const struct av_vma *vma, struct piece *c,
			 uint64_t end, struct way *way)
{
	if (way->child) {
		exchange_in_child(vma, c, way->copy ? way->copy + (c->at - p->at) : NULL);
		return true;
	}
	if (exchange_piece(p, c, way))
		return true;
	/* To divide a mapping takes one more; to replace all that is left of it, none. */
	c->bytes = end - c->addr;
	way->alone = false;
	return exchange_piece(p, c, way);
}

/*
 * As much of a mapping as is exchanged at once, from @at on; @at: out, where to look anew. Threads
 * may unmap the rest meanwhile, and others have its addresses. Return: bytes, or -1
 */
static int64_t exchange_first(const struct av_adopt_pages *p, const struct av_vma *vma,
			      uint64_t *at, struct way *way)
{
	uint64_t begin, end, room;
	struct piece c;

	if (!is_of_pages(p, vma) || is_segment(p, vma) ||
	    !av_vma_part(vma, p->at, p->bytes, &begin, &end) || end <= *at) {
		*at = vma->end;
		return 0;
	}
	begin = begin > *at ? begin : *at;
	room = PIECE - begin % PIECE; /* up to where a huge page may begin */
	c = (struct piece){
		.fd = av_own_fd(&p->seg->file),
		.at = vma->offset + (begin - vma->begin),
		.addr = begin,
		.bytes = end - begin < room || way->child ? end - begin : room,
		.prot = av_vma_rights(vma),
	};
	if (!exchange_one(p, vma, &c, end, way))
		return -1;
	*at = begin + c.bytes;
	return (int64_t)c.bytes;
}

/* All pieces of the mappings that overlap [at, end). Return: bytes, or -1 */
static int64_t exchange_in_range(const struct av_adopt_pages *p, int maps, uint64_t at,
				 uint64_t end, struct way *way)
{
	struct av_vma vma;
	int64_t sum = 0;

	while (at < end && av_vma_next(maps, at, &vma) && vma.begin < end) {
		int64_t n = exchange_first(p, &vma, &at, way);

		if (n < 0)
			return -1;
		sum += n;
	}
	return sum;
}

/* Nearly always all pages are where they were adopted; the program may have moved the rest. */
static bool exchange_out(const struct av_adopt_pages *p, struct way *way)
{
	int maps = av_vma_open_own();
	int64_t n;

	if (maps < 0)
		return false;
	n = exchange_in_range(p, maps, p->begin, p->begin + p->bytes, way);
	if (n >= 0 && (uint64_t)n < p->bytes)
		n = way->child || av_page_move_widen(0, UINT64_MAX)
			    ? exchange_in_range(p, maps, 0, UINT64_MAX, way)
			    : -1;
	close(maps);
	return n >= 0;
}

void *av_adopt_copy(const struct av_adopt_pages *p)
{
	void *copy = av_map_private_like(p->bytes, p->begin);

	if (copy && !av_sparse_read(av_own_fd(&p->seg->file), p->at, p->bytes, copy)) {
		av_munmap(copy, p->bytes);
		copy = NULL;
	}
	return copy;
}

void av_adopt_leave_in_child(const struct av_adopt_pages *p, void *copy)
{
	struct way way = {.child = true, .copy = copy};

	(void)exchange_out(p, &way);
	if (copy)
		av_munmap(copy, p->bytes); /* what found no place */
}

bool av_adopt_move_out(const struct av_adopt_pages *p)
{
	struct way way = {.alone = av_adopt_single_threaded(), .replaced = true};
	sigset_t signals;
	bool ret;

	block_signals(&signals);
	ret = exchange_out(p, &way);
	pthread_sigmask(SIG_SETMASK, &signals, NULL);
	if (ret && way.replaced)
		av_linger_free_pages(p->seg, p->at);
	else if (ret)
		av_linger_empty_pages(p->seg, p->at);
	return ret;
}
