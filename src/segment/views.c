/* SPDX-License-Identifier: MIT */
/* A peer process's memory outside its segment: shared heap, pages owners, the program's files. */
#include "segment/pages.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/real_calls.h"
#include "base/table.h"
#include "base/thread.h"

/* --- the shared heap ------------------------------------------------------------- */

static uint8_t *map_shared_heap(const struct av_seg *seg)
{
	const struct av_fd_passed what = {.pid = seg->same_pidns ? seg->pid : 0,
					  .number = seg->head->shared_heap_fd,
					  .ino = seg->head->shared_heap_inode,
					  .dev = seg->head->shared_heap_dev};
	char socket[PATH_MAX];
	uint8_t *heap;
	int fd = -1;

	if (what.number >= 0)
		fd = av_fd_passed_open(&what, av_seg_socket(seg, socket) ? socket : NULL);
	heap = fd < 0 ? NULL : av_map_sparse(fd, AV_SHARED_HEAP_BYTES, PROT_READ | PROT_WRITE);
	if (fd >= 0)
		syscall(SYS_close, fd); /* close(3) is a cancellation point */
	return heap ? heap : AV_SHARED_HEAP_NOWHERE;
}

static void unmap_shared_heap(uint8_t *heap)
{
	if (heap && heap != AV_SHARED_HEAP_NOWHERE)
		av_munmap(heap, AV_SHARED_HEAP_BYTES);
}

uint8_t *av_seg_map_shared_heap(struct av_seg *seg)
{
	uint8_t *heap = map_shared_heap(seg), *first = NULL;

	if (atomic_compare_exchange_strong(&seg->shared_heap, &first, heap))
		return heap;
	unmap_shared_heap(heap);
	return first;
}

/* --- pages owners ---------------------------------------------------------------- */

/* In the folder of the context that has regions there. */
#define OWNER_SOCKET "pages_owner%u"

static bool format_owner_socket(char name[PATH_MAX], const struct av_seg *seg, uint32_t ref)
{
	char path[PATH_MAX];

	return av_dir_context_path(seg->ref, path, sizeof(path)) &&
	       snprintf(name, PATH_MAX, "%s/" OWNER_SOCKET, path, ref) < PATH_MAX;
}

/* The entry of @ref, or with @ref 0 a free one. NULL if there is none. */
static struct av_seg_pages_owner *find_pages_owner(struct av_seg *seg, uint32_t ref)
{
	for (int i = 0; i < AV_SEG_PAGES_OWNERS; i++)
		if (atomic_load_explicit(&seg->pages_owner[i].ref, memory_order_acquire) == ref)
			return &seg->pages_owner[i];
	return NULL;
}

/* What peers find of an entry of ours. */
static struct av_seg_foreign *shown(const struct av_seg *seg, const struct av_seg_pages_owner *h)
{
	return &seg->head->pages_owner[h - seg->pages_owner];
}

/* If peers cannot have the memory, they copy by system calls. */
static void hand_out(struct av_seg *seg, struct av_seg_pages_owner *h, uint32_t ref)
{
	struct av_seg_foreign *f = shown(seg, h);
	char socket[PATH_MAX];

	h->fd_pass = AV_FD_PASS_NONE;
	if (!av_own_fd_keep(&h->file, av_seg_memory(h->seg)))
		return;
	if (format_owner_socket(socket, seg, ref))
		av_fd_pass_begin(&h->fd_pass, socket, &h->file, NULL);
	f->number = h->file.fd;
	f->ino = h->file.ino;
	atomic_store(&f->ref, ref);
}

static void take_back(struct av_seg *seg, struct av_seg_pages_owner *h)
{
	char name[32];

	atomic_store(&shown(seg, h)->ref, 0);
	snprintf(name, sizeof(name), OWNER_SOCKET, atomic_load(&h->ref));
	av_fd_pass_end(&h->fd_pass);
	(void)!unlinkat(av_own_fd(&seg->folder), name, 0);
	av_own_fd_close(&h->file);
}

