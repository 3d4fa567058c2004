/* SPDX-License-Identifier: MIT */
#include "segment/pages.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/compiler.h"
#include "base/real_calls.h"
#include "base/thread.h"
#include "segment/segment.h"

#define VIEWS  256u /* of one peer: more runs are reached by system calls */
#define PROBES 8u
#define MIB    (1ull << 20)
#define GIB    (1ull << 30)

/* Nothing of it changes while @serial is not 0. Changed under the mutex; the first four are read
 * without. */
struct view {
	_Atomic uint64_t serial; /* 0: free */
	_Atomic uint64_t begin, bytes;
	_Atomic(uint8_t *) base; /* NULL: the files cannot be had */
	uint64_t room;		 /* of the place */
	uint64_t run;		 /* offset in the segment */
};

/*
 * Address space for a view. It is kept until the segment is forgotten: a peer that says nonsense
 * may have a view end under a copy, which then must not find memory of the program there.
 */
struct place {
	uint8_t *at;
	uint64_t room;
};

struct views {
	struct av_seg_views seg_views; /* first */
	pthread_mutex_t mutex;	       /* held to change any */
	atomic_bool due;	       /* some have ended, and nobody has looked which */
	struct view view[VIEWS];
	struct place spare[VIEWS];
	unsigned int spares, places; /* how many there are; of these and of views together */
};

static struct view *view_slot_at(struct views *views, uint64_t serial, unsigned int n)
{
	return &views->view[(serial + n) % VIEWS];
}

static struct view *find_file_view(struct views *views, uint64_t serial)
{
	for (unsigned int n = 0; n < PROBES; n++) {
		struct view *v = view_slot_at(views, serial, n);

		if (atomic_load_explicit(&v->serial, memory_order_acquire) == serial)
			return v;
	}
	return NULL;
}

/* --- making one ------------------------------------------------------------------ */

struct making {
	struct av_seg *seg;
	const struct av_file_run *run;
	uint32_t extents, missing;
	uint64_t begin, bytes;
	uint8_t *base;
	uint64_t done[AV_FILE_EXTENTS_MAX / 64];
};

static bool is_extent_mapped(const struct making *m, uint32_t i)
{
	return m->done[i / 64] >> i % 64 & 1;
}

/* The owner may change it at any time: what is returned lies within the view. */
static bool extent_at(const struct making *m, uint32_t i, struct av_file_extent *p)
{
	const volatile struct av_file_extent *said = &m->run->extent[i];

	*p = (struct av_file_extent){said->begin, said->end, said->dev, said->ino, said->offset};
	return p->begin >= m->begin && p->end > p->begin && p->end - m->begin <= m->bytes;
}

static bool map_extent(struct making *m, const struct av_file_extent *p, int fd)
{
	return av_mmap(m->base + (p->begin - m->begin), p->end - p->begin, PROT_NONE,
		       MAP_SHARED | MAP_NORESERVE | MAP_FIXED, fd, (off_t)p->offset) != MAP_FAILED;
}

/* Files of disks are none of ours: their time of modification would change, and they are slow. */
static bool is_of_memory(int fd, const struct stat *wanted)
{
	struct statfs fs;
	struct stat st;

	return fstat(fd, &st) == 0 && st.st_ino == wanted->st_ino && st.st_dev == wanted->st_dev &&
	       fstatfs(fd, &fs) == 0 &&
	       ((uint32_t)fs.f_type == TMPFS_MAGIC || (uint32_t)fs.f_type == HUGETLBFS_MAGIC);
}

/* Map all extents of a file. */
static void map_file_extents(struct making *m, int fd, const struct stat *st)
{
	struct av_file_extent p;

	if (!is_of_memory(fd, st))
		return;
	for (uint32_t i = 0; i < m->extents; i++)
		if (!is_extent_mapped(m, i) && extent_at(m, i, &p) && p.ino == st->st_ino &&
		    p.dev == st->st_dev && map_extent(m, &p, fd)) {
			m->done[i / 64] |= 1ull << i % 64;
			m->missing--;
		}
}

static bool has_unmapped_extent(const struct making *m, const struct stat *st)
{
	struct av_file_extent p;

	for (uint32_t i = 0; i < m->extents; i++)
		if (!is_extent_mapped(m, i) && extent_at(m, i, &p) && p.ino == st->st_ino &&
		    p.dev == st->st_dev)
			return true;
	return false;
}

static bool map_wanted_file(int dir, const char *name, const struct stat *st, void *arg)
{
	struct making *m = arg;
	int fd = has_unmapped_extent(m, st)
			 ? (int)syscall(SYS_openat, dir, name, O_RDWR | O_CLOEXEC)
			 : -1;

	if (fd >= 0) {
		map_file_extents(m, fd, st);
		syscall(SYS_close, fd);
	}
	return m->missing > 0;
}

