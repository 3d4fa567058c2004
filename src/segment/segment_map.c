/* SPDX-License-Identifier: MIT */
/* Mapping files; what is in a segment; segments and tables that are only read. */
#include "segment/pages.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/real_calls.h"
#include "observe/check.h"

#define HEAP_COLOUR_BITS 8 /* of the number of pages that heap_begin() skips */

static void *map_segment_range(void *wanted, uint64_t bytes, int prot, int flags, int fd,
			       uint64_t offset)
{
	void *p = mmap(wanted, bytes, prot, flags | (wanted ? MAP_FIXED_NOREPLACE : 0), fd,
		       (off_t)offset);

	return p == MAP_FAILED ? NULL : p;
}

static void *reserve_segment_range(uint64_t bytes)
{
	return mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

/* Kernels from 6.7 on align it to a huge page unasked. */
void *av_map_place(uint64_t bytes, uint64_t offset, uint64_t align)
{
	uint8_t *p = reserve_segment_range(bytes);
	uint64_t before;

	if (p == MAP_FAILED)
		return NULL;
	if (((offset - (uintptr_t)p) & (align - 1)) == 0)
		return p;
	av_munmap(p, bytes);
	p = reserve_segment_range(bytes + align);
	if (p == MAP_FAILED)
		return NULL;
	before = (offset - (uintptr_t)p) & (align - 1);
	if (before)
		av_munmap(p, before);
	av_munmap(p + before + bytes, align - before);
	return p + before;
}

void *av_map_file(void *wanted, uint64_t bytes, int prot, int fd, uint64_t offset)
{
	const int flags = MAP_SHARED | MAP_NORESERVE;
	void *p, *place;

	if (wanted || bytes < AV_HUGE_PAGE_BYTES)
		return map_segment_range(wanted, bytes, prot, flags, fd, offset);
	bytes = av_round_up(bytes, AV_PAGE_BYTES);
	place = av_map_place(bytes, offset, AV_HUGE_PAGE_BYTES);
	if (!place)
		return map_segment_range(NULL, bytes, prot, flags, fd, offset);
	p = av_mmap(place, bytes, prot, flags | MAP_FIXED, fd, (off_t)offset);
	if (p != MAP_FAILED)
		return p;
	av_munmap(place, bytes);
	return NULL;
}

/* Give rights to a mapping of PROT_NONE whose holes stay holes. Return: NULL: it is unmapped */
static void *unlock_sparse(void *p, uint64_t bytes, int prot)
{
	(void)syscall(SYS_munlock, p, bytes);
	if (av_mprotect(p, bytes, prot) == 0)
		return p;
	av_munmap(p, bytes);
	return NULL;
}

void *av_map_sparse(int fd, uint64_t bytes, int prot)
{
	void *p = av_map_file(NULL, bytes, PROT_NONE, fd, 0);

	return p ? unlock_sparse(p, bytes, prot) : NULL;
}

void *av_map_private(void *wanted, uint64_t bytes, bool huge)
{
	const int from_pool = MAP_HUGETLB | (int)AV_HUGE_LOG2 << MAP_HUGE_SHIFT;

	return map_segment_range(wanted, bytes, PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS | (huge ? from_pool : 0), -1, 0);
}

static struct av_seg_head *map_segment(int file, int tables, int prot)
{
	uint8_t *p = av_map_file(NULL, AV_SEG_BYTES, PROT_NONE, file, 0);

	if (!p)
		return NULL;
	if (av_mmap(p + AV_TABLES_OFFSET, AV_TABLES_BYTES, PROT_NONE,
		    MAP_SHARED | MAP_NORESERVE | MAP_FIXED, tables, 0) == MAP_FAILED) {
		av_munmap(p, AV_SEG_BYTES);
		return NULL;
	}
	p = unlock_sparse(p, AV_SEG_BYTES, prot);
	if (p) /* whoever dumps it fills the holes */
		(void)!av_madvise(p, AV_SEG_BYTES, MADV_DONTDUMP);
	return (struct av_seg_head *)p;
}

/* --- the program's shared heap ---------------------------------------------------- */

static _Atomic(const struct av_shared_heap *) own;

const struct av_shared_heap *av_shared_heap_begin(const struct av_shared_heap_user *user)
{
	const struct av_shared_heap *heap =
		anyverbs_shared_heap ? anyverbs_shared_heap(user) : NULL;

	atomic_store_explicit(&own, heap, memory_order_release);
	return heap;
}

const struct av_shared_heap *av_shared_heap_own(void)
{
	return atomic_load_explicit(&own, memory_order_acquire);
}

/* --- own segments ---------------------------------------------------------------- */

#define TABLES "tables"

static int make_tables(int folder, struct av_own_fd *tables)
{
	const int flags = O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC;
	int ret;

	if (!av_own_fd_keep(tables, openat(folder, TABLES, flags, 0600)))
		return -errno;
	av_folder_rights(folder, TABLES, 0600);
	if (av_file_may_have(tables->fd, AV_TABLES_BYTES))
		return -EFBIG;
	if (ftruncate(tables->fd, (off_t)AV_TABLES_BYTES))
		return -errno;
	ret = av_file_back(tables->fd, 0, offsetof(struct av_tables, qp));
	if (ret == -ENOSPC)
		av_folder_full(tables->fd, offsetof(struct av_tables, qp), ENOSPC);
	return ret;
}

static int make_memory(struct av_seg *seg)
{
	char name[48]; /* for who reads /proc/PID/maps */
	int ret;

	snprintf(name, sizeof(name), "anyverbs-" AV_CONTEXT_NAME, AV_CONTEXT_NAME_OF(seg->ref));
	ret = av_anonymous(&seg->file, name, AV_SEG_BYTES);
	if (ret == 0)
		ret = av_file_back(seg->file.fd, 0, sizeof(struct av_seg_head));
	if (ret == 0)
		ret = make_tables(seg->folder.fd, &seg->tables);
	if (ret)
		return ret;
	seg->head = map_segment(seg->file.fd, seg->tables.fd, PROT_READ | PROT_WRITE);
	return seg->head ? 0 : -errno;
}

/*
 * All segments are mapped at one address modulo a huge page, and peers hold like objects in the
 * same order: what one request touches in both would evict each other from TLBs indexed by low
 * address bits. So each heap skips some pages, never backed, by a hash of its context.
 */
static uint64_t heap_begin(uint32_t ref)
{
	uint32_t pages = (AV_REF_SLOT(ref) * 0x9e3779b1u) >> (32 - HEAP_COLOUR_BITS);

	return sizeof(struct av_seg_head) + (uint64_t)pages * AV_PAGE_BYTES;
}

static void fill_segment_head(struct av_seg *seg, const struct av_seg_device *dev, uint32_t origin)
{
	const struct av_shared_heap *heap = av_shared_heap_own();
	struct av_seg_head *h = seg->head;

	h->ref = seg->ref;
	h->proc = seg->proc;
	h->pid = seg->pid;
	h->pidns = seg->pidns;
	h->origin = origin;
	snprintf(h->process, sizeof(h->process), "%s", program_invocation_short_name);
	snprintf(h->device, sizeof(h->device), "%s", dev->name);
	h->link_layer = dev->link_layer;
	h->lid = dev->lid;
	h->shared_heap_fd = heap ? heap->file.fd : -1;
	h->shared_heap_inode = heap ? heap->file.ino : 0;
	h->shared_heap_dev = heap ? heap->file.dev : 0;
	av_tables_of(h)->magic = AV_TABLES_MAGIC;
	h->magic = AV_SEG_MAGIC;
}

int av_seg_make(struct av_seg *seg, const struct av_seg_device *dev, uint32_t origin)
{
	int ret = make_memory(seg);

	/* Of a full folder more has been noted; a lack of descriptors needs no note. */
	if (ret && ret != -ENOSPC && ret != -EMFILE && ret != -ENFILE)
		(void)av_refuse(-ret, AV_CHECK_CONTEXT_MEMORY, AV_SEG_BYTES >> 30, 0);
	if (ret)
		return ret;
	fill_segment_head(seg, dev, origin);
	return av_heap_create(seg, heap_begin(seg->ref), AV_HEAP_END, origin ? AV_IMPORT_KEYS : 1)
		       ? 0
		       : -ENOMEM;
}

/* --- mapping a peer's ------------------------------------------------------------- */

static bool format_segment_socket(char name[PATH_MAX], const char *path)
{
	return snprintf(name, PATH_MAX, "%s/segment", path) < PATH_MAX;
}

bool av_seg_socket(const struct av_seg *seg, char name[PATH_MAX])
{
	char path[PATH_MAX];

	return av_dir_context_path(seg->ref, path, sizeof(path)) &&
	       format_segment_socket(name, path);
}

/* Return: a descriptor for the caller, or -errno */
static int open_memory(const struct av_dir_memory *memory, const char *socket)
{
	const struct av_fd_passed what = {.pid = memory->pid,
					  .number = memory->number,
					  .ino = memory->ino,
					  .bytes = AV_SEG_BYTES};

	return av_fd_passed_open(&what, socket);
}

int av_seg_memory(const struct av_seg *seg)
{
	struct av_dir_memory memory = av_dir_context_memory(av_dir, seg->ref);
	char socket[PATH_MAX];
	int fd;

	if (!seg->own)
		return open_memory(&memory, av_seg_socket(seg, socket) ? socket : NULL);
	fd = fcntl(av_own_fd(&seg->file), F_DUPFD_CLOEXEC, 0);
	return fd < 0 ? -errno : fd;
}

/* A context's tables, dead or not. @dir: of av_dir_context_open(). Return: own descriptor, or -1 */
static int open_tables(int dir, uint32_t ref, int prot)
{
	int mode = prot & PROT_WRITE ? O_RDWR : O_RDONLY, fd;
	struct stat st;

	fd = av_dir_context_open(dir, ref, TABLES, mode | O_NONBLOCK);
	if (fd < 0 ||
	    (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size == (off_t)AV_TABLES_BYTES))
		return fd;
	close(fd);
	return -1;
}

/*
 * Map the segment of another process. @memory: its row in the directory, whose folder is @dir;
 * @socket: or NULL. Waits AV_PEER_TIMEOUT_NS at most. Return: NULL: impossible, or unfinished
 */
static struct av_seg_head *map_peers_segment(uint32_t ref, const struct av_dir_memory *memory,
					     int dir, const char *socket, int prot)
{
	int tables AV_CLOSED = open_tables(dir, ref, prot);
	int file AV_CLOSED = tables < 0 ? -1 : open_memory(memory, socket);
	struct av_seg_head *head = file < 0 ? NULL : map_segment(file, tables, prot);

	if (!head || (head->magic == AV_SEG_MAGIC && head->ref == ref))
		return head;
	av_munmap(head, AV_SEG_BYTES);
	return NULL;
}

/* Found by the name in the peer's segment. */
static struct av_odp_counters *peer_counters(const struct av_seg *seg)
{
	char name[sizeof(seg->head->device)];

	snprintf(name, sizeof(name), "%.*s", (int)sizeof(name) - 1, seg->head->device);
	return (struct av_odp_counters *)av_dir_counters(name);
}

/*
 * Is the PID in the head that of the segment's owner? Through it the memory of that process is
 * reached: nobody may lead us into another one, nor into ourselves.
 */
static bool peer_is_owner(const struct av_seg *seg)
{
	return seg->pid > 0 && seg->pid == av_dir_proc_pid(seg->proc) &&
	       (!seg->same_pidns || seg->proc == av_lock_self || seg->pid != getpid());
}

void av_peer_process_open(struct av_own_fd *process, pid_t pid)
{
	/* Close-on-exec of itself. */
	if (!av_own_fd_keep(process, (int)syscall(SYS_pidfd_open, pid, 0)))
		*process = AV_OWN_FD_NONE;
}

bool av_seg_map_peer(struct av_seg *seg)
{
	struct av_dir_memory memory = av_dir_context_memory(av_dir, seg->ref);
	char socket[PATH_MAX];

	seg->head = map_peers_segment(seg->ref, &memory, av_dir_folder(),
				      av_seg_socket(seg, socket) ? socket : NULL,
				      PROT_READ | PROT_WRITE);
	if (!seg->head)
		return false;
	seg->pid = seg->head->pid;
	seg->odp = peer_counters(seg);
	seg->same_pidns = seg->pidns && seg->head->pidns == seg->pidns;
	if (!peer_is_owner(seg))
		return false;
	if (!seg->same_pidns) /* its owner is asked: now, since that may wait */
		(void)av_seg_map_shared_heap(seg);
	if (!seg->same_pidns || seg->proc == av_lock_self)
		return true;
	av_peer_process_open(&seg->process, seg->pid);
	return av_seg_alive(seg); /* so that was its process */
}

/* --- segments that are only read -------------------------------------------------- */

static struct av_seg_head *map_viewed_segment(uint32_t ref, const struct av_dir_memory *memory)
{
	char path[PATH_MAX], socket[PATH_MAX];
	int dir AV_CLOSED = av_folder_find(path, sizeof(path));
	size_t n;

	if (dir < 0)
		return NULL;
	n = strlen(path);
	snprintf(path + n, sizeof(path) - n, "/" AV_CONTEXT_NAME, AV_CONTEXT_NAME_OF(ref));
	return map_peers_segment(ref, memory, dir,
				 format_segment_socket(socket, path) ? socket : NULL, PROT_READ);
}

void av_seg_view_each(const char *device, void (*visit)(const struct av_seg *seg, void *arg),
		      void *arg)
{
	struct av_dir_memory memory;
	uint32_t slot = 0, ref;

	while ((ref = av_dir_next_context(device, &slot, &memory))) {
		struct av_seg *seg = calloc(1, sizeof(*seg));

		if (seg && memory.ino)
			seg->head = map_viewed_segment(ref, &memory);
		if (seg && seg->head) {
			visit(seg, arg);
			av_munmap(seg->head, AV_SEG_BYTES);
		}
		free(seg);
	}
}

/* --- totals ---------------------------------------------------------------------- */

static void add_qps(const uint8_t (*qp)[AV_QP_BYTES], struct av_totals *sum)
{
	for (uint32_t i = 0; i < AV_OBJ_CHUNK; i++)
		av_count_add(sum->qp, qp[i] + AV_QP_COUNTERS_AT, AV_QP_COUNTERS);
}

static void add_cqs(const uint8_t (*cq)[AV_CQ_BYTES], struct av_totals *sum)
{
	for (uint32_t i = 0; i < AV_OBJ_CHUNK; i++)
		for (size_t producer = 0; producer < 2; producer++)
			av_count_add(sum->cq, cq[i] + AV_CQ_COUNTERS_AT + producer * AV_CACHE_LINE,
				     AV_CQ_COUNTERS);
}

void av_totals_add(const struct av_seg *seg, struct av_totals *sum)
{
	const struct av_tables *t = av_tables_of(seg->head);

	for (uint32_t i = 0; i < av_dir_rows(&t->qp_chunks, AV_SLAB_CHUNKS); i++)
		add_qps(t->qp[i], sum);
	for (uint32_t i = 0; i < av_dir_rows(&t->cq_chunks, AV_SLAB_CHUNKS); i++)
		add_cqs(t->cq[i], sum);
}

static bool read_at(int fd, void *to, size_t bytes, size_t at)
{
	return pread(fd, to, bytes, (off_t)at) == (ssize_t)bytes;
}

/* av_totals_add() of a file: touching a hole of the tables in a mapping would take a page. */
static void add_file(int fd, struct av_totals *sum)
{
	union {
		struct {
			uint64_t magic;
			_Atomic uint32_t qp_chunks, cq_chunks;
		} head;
		uint8_t qp[AV_OBJ_CHUNK][AV_QP_BYTES], cq[AV_OBJ_CHUNK][AV_CQ_BYTES];
	} *t = malloc(sizeof(*t));
	uint32_t qps, cqs;

	if (!t || !read_at(fd, &t->head, sizeof(t->head), 0) || t->head.magic != AV_TABLES_MAGIC) {
		free(t);
		return;
	}
	qps = av_dir_rows(&t->head.qp_chunks, AV_SLAB_CHUNKS);
	cqs = av_dir_rows(&t->head.cq_chunks, AV_SLAB_CHUNKS);
	for (uint32_t i = 0; i < qps; i++)
		if (read_at(fd, t->qp, sizeof(t->qp), offsetof(struct av_tables, qp[i])))
			add_qps((const uint8_t(*)[AV_QP_BYTES])t->qp, sum);
	for (uint32_t i = 0; i < cqs; i++)
		if (read_at(fd, t->cq, sizeof(t->cq), offsetof(struct av_tables, cq[i])))
			add_cqs((const uint8_t(*)[AV_CQ_BYTES])t->cq, sum);
	free(t);
}

void av_totals_of_context(int folder, uint32_t ref, struct av_totals *sum)
{
	int tables AV_CLOSED = open_tables(folder, ref, PROT_READ);

	if (tables >= 0)
		add_file(tables, sum);
}

#define TRIES 1000

/* Read everything once. Return: false if a context ended meanwhile. */
static bool collect_device_totals(const struct av_dir_file *d, int folder, uint32_t place,
				  struct av_totals *sum)
{
	const struct av_dir_device *device = &d->device[place - 1];
	uint32_t done = atomic_load(&d->fold.done), folding = atomic_load(&d->fold.ref);

	memset(sum, 0, sizeof(*sum));
	av_count_add((uint64_t *)sum,
		     folding && d->fold.device == place ? &d->fold.after : &device->ended,
		     sizeof(*sum) / sizeof(uint64_t));
	for (uint32_t slot = 0; slot < av_dir_rows(&d->context_end, AV_REF_SLOTS); slot++) {
		uint32_t ref = atomic_load(&d->context[slot].ref);

		/* Contexts of dead processes as well: their counts are not in the totals yet. */
		if (ref && ref != folding && d->context[slot].device == place)
			av_totals_of_context(folder, ref, sum);
	}
	return atomic_load(&d->fold.done) == done && atomic_load(&d->fold.ref) == folding;
}

void av_totals_read(const char *device, struct av_totals *sum, uint64_t *link_downed)
{
	struct av_dir_view view;
	char path[PATH_MAX];
	uint32_t place;
	int folder AV_CLOSED = -1;

	memset(sum, 0, sizeof(*sum));
	*link_downed = 0;
	if (!av_dir_view(&view))
		return;
	folder = av_folder_find(path, sizeof(path));
	place = av_dir_find_device(view.dir, device);
	for (int i = 0; place && i < TRIES; i++)
		if (collect_device_totals(view.dir, folder, place, sum))
			break;
	if (place)
		*link_downed = atomic_load(&view.dir->device[place - 1].link_downed);
	av_dir_view_end(&view);
}
