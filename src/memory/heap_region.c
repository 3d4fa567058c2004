/* SPDX-License-Identifier: MIT */
#include "memory/region.h"

#include <sys/syscall.h>
#include <unistd.h>

#include "base/thread.h"
#include "memory/odp.h"

struct region {
	LIST_ENTRY(region) entry;
	struct av_seg *seg;
	uint32_t id;
};

/* While a thread holds a mutex, signals are blocked: a handler that forks needs it, too. */
static struct {
	pthread_mutex_t
		mutex; /* recursive: the heap unmaps in privatise_heap_for_fork(): forget_pages() */
	LIST_HEAD(, region) list;
	_Atomic uint32_t count;
} regions = {.mutex = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP};

/* Held over a fork(), and while the heap begins. */
static pthread_mutex_t beginning = PTHREAD_MUTEX_INITIALIZER;
static bool may_begin; /* it is loaded and wanted, and the fork handlers are in place */
static bool begun;     /* in this process, not in one that has forked it */

/* The contexts of this process. */
static struct {
	pthread_mutex_t mutex; /* held from quiesce_heap() to resume_accesses() */
	LIST_HEAD(, av_seg) list;
} own = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static uint64_t part_offset(uint32_t id)
{
	return (uint64_t)id << AV_HEAP_PART_SHIFT;
}

static struct av_heap_part *get_heap_part(const struct region *r)
{
	return av_seg_at(r->seg, part_offset(r->id), sizeof(struct av_heap_part));
}

/* --- moving pages ---------------------------------------------------------------- */

/* Without a heap no page moves, and a forked child would keep its parent's contexts. */
void av_mm_quiesce_add(struct av_seg *seg)
{
	if (!may_begin)
		return;
	AV_LOCKED(&own.mutex);
	LIST_INSERT_HEAD(&own.list, seg, movable);
}

void av_mm_quiesce_remove(struct av_seg *seg)
{
	if (!may_begin)
		return;
	AV_LOCKED(&own.mutex);
	LIST_REMOVE(seg, movable);
}

/*
 * Mappings of what may write to this process's memory or keep it pinned, without a processor.
 * AF_XDP maps a ring of a socket; the memory pinned beside it is not in VmPin.
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

/* Pinned: the fixed buffers of an io_uring, another adapter's regions. */
static bool nothing_held(const char *line)
{
	return is_zero(line, "VmPin:") && is_zero(line, "VmLck:");
}

/* Could the file be read, and is every line of it fine? */
static bool all_lines(const char *path, bool (*fine)(const char *line))
{
	int fd AV_CLOSED = av_proc_open(path);
	struct av_proc_text text = {.fd = fd};
	char line[256]; /* a name that is cut is none of those */
	bool ret = text.fd >= 0;

	while (ret && av_proc_line(&text, line, sizeof(line)))
		ret = fine(line);
	return ret && !text.failed;
}

bool av_mm_quiesce_allowed(void)
{
	return all_lines("/proc/self/status", nothing_held) &&
	       all_lines("/proc/self/maps", no_foreign_writer);
}

static void set_pages_moving(uint32_t moving)
{
	struct av_seg *seg;

	LIST_FOREACH(seg, &own.list, movable)
		atomic_store(&seg->head->moving, moving);
}

/*
 * May a user of this pinned key access the heap? Reads the entry without a lock: a user that did
 * not find the key accesses nothing. What is behind a UMR key is pinned by keys of its own.
 */
AV_RACY static bool reaches_heap(struct av_seg *seg, uint32_t key, const void *heap)
{
	uint64_t begin = ((const struct av_shared_heap *)heap)->begin;
	const struct av_key *k = av_key_entry(seg, key);
	uint8_t kind = !k ? AV_KEY_NONE : k->kind == AV_KEY_WINDOW ? k->under : k->kind;

	return (av_kind_of(kind)->is & AV_KIND_PROGRAM) && k->addr < begin + AV_SHARED_HEAP_BYTES &&
	       begin < k->addr + k->length && !av_deferred_has_key(seg, key);
}

/* Let accesses go on: they are what they were, or reach the pages that are there now. */
static void resume_accesses(void)
{
	set_pages_moving(0);
	pthread_mutex_unlock(&own.mutex);
}

/*
 * Quiesce the heap: from now on, nobody accesses it behind any key of any own context. New
 * accesses, to all memory of the process, get AV_CHECK_BUSY and retry. All contexts count, since
 * regions may overlap. One mover at a time; others wait. Waits for the process's own copies from
 * and to the heap, and AV_PEER_TIMEOUT_NS at most for those of peers, for who is stopped
 * AV_STOPPED_NS: a peer that waits for a core must not cost a child the bytes of its moment.
 * Each access sets a pin, a full barrier, before it reads the segment's flag. The mover sets the
 * flag, then reads the pins. One of them sees the other.
 * Return: false: not begun, since a peer seems to be stopped; else resume_accesses() follows
 */