static int add_pages_owner(struct av_seg *seg, struct av_seg *pages_owner)
{
	struct av_seg_pages_owner *h = find_pages_owner(seg, 0);

	if (!h)
		return ENOMEM;
	h->seg = av_seg_get(pages_owner->ref);
	if (!h->seg)
		return ENOMEM;
	hand_out(seg, h, pages_owner->ref);
	h->base = (uint8_t *)h->seg->head;
	h->users = 1;
	atomic_store_explicit(&h->ref, pages_owner->ref, memory_order_release);
	return 0;
}

int av_pages_owner_hold(struct av_seg *seg, struct av_seg *pages_owner)
{
	AV_LOCKED(&seg->pages_owner_mutex);
	struct av_seg_pages_owner *h = find_pages_owner(seg, pages_owner->ref);

	if (!h)
		return add_pages_owner(seg, pages_owner);
	h->users++;
	return 0;
}

void av_pages_owner_drop(struct av_seg *seg, uint32_t ref)
{
	struct av_seg *unused = NULL;
	struct av_seg_pages_owner *h;

	pthread_mutex_lock(&seg->pages_owner_mutex);
	h = find_pages_owner(seg, ref);
	if (h && --h->users == 0) {
		take_back(seg, h);
		unused = h->seg;
		h->seg = NULL;
		h->base = NULL;
		atomic_store(&h->ref, 0);
	}
	pthread_mutex_unlock(&seg->pages_owner_mutex);
	av_seg_put(unused);
}

/* From here on of a peer. Return: NULL: it does not say where the memory is, or that is wrong */
static uint8_t *map_pages_owner(const struct av_seg *seg, uint32_t ref)
{
	struct av_fd_passed what = {.pid = seg->pid, .bytes = AV_SEG_BYTES};
	const struct av_seg_foreign *f = seg->head->pages_owner, *end = f + AV_SEG_PAGES_OWNERS;
	char socket[PATH_MAX];
	uint8_t *base;
	int fd AV_CLOSED = -1;

	while (f < end && atomic_load_explicit(&f->ref, memory_order_acquire) != ref)
		f++;
	if (f == end)
		return NULL;
	what.number = f->number;
	what.ino = f->ino;
	fd = av_fd_passed_open(&what, format_owner_socket(socket, seg, ref) ? socket : NULL);
	if (fd < 0)
		return NULL;
	base = av_map_sparse(fd, AV_SEG_BYTES, PROT_READ | PROT_WRITE);
	if (base)
		(void)!av_madvise(base, AV_SEG_BYTES, MADV_DONTDUMP);
	return base;
}

static uint8_t *find_or_map_pages_owner(struct av_seg *seg, uint32_t ref)
{
	AV_UNCANCELLED;
	struct av_seg_pages_owner *h;
	uint8_t *base = NULL;

	AV_LOCKED(&seg->pages_owner_mutex);
	h = find_pages_owner(seg, ref);
	if (h) {
		base = h->base;
	} else {
		h = find_pages_owner(seg, 0);
		base = h ? map_pages_owner(seg, ref) : NULL;
		if (base) {
			h->base = base;
			atomic_store_explicit(&h->ref, ref, memory_order_release);
		}
	}
	return base;
}

uint8_t *av_pages_owner_base(struct av_seg *seg, uint32_t ref)
{
	struct av_seg_pages_owner *h = ref ? find_pages_owner(seg, ref) : NULL;

	if (av_likely(h != NULL))
		return h->base;
	/* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): @seg was looked into by
	 * find_pages_owner() */
	return ref && !seg->own ? find_or_map_pages_owner(seg, ref) : NULL;
}

void av_pages_owner_forked(struct av_seg *seg)
{
	for (int i = 0; i < AV_SEG_PAGES_OWNERS; i++) {
		av_fd_pass_forked(&seg->pages_owner[i].fd_pass);
		av_own_fd_close(&seg->pages_owner[i].file);
	}
}