/* Root finds what has neither a name nor a descriptor any more, too. */
static void from_proc(struct making *m)
{
	static const char *const folders[] = {"fd", "root/dev/shm", "root/dev/hugepages",
					      "map_files"};
	char path[64];

	for (size_t i = 0; m->missing && i < AV_ARRAY_SIZE(folders); i++) {
		snprintf(path, sizeof(path), "/proc/%d/%s", (int)m->seg->pid, folders[i]);
		av_file_search(path, map_wanted_file, m);
	}
}

/* Opened anew: what is handed over shares the owner's locks (flock(2)). */
static int reopened(int fd)
{
	char path[32];
	int ret;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	ret = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC);
	syscall(SYS_close, fd);
	return ret;
}

static void from_socket(struct making *m)
{
	struct av_file_extent p;

	for (uint32_t i = 0; i < m->extents; i++) {
		struct stat st;
		int fd;

		if (is_extent_mapped(m, i))
			continue;
		if (!extent_at(m, i, &p))
			return;
		fd = av_seg_passed_file(m->seg, p.dev, p.ino);
		fd = fd < 0 ? fd : reopened(fd);
		if (fd < 0)
			return;
		st = (struct stat){.st_dev = p.dev, .st_ino = p.ino};
		map_file_extents(m, fd, &st);
		syscall(SYS_close, fd);
		if (!is_extent_mapped(m, i))
			return;
	}
}

/* Map all extents into @base. Return: false: nothing is to be found there */
static bool map_all(struct av_seg *seg, const struct av_file_run *run, const struct view *v)
{
	struct making m = {
		.seg = seg, .run = run, .begin = v->begin, .bytes = v->bytes, .base = v->base};

	m.missing = m.extents = __atomic_load_n(&run->extents, __ATOMIC_RELAXED);
	if (m.extents == 0 || m.extents > AV_FILE_EXTENTS_MAX ||
	    !av_seg_piece(seg, v->run, sizeof(*run) + m.extents * sizeof(struct av_file_extent)))
		return false;
	if (seg->same_pidns)
		from_proc(&m);
	else
		from_socket(&m);
	/* Locked memory (mlockall(2)) would fill the holes of the files. */
	(void)syscall(SYS_munlock, v->base, v->bytes);
	return m.missing == 0 && av_mprotect(v->base, v->bytes, PROT_READ | PROT_WRITE) == 0;
}

/* --- keeping them ---------------------------------------------------------------- */

static struct place new_place(struct views *views, uint64_t bytes, uint64_t begin, uint64_t align)
{
	struct place p = {NULL, bytes};

	if (views->places < VIEWS)
		p.at = av_map_place(bytes, begin, align);
	views->places += p.at != NULL;
	return p;
}

/* Return: @at NULL: there is none. The mutex is held; also below */
static struct place take_place(struct views *views, uint64_t bytes, uint64_t begin)
{
	uint64_t align = bytes >= GIB ? GIB : bytes >= 2 * MIB ? 2 * MIB : AV_PAGE_BYTES;

	for (unsigned int i = 0; i < views->spares; i++) {
		struct place p = views->spare[i];

		if (p.room >= bytes && ((begin - (uintptr_t)p.at) & (align - 1)) == 0) {
			views->spare[i] = views->spare[--views->spares];
			return p;
		}
	}
	return new_place(views, bytes, begin, align);
}

/* Nothing of the files stays there. */
static void release_view_place(struct views *views, struct view *v)
{
	if (v->base &&
	    av_mmap(v->base, v->bytes, PROT_NONE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) != MAP_FAILED)
		views->spare[views->spares++] = (struct place){v->base, v->room};
	v->base = NULL;
}

/* @base: out; NULL: the files are not to be had, or there is no room */
static void make_file_view(struct views *views, struct av_seg *seg, const struct av_file_run *run,
			   struct view *v)
{
	struct place p = take_place(views, v->bytes, v->begin);

	v->base = p.at;
	v->room = p.room;
	if (v->base && !map_all(seg, run, v))
		release_view_place(views, v);
}

/* No thread is in it: a region ends when all copies have. */
static void clear_file_view(struct views *views, struct view *v)
{
	atomic_store(&v->serial, 0);
	release_view_place(views, v);
}

static bool has_ended(const struct av_seg *seg, const struct view *v, uint64_t serial)
{
	struct av_file_run *run = av_seg_at(seg, v->run, sizeof(*run));

	return !run || atomic_load(&run->serial) != serial;
}