static bool quiesce_heap(const struct av_shared_heap *heap)
{
	uint64_t until = 0;
	struct av_seg *seg;
	bool ret = true;

	pthread_mutex_lock(&own.mutex);
	set_pages_moving(1);
	LIST_FOREACH(seg, &own.list, movable)
		ret = ret && av_pin_drain_chosen(seg, reaches_heap, heap, &until);
	if (!ret)
		resume_accesses();
	return ret;
}

/* --- fork ------------------------------------------------------------------------ */

/* No unmapping that anybody is to hear of, and no invalidation of regions on demand. */
static void retrack_heap_pages(uint64_t addr, uint64_t bytes, bool begins)
{
	if (begins)
		av_odp_untrack(addr, bytes);
	else
		av_odp_retrack(addr, bytes);
}

/*
 * All of it becomes private, and is reached in its process from here on, unless something else
 * writes to its pages, or a peer is stopped in a copy. Nobody adds a region meanwhile.
 */
static void privatise_heap_for_fork(void)
{
	const struct av_shared_heap *heap = av_shared_heap_own();
	struct region *r;
	bool stay;

	if (!heap)
		return;
	stay = !av_mm_quiesce_allowed() || !quiesce_heap(heap);
	pthread_mutex_lock(&regions.mutex);
	if (!stay)
		LIST_FOREACH(r, &regions.list, entry)
			atomic_store(&get_heap_part(r)->at, 0);
	heap->before_fork(retrack_heap_pages, stay);
	pthread_mutex_unlock(&regions.mutex);
	if (!stay)
		resume_accesses();
}

static void resume_heap_in_parent(void)
{
	const struct av_shared_heap *heap = av_shared_heap_own();

	if (heap)
		heap->after_fork_in_parent();
}

/* The regions are the parent's, and the contexts. */
static void reset_heap_regions_in_child(void)
{
	const struct av_shared_heap *heap = av_shared_heap_own();

	pthread_mutex_init(&own.mutex, NULL);
	LIST_INIT(&own.list);
	regions.mutex = (pthread_mutex_t)PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
	LIST_INIT(&regions.list);
	atomic_store(&regions.count, 0);
	begun = false;
	if (heap)
		heap->after_fork_in_child();
}

/* As base/thread.c does: of the child's memory, nothing but the heap is looked after. */
static void begin_bare_fork(void)
{
	AV_UNCANCELLED;

	pthread_mutex_lock(&beginning);
	privatise_heap_for_fork();
}

static void end_bare_fork(bool in_child)
{
	AV_UNCANCELLED;

	if (in_child) {
		pthread_mutex_init(&beginning, NULL);
		reset_heap_regions_in_child();
	} else {
		resume_heap_in_parent();
		pthread_mutex_unlock(&beginning);
	}
}

/* --- what was allocated before it began ------------------------------------------ */

#define RANGES 256u
#define LARGE  (64u << 10) /* a block that has pages of its own from then on */

static struct {
	struct {
		_Atomic uint64_t begin, bytes;
	} range[RANGES];
	_Atomic uint32_t count;
} early;

/* Without a name, so neither a file, nor the stack, nor the memory of brk(2). */
static bool is_large_private(const char *line, uint64_t *begin, uint64_t *end)
{
	char *rest;

	*begin = strtoull(line, &rest, 16);
	*end = *rest == '-' ? strtoull(rest + 1, &rest, 16) : 0;
	return *end > *begin && *end - *begin >= LARGE && rest[0] == ' ' && rest[1] &&
	       rest[2] == 'w' && rest[3] && rest[4] == 'p' &&
	       strcmp(rest + 5, " 00000000 00:00 0 ") == 0;
}

/* Note the large private mappings of this process. */
static void note_early(void)
{
	AV_UNCANCELLED;
	int fd AV_CLOSED = av_vma_open_own();
	struct av_proc_text maps = {.fd = fd};
	uint64_t begin, end;
	uint32_t n = 0;
	char line[128];

	while (maps.fd >= 0 && n < RANGES && av_proc_line(&maps, line, sizeof(line))) {
		if (!is_large_private(line, &begin, &end))
			continue;
		atomic_store(&early.range[n].begin, begin);
		atomic_store(&early.range[n++].bytes, end - begin);
	}
	atomic_store(&early.count, n);
}