static void forget_pages_owners(struct av_seg *seg)
{
	for (int i = 0; i < AV_SEG_PAGES_OWNERS; i++) {
		struct av_seg_pages_owner *h = &seg->pages_owner[i];

		if (seg->own && h->seg)
			take_back(seg, h);
		else if (!seg->own && h->base)
			av_munmap(h->base, AV_SEG_BYTES);
	}
}

/* --- views of files: making one --------------------------------------------------- */

#define VIEWS  256u /* of one peer: more runs are reached by system calls */
#define PROBES 8u
#define MIB    (1ull << 20)
#define GIB    (1ull << 30)

/* Constant while @serial is not 0. Changed under the mutex; the first four are read without. */
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

struct av_file_views {
	pthread_mutex_t mutex; /* held to change any */
	atomic_bool due;       /* some have ended, and nobody has looked which */
	struct view view[VIEWS];
	struct place spare[VIEWS];
	unsigned int spares, places; /* how many there are; of these and of views together */
};

static struct view *view_slot_at(struct av_file_views *views, uint64_t serial, unsigned int n)
{
	return &views->view[(serial + n) % VIEWS];
}

static struct view *find_file_view(struct av_file_views *views, uint64_t serial)
{
	for (unsigned int n = 0; n < PROBES; n++) {
		struct view *v = view_slot_at(views, serial, n);

		if (atomic_load_explicit(&v->serial, memory_order_acquire) == serial)
			return v;
	}
	return NULL;
}

struct making {
	const struct av_seg *seg;
	const struct av_file_run *run;
	uint32_t extents, missing;
	const struct view *v;
	uint64_t done[AV_FILE_EXTENTS_MAX / 64];
};

/* The owner may change it at any time: what is returned lies within the view. */
static bool extent_at(const struct making *m, uint32_t i, struct av_file_extent *p)
{
	const volatile struct av_file_extent *said = &m->run->extent[i];

	*p = (struct av_file_extent){said->begin, said->end, said->dev, said->ino, said->offset};
	return p->begin >= m->v->begin && p->end > p->begin && p->end - m->v->begin <= m->v->bytes;
}

/* The next extent from @i on that is not mapped, of the file @st, or if that is NULL of any. */
static bool next_unmapped(const struct making *m, const struct stat *st, uint32_t *i,
			  struct av_file_extent *p)
{
	for (; *i < m->extents; (*i)++)
		if (!(m->done[*i / 64] >> *i % 64 & 1) && extent_at(m, *i, p) &&
		    (!st || (p->ino == st->st_ino && p->dev == st->st_dev)))
			return true;
	return false;
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
	for (uint32_t i = 0; next_unmapped(m, st, &i, &p); i++)
		if (av_mmap(m->v->base + (p.begin - m->v->begin), p.end - p.begin, PROT_NONE,
			    MAP_SHARED | MAP_NORESERVE | MAP_FIXED, fd,
			    (off_t)p.offset) != MAP_FAILED) {
			m->done[i / 64] |= 1ull << i % 64;
			m->missing--;
		}
}

static bool map_wanted_file(int dir, const char *name, const struct stat *st, void *arg)
{
	struct making *m = arg;
	struct av_file_extent p;
	uint32_t i = 0;
	int fd = next_unmapped(m, st, &i, &p)
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
	char socket[PATH_MAX];
	struct av_file_extent p;
	uint32_t missing = m->missing + 1;

	if (!av_seg_socket(m->seg, socket))
		return;
	for (uint32_t i = 0; m->missing < missing && next_unmapped(m, NULL, &i, &p); i++) {
		const struct av_fd_passed what = {.number = -1, .dev = p.dev, .ino = p.ino};
		const struct stat st = {.st_dev = p.dev, .st_ino = p.ino};
		int fd = av_fd_passed_open(&what, socket);

		missing = m->missing;
		fd = fd < 0 ? fd : reopened(fd);
		if (fd < 0)
			return;
		map_file_extents(m, fd, &st);
		syscall(SYS_close, fd);
	}
}