static void clear_ended(struct views *views, const struct av_seg *seg, struct view *v)
{
	uint64_t serial = atomic_load(&v->serial);

	if (serial && has_ended(seg, v, serial))
		clear_file_view(views, v);
}

/* The mutex is held. NULL: there is no room */
static struct view *make_in(struct views *views, struct av_seg *seg, struct av_file_run *run,
			    uint64_t serial)
{
	uint64_t begin = __atomic_load_n(&run->begin, __ATOMIC_RELAXED);
	uint64_t bytes = __atomic_load_n(&run->bytes, __ATOMIC_RELAXED);

	if (bytes == 0 || av_range_wraps(begin, bytes) || (begin | bytes) & (AV_PAGE_BYTES - 1))
		return NULL;
	for (unsigned int n = 0; n < PROBES; n++) {
		struct view *v = view_slot_at(views, serial, n);

		clear_ended(views, seg, v);
		if (atomic_load(&v->serial))
			continue;
		v->begin = begin;
		v->bytes = bytes;
		v->run = (uint64_t)((uint8_t *)run - (uint8_t *)seg->head);
		atomic_store(&run->viewed, 1);
		make_file_view(views, seg, run, v);
		atomic_store_explicit(&v->serial, serial, memory_order_release);
		return v;
	}
	return NULL;
}

/*
 * Whoever holds the mutex may be waiting for the segment's owner, and the owner for this thread: so
 * nobody waits for it here, and who has held it looks again.
 */
static void sweep_due(struct views *views, const struct av_seg *seg)
{
	while (atomic_load(&views->due) && !pthread_mutex_trylock(&views->mutex)) {
		atomic_store(&views->due, false);
		for (unsigned int i = 0; i < VIEWS; i++)
			clear_ended(views, seg, &views->view[i]);
		pthread_mutex_unlock(&views->mutex);
	}
}

static void sweep_file_views(struct av_seg *seg)
{
	struct views *views = (struct views *)atomic_load(&seg->views);

	if (!views)
		return;
	atomic_store(&views->due, true);
	sweep_due(views, seg);
}

static void destroy_file_views(struct av_seg *seg)
{
	struct views *views = (struct views *)atomic_exchange(&seg->views, NULL);

	if (!views)
		return;
	for (unsigned int i = 0; i < VIEWS; i++)
		clear_file_view(views, &views->view[i]);
	for (unsigned int i = 0; i < views->spares; i++)
		av_munmap(views->spare[i].at, views->spare[i].room);
	pthread_mutex_destroy(&views->mutex);
	free(views);
}

static struct views *views_of(struct av_seg *seg)
{
	struct av_seg_views *first = atomic_load_explicit(&seg->views, memory_order_acquire);
	struct views *views;

	if (av_likely(first != NULL))
		return (struct views *)first;
	views = calloc(1, sizeof(*views));
	if (!views)
		return NULL;
	views->seg_views =
		(struct av_seg_views){.sweep = sweep_file_views, .forget = destroy_file_views};
	pthread_mutex_init(&views->mutex, NULL);
	if (atomic_compare_exchange_strong(&seg->views, &first, &views->seg_views))
		return views;
	free(views);
	return (struct views *)first;
}

/* A peer that says nonsense may have had the view end meanwhile. */
static void *within(struct view *v, uint64_t serial, uint64_t addr, uint64_t len)
{
	uint64_t begin = atomic_load_explicit(&v->begin, memory_order_relaxed);
	uint64_t bytes = atomic_load_explicit(&v->bytes, memory_order_relaxed);
	uint8_t *base = atomic_load_explicit(&v->base, memory_order_acquire);

	if (!base || !av_range_within(addr, len, begin, bytes) ||
	    atomic_load_explicit(&v->serial, memory_order_acquire) != serial)
		return NULL;
	return base + (addr - begin);
}

void *av_file_view_at(struct av_seg *seg, uint64_t at, uint64_t addr, uint64_t len)
{
	struct av_file_run *run = av_seg_at(seg, at, sizeof(*run));
	uint64_t serial = run ? atomic_load_explicit(&run->serial, memory_order_acquire) : 0;
	struct views *views = serial ? views_of(seg) : NULL;
	struct view *v = views ? find_file_view(views, serial) : NULL;

	if (!views)
		return NULL;
	if (av_unlikely(!v)) {
		AV_UNCANCELLED;
		int saved = errno;

		pthread_mutex_lock(&views->mutex);
		v = find_file_view(views, serial);
		v = v ? v : make_in(views, seg, run, serial);
		pthread_mutex_unlock(&views->mutex);
		sweep_due(views, seg);
		errno = saved;
	}
	return v ? within(v, serial, addr, len) : NULL;
}