/* Is the range in one of them? What has taken its place since counts, too. No lock. */
static bool early_has(uint64_t addr, uint64_t bytes)
{
	for (uint32_t i = 0, n = atomic_load(&early.count); i < n; i++)
		if (av_range_within(addr, bytes, atomic_load(&early.range[i].begin),
				    atomic_load(&early.range[i].bytes)))
			return true;
	return false;
}

/* --- the beginning --------------------------------------------------------------- */

/* Peers have no pages of a region any more, and find out what is there by system calls. */
static void forget_pages(uint64_t addr, uint64_t bytes)
{
	AV_ERRNO_KEPT;
	struct region *r;

	if (atomic_load(&regions.count) == 0)
		return;
	AV_SIGNALS_BLOCKED;
	AV_LOCKED(&regions.mutex);
	LIST_FOREACH(r, &regions.list, entry) {
		struct av_heap_part *part = get_heap_part(r);

		if (part->addr < addr + bytes && addr < part->addr + part->bytes)
			atomic_store(&part->at, 0);
	}
}

static const struct av_shared_heap *start_shared_heap(void)
{
	static const struct av_shared_heap_user user = {
		.leaving = forget_pages, .forking = begin_bare_fork, .forked = end_bare_fork};
	const struct av_shared_heap *heap = av_shared_heap_begin(&user);

	begun = true;
	if (heap)
		av_heap_part_begin(heap);
	return heap;
}

void av_heap_begin(void)
{
	if (!may_begin)
		return;
	AV_SIGNALS_BLOCKED;
	AV_LOCKED(&beginning);
	if (!begun && start_shared_heap())
		note_early();
}

/* The handlers beforehand: another thread may fork while this one opens a device. */
__attribute__((constructor)) static void init_heap_regions(void)
{
	static const struct av_fork_handlers handlers = {.mutex = &beginning,
							 .prepare = privatise_heap_for_fork,
							 .parent = resume_heap_in_parent,
							 .child = reset_heap_regions_in_child};
	static struct av_setting never = {.variable = "ANYVERBS_SHARED_HEAP", .value = "never"};
	static struct av_setting always = {.variable = "ANYVERBS_SHARED_HEAP", .value = "always"};
	/* Guarded memory must not reach children, but pages that become private at a fork() do. */
	static struct av_setting dontfork = {.variable = "ANYVERBS_FORK", .value = "dontfork"};

	may_begin = anyverbs_shared_heap && !av_setting_is(&never) && !av_setting_is(&dontfork) &&
		    !av_fork_register(AV_FORK_SHARED_HEAP, &handlers);
	if (may_begin && av_setting_is(&always))
		(void)start_shared_heap();
}

/* --- regions --------------------------------------------------------------------- */

/* Are these pages still the heap's, in place? The program or a fork() may have put others there. */
static bool in_place(uint64_t first, uint64_t end)
{
	const struct av_shared_heap *heap = av_shared_heap_own();
	int maps AV_CLOSED = av_vma_open_own();
	struct av_vma vma;
	bool ret = maps >= 0;

	for (uint64_t at = first; ret && at < end; at = vma.end)
		ret = av_vma_next(maps, at, &vma) && vma.begin <= at && vma.shared &&
		      av_vma_is_of(&vma, &heap->file) && vma.offset == vma.begin - heap->begin;
	return ret;
}

static bool publish_heap_region(struct region *r, uint64_t first, uint64_t end)
{
	uint64_t window = av_shared_heap_own()->begin;
	struct av_heap_part *part = get_heap_part(r);
	bool ret;

	part->addr = first;
	part->bytes = end - first;
	AV_SIGNALS_BLOCKED;
	AV_LOCKED(&regions.mutex);
	ret = in_place(first, end);
	atomic_store(&part->at, ret ? AV_HEAP_PART_BASE + (first - window) : 0);
	if (ret) {
		LIST_INSERT_HEAD(&regions.list, r, entry);
		atomic_fetch_add(&regions.count, 1);
	}
	return ret;
}

/* Return: the region's id; 0: it is not on the heap, or memory is short */
static uint32_t create_heap_region(struct av_seg *seg, uint64_t addr, uint64_t length)
{
	const struct av_shared_heap *heap = av_shared_heap_own();
	uint64_t first = addr & ~(uint64_t)(AV_HEAP_PART_ALIGN - 1), offset;
	uint64_t end = av_round_up(addr + length, AV_HEAP_PART_ALIGN);
	struct region *r;

	if (!heap || length == 0 ||
	    !av_range_within(addr, length, heap->begin, AV_SHARED_HEAP_BYTES))
		return 0;
	r = calloc(1, sizeof(*r));
	offset = r ? av_seg_alloc(seg, sizeof(struct av_heap_part)) : 0;
	if (offset) {
		r->seg = seg;
		r->id = (uint32_t)(offset >> AV_HEAP_PART_SHIFT);
		if (publish_heap_region(r, first, end))
			return r->id;
		av_seg_free(seg, offset, sizeof(struct av_heap_part));
	}
	free(r);
	return 0;
}