/* Map all extents into @base. Return: false: nothing is to be found there */
static bool map_all(const struct av_seg *seg, const struct av_file_run *run, const struct view *v)
{
	struct making m = {.seg = seg, .run = run, .v = v};

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

static struct place new_place(struct av_file_views *views, uint64_t bytes, uint64_t begin,
			      uint64_t align)
{
	struct place p = {NULL, bytes};

	if (views->places < VIEWS)
		p.at = av_map_place(bytes, begin, align);
	views->places += p.at != NULL;
	return p;
}

/* Return: @at NULL: there is none. The mutex is held; also below */
static struct place take_place(struct av_file_views *views, uint64_t bytes, uint64_t begin)
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
static void release_view_place(struct av_file_views *views, struct view *v)
{
	if (v->base &&
	    av_mmap(v->base, v->bytes, PROT_NONE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) != MAP_FAILED)
		views->spare[views->spares++] = (struct place){v->base, v->room};
	v->base = NULL;
}

/* @base: out; NULL: the files are not to be had, or there is no room */
static void make_file_view(struct av_file_views *views, struct av_seg *seg,
			   const struct av_file_run *run, struct view *v)
{
	struct place p = take_place(views, v->bytes, v->begin);

	v->base = p.at;
	v->room = p.room;
	if (v->base && !map_all(seg, run, v))
		release_view_place(views, v);
}

/* No thread is in it: a region ends when all copies have. */
static void clear_file_view(struct av_file_views *views, struct view *v)
{
	atomic_store(&v->serial, 0);
	release_view_place(views, v);
}

static void clear_ended(struct av_file_views *views, const struct av_seg *seg, struct view *v)
{
	struct av_file_run *run = av_seg_at(seg, v->run, sizeof(*run));
	uint64_t serial = atomic_load(&v->serial);

	if (serial && (!run || atomic_load(&run->serial) != serial))
		clear_file_view(views, v);
}

/* The mutex is held. NULL: there is no room */
static struct view *make_in(struct av_file_views *views, struct av_seg *seg,
			    struct av_file_run *run, uint64_t serial)
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
static void sweep_due(struct av_file_views *views, const struct av_seg *seg)
{
	while (atomic_load(&views->due) && !pthread_mutex_trylock(&views->mutex)) {
		atomic_store(&views->due, false);
		for (unsigned int i = 0; i < VIEWS; i++)
			clear_ended(views, seg, &views->view[i]);
		pthread_mutex_unlock(&views->mutex);
	}
}

void av_views_sweep(struct av_seg *seg)
{
	struct av_file_views *views = atomic_load(&seg->views);

	if (!views)
		return;
	atomic_store(&views->due, true);
	sweep_due(views, seg);
}

static void forget_file_views(struct av_file_views *views)
{
	for (unsigned int i = 0; i < VIEWS; i++)
		clear_file_view(views, &views->view[i]);
	for (unsigned int i = 0; i < views->spares; i++)
		av_munmap(views->spare[i].at, views->spare[i].room);
	pthread_mutex_destroy(&views->mutex);
	free(views);
}

void av_views_forget(struct av_seg *seg)
{
	struct av_file_views *views = atomic_exchange(&seg->views, NULL);

	if (views)
		forget_file_views(views);
	unmap_shared_heap(atomic_exchange(&seg->shared_heap, NULL));
	forget_pages_owners(seg);
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
	struct av_file_views *views = serial ? AV_MADE_ONCE(&seg->views, 1) : NULL;
	struct view *v = views ? find_file_view(views, serial) : NULL;

	if (!views)
		return NULL;
	if (av_unlikely(!v)) {
		AV_UNCANCELLED;
		AV_ERRNO_KEPT;

		pthread_mutex_lock(&views->mutex);
		v = find_file_view(views, serial);
		v = v ? v : make_in(views, seg, run, serial);
		pthread_mutex_unlock(&views->mutex);
		sweep_due(views, seg);
	}
	return v ? within(v, serial, addr, len) : NULL;
}