void av_heap_region(struct av_seg *seg, struct av_key *what)
{
	what->heap = create_heap_region(seg, what->addr, what->length);
	if (!what->heap && early_has(what->addr, what->length))
		what->share |= AV_KEY_EARLY;
}

/* --- private again --------------------------------------------------------------- */

/* Blocks become private whole, and regions with them. The mutex is held. */
static void privatise_heap_blocks(uint64_t addr, uint64_t bytes, bool keep)
{
	struct region *r;

	av_shared_heap_own()->leave(addr, bytes, retrack_heap_pages, keep);
	LIST_FOREACH(r, &regions.list, entry) {
		struct av_heap_part *part = get_heap_part(r);

		if (!in_place(part->addr, part->addr + part->bytes))
			atomic_store(&part->at, 0);
	}
}

/* Return: false: nothing has changed: the pages may not move, or a peer seems to be stopped */
static bool privatise_heap_range(uint64_t addr, uint64_t bytes, bool keep)
{
	if (!av_mm_quiesce_allowed())
		return false;
	AV_SIGNALS_BLOCKED;
	if (!quiesce_heap(av_shared_heap_own()))
		return false;
	pthread_mutex_lock(&regions.mutex);
	privatise_heap_blocks(addr, bytes, keep);
	pthread_mutex_unlock(&regions.mutex);
	resume_accesses();
	return true;
}

void av_heap_leave(uint64_t addr, uint64_t bytes)
{
	AV_UNCANCELLED;
	AV_ERRNO_KEPT;

	if (av_heap_is_near(addr, bytes))
		(void)privatise_heap_range(addr, bytes, false);
}

static int protect(uint64_t addr, uint64_t bytes, int prot, int key)
{
	return (int)(key == -1 ? syscall(SYS_mprotect, addr, bytes, prot)
			       : syscall(SYS_pkey_mprotect, addr, bytes, prot, key));
}

int av_heap_protect(uint64_t addr, uint64_t bytes, int prot, int key)
{
	if (!av_heap_is_near(addr, bytes))
		return protect(addr, bytes, prot, key);
	if ((prot & PROT_EXEC) || key != -1)
		av_heap_leave(addr, bytes);
	AV_SIGNALS_BLOCKED;
	AV_LOCKED(&regions.mutex);
	return protect(addr, bytes, prot, key);
}

/* --- the end --------------------------------------------------------------------- */

static struct region *unlink_heap_region(const struct av_seg *seg, uint32_t id)
{
	AV_SIGNALS_BLOCKED;
	AV_LOCKED(&regions.mutex);
	struct region *r;

	LIST_FOREACH(r, &regions.list, entry)
		if (r->seg == seg && (r->id == id || !id))
			break;
	if (r) {
		LIST_REMOVE(r, entry);
		atomic_fetch_sub(&regions.count, 1);
	}
	return r;
}

/* Nobody is to store to the program's pages any more: a peer is stopped in the middle of a copy. Of
 * a READ it finishes with the bytes of the region. */
static void take_pages_back(struct region *r)
{
	const struct av_heap_part *part = get_heap_part(r);

	if (!av_deferred_leads_to(r->seg, part_offset(r->id)) || !atomic_load(&part->at))
		return;
	if (!privatise_heap_range(part->addr, part->bytes, true))
		av_deferred_wait(r->seg, part_offset(r->id));
}

void av_heap_region_end(struct av_seg *seg, uint32_t id)
{
	AV_ERRNO_KEPT;
	struct region *r;

	if (av_file_region_is(seg, id))
		av_file_region_end(seg, id);
	r = id ? unlink_heap_region(seg, id) : NULL;
	if (!r)
		return;
	take_pages_back(r);
	av_deferred_free(seg, part_offset(id), sizeof(struct av_heap_part));
	free(r);
}

void av_heap_region_close(struct av_seg *seg)
{
	struct region *r;

	av_file_region_close(seg);
	while ((r = unlink_heap_region(seg, 0))) {
		av_seg_free(seg, part_offset(r->id), sizeof(struct av_heap_part));
		free(r);
	}
}
