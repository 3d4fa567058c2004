/* SPDX-License-Identifier: MIT */
/* Creates an own segment, and keeps the table of all mapped ones. */
#include "segment/segment.h"

#include <linux/futex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/real_calls.h"
#include "base/table.h"
#include "base/thread.h"
#include "segment/pages.h"

#define IDLE_MAX 64 /* peers' segments kept mapped without a user */

/*
 * All mapped segments, by context slot; replaced when the slot has a new generation. Peers'
 * segments stay when their last user is gone, up to IDLE_MAX of them: often the next datagram needs
 * them again. Those of the dead go when another one is mapped. Guarded by @mutex.
 */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct av_seg *mapped[AV_REF_SLOTS];
static unsigned int idle;

static _Atomic uint64_t pidns; /* 0: not asked for yet */

/* The parent's own segments are found again as peers' segments if needed. */
static void reset_segments_in_child(void)
{
	pthread_mutex_init(&mutex, NULL);
	for (uint32_t slot = 0; slot < AV_REF_SLOTS; slot++)
		if (mapped[slot] && mapped[slot]->own) {
			av_fd_pass_forked(&mapped[slot]->fd_pass);
			av_pages_owner_forked(mapped[slot]);
		}
	memset(mapped, 0, sizeof(mapped));
	idle = 0;
	atomic_store(&pidns, 0);
}

static const struct av_fork_handlers fork_handlers = {.child = reset_segments_in_child};

/* A process stays where it was made. */
static uint64_t my_pidns(void)
{
	uint64_t known = atomic_load_explicit(&pidns, memory_order_relaxed);
	struct stat st;

	if (known == 0 && stat("/proc/self/ns/pid", &st) == 0) {
		known = st.st_ino;
		atomic_store_explicit(&pidns, known, memory_order_relaxed);
	}
	return known;
}

/*
 * Most of it is the table of chunks, of which few segments need more than the first page: so its
 * pages come as they are touched. A leak checker looks for pointers in malloc()'s memory only.
 */
#if defined(__SANITIZE_ADDRESS__)
#define seg_alloc() calloc(1, sizeof(struct av_seg))
#define seg_free    free
#else
static struct av_seg *seg_alloc(void)
{
	void *p = av_mmap(NULL, sizeof(struct av_seg), PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

static void seg_free(struct av_seg *seg)
{
	av_munmap(seg, sizeof(*seg));
}
#endif

static struct av_seg *seg_new(uint32_t ref, uint32_t proc)
{
	struct av_seg *seg = seg_alloc();

	if (!seg)
		return NULL;
	seg->ref = ref;
	seg->proc = proc;
	seg->pidns = my_pidns();
	seg->folder = seg->process = seg->file = seg->tables = AV_OWN_FD_NONE;
	seg->fd_pass = AV_FD_PASS_NONE;
	seg->users = 1;
	pthread_mutex_init(&seg->doorbell_mutex, NULL);
	pthread_mutex_init(&seg->timer_mutex, NULL);
	pthread_mutex_init(&seg->pages_owner_mutex, NULL);
	for (size_t i = 0; i < AV_ARRAY_SIZE(seg->doorbell); i++)
		seg->doorbell[i].fifo = AV_OWN_FD_NONE;
	for (size_t i = 0; i < AV_SEG_PAGES_OWNERS; i++) {
		seg->pages_owner[i].file = AV_OWN_FD_NONE;
		seg->pages_owner[i].fd_pass = AV_FD_PASS_NONE;
	}
	return seg;
}

static void seg_delete(struct av_seg *seg)
{
	if (!seg)
		return;
	av_views_forget(seg);
	av_heap_destroy(seg);
	if (seg->head)
		av_munmap(seg->head, AV_SEG_BYTES);
	for (size_t i = 0; i < AV_ARRAY_SIZE(seg->doorbell); i++)
		av_own_fd_close(&seg->doorbell[i].fifo);
	av_own_fd_close(&seg->tables);
	av_own_fd_close(&seg->file);
	av_own_fd_close(&seg->process);
	av_own_fd_close(&seg->folder);
	if (atomic_load(&seg->wires))
		av_table_fini(atomic_load(&seg->wires));
	/* Threads of this process may have executed left queue pairs until now. */
	free(atomic_load(&seg->wires));
	free(atomic_load(&seg->timer));
	free(atomic_load(&seg->sums));
	free(atomic_load(&seg->strict));
	pthread_mutex_destroy(&seg->doorbell_mutex);
	pthread_mutex_destroy(&seg->timer_mutex);
	pthread_mutex_destroy(&seg->pages_owner_mutex);
	seg_free(seg);
}

uint8_t *av_slab_chunk(const struct av_seg *seg, enum av_slab slab, uint32_t n, uint64_t bytes)
{
	_Atomic(uint8_t *) *kept =
		(_Atomic(uint8_t *) *)&seg->chunk[n][slab]; /* a cache: readers may fill it */
	uint8_t *chunk = av_seg_at(
		seg, atomic_load_explicit(&seg->head->chunk[slab][n], memory_order_acquire), bytes);

	atomic_store_explicit(kept, chunk, memory_order_release);
	return chunk;
}

/* --- own segments ---------------------------------------------------------------- */

static void (*_Atomic on_call)(struct av_seg *seg);

void av_seg_call_by(void (*called)(struct av_seg *seg))
{
	on_call = called;
}

static void each_peer(void (*f)(struct av_seg *seg))
{
	AV_LOCKED(&mutex);
	for (uint32_t slot = 0; slot < AV_REF_SLOTS; slot++)
		if (mapped[slot] && !mapped[slot]->own)
			f(mapped[slot]);
}

void av_seg_call_peers(void)
{
	each_peer(av_seg_call);
}

/* Peers connect for the memory, too. */
static void handle_peer_call(struct av_fd_pass *h)
{
	struct av_seg *seg = (struct av_seg *)((char *)h - offsetof(struct av_seg, fd_pass));
	void (*f)(struct av_seg *) = atomic_load(&on_call); /* GCC calls it by a plain load */

	if (!atomic_exchange(&seg->head->called, 0))
		return;
	each_peer(av_views_sweep);
	if (f)
		f(seg);
}

void av_seg_call(struct av_seg *seg)
{
	char name[PATH_MAX];

	atomic_store(&seg->head->called, 1);
	if (av_seg_socket(seg, name))
		av_fd_pass_call(name);
}

/* From here on, peers find it. */
static void publish_segment(struct av_seg *seg)
{
	char name[PATH_MAX];

	if (av_seg_socket(seg, name))
		av_fd_pass_begin(&seg->fd_pass, name, &seg->file, handle_peer_call);
	av_dir_context_set_memory(seg->ref, seg->file.fd, seg->file.ino);
}

/* Unmap the segment in that slot if nobody uses it. Context: @mutex. */
static void drop_idle(uint32_t slot)
{
	struct av_seg *seg = mapped[slot];

	if (!seg || seg->users)
		return;
	mapped[slot] = NULL;
	idle--;
	seg_delete(seg);
}

/* Nobody will need them again, and here is the last mapping of the memory. Context: @mutex. */
static void drop_dead(void)
{
	for (uint32_t slot = 0; idle && slot < AV_REF_SLOTS; slot++)
		if (mapped[slot] && mapped[slot]->users == 0 && !av_seg_alive(mapped[slot]))
			drop_idle(slot);
}

static void table_add(struct av_seg *seg)
{
	AV_LOCKED(&mutex);
	drop_idle(AV_REF_SLOT(seg->ref));
	mapped[AV_REF_SLOT(seg->ref)] = seg; /* its predecessor's users keep that one */
}

struct av_seg *av_seg_create(const struct av_seg_device *dev, uint32_t origin)
{
	uint32_t ref;
	int folder = av_dir_context_add(&ref), ret = -ENOMEM;
	struct av_seg *seg = folder < 0 ? NULL : seg_new(ref, av_lock_self);

	(void)av_fork_register(AV_FORK_SEGMENTS, &fork_handlers);
	if (folder < 0) {
		errno = -folder;
		return NULL;
	}
	if (!seg) {
		close(folder);
	} else if (av_own_fd_keep(&seg->folder, folder)) {
		seg->own = seg->same_pidns = true;
		seg->pid = getpid();
		ret = av_seg_make(seg, dev, origin);
	}
	if (ret) {
		seg_delete(seg);
		av_dir_context_remove(ref);
		errno = -ret;
		return NULL;
	}
	seg->odp = (struct av_odp_counters *)av_dir_counters(dev->name);
	seg->odp_gauge = (struct av_odp_gauge *)av_dir_gauges(ref, dev->name);
	table_add(seg);
	publish_segment(seg);
	return seg;
}

void av_seg_end_calls(struct av_seg *seg)
{
	av_fd_pass_end(&seg->fd_pass);
}

void av_seg_close(struct av_seg *seg)
{
	atomic_store(&seg->head->closed, 1);
	atomic_store(&seg->gone, true);
	av_seg_end_calls(seg);
	av_dir_context_remove(seg->ref);
	av_seg_put(seg);
}

/* --- all segments ---------------------------------------------------------------- */

/* Context: @mutex. Return: NULL: it is not mapped, and its slot has no idle predecessor */
static struct av_seg *use_mapped(uint32_t ref)
{
	struct av_seg *seg = mapped[AV_REF_SLOT(ref)];

	if (seg && seg->ref == ref) {
		idle -= seg->users++ == 0;
		return seg;
	}
	drop_idle(AV_REF_SLOT(ref));
	return NULL;
}

/* Two threads may map the same one: the second finds that of the first. */
static struct av_seg *map_another(uint32_t ref, uint32_t proc)
{
	struct av_seg *seg = seg_new(ref, proc), *first;

	if (!seg || !av_seg_map_peer(seg)) { /* it waits for an owner that does not answer */
		seg_delete(seg);
		return NULL;
	}
	pthread_mutex_lock(&mutex);
	drop_dead();
	first = use_mapped(ref);
	if (!first)
		mapped[AV_REF_SLOT(ref)] = seg;
	pthread_mutex_unlock(&mutex);
	if (!first)
		return seg;
	seg_delete(seg);
	return first;
}

struct av_seg *av_seg_get(uint32_t ref)
{
	AV_UNCANCELLED;
	uint32_t proc = av_dir_context_owner(ref);
	struct av_seg *seg;

	if (proc == 0)
		return NULL;
	pthread_mutex_lock(&mutex);
	seg = use_mapped(ref);
	pthread_mutex_unlock(&mutex);
	return seg ? seg : map_another(ref, proc);
}

struct av_seg *av_seg_next(uint32_t *slot)
{
	struct av_seg *seg = NULL;
	uint32_t ref;

	while (!seg && (ref = av_dir_context_at(slot)))
		seg = av_seg_get(ref);
	return seg;
}

void av_seg_drop_idle(void)
{
	AV_LOCKED(&mutex);
	for (uint32_t slot = 0; slot < AV_REF_SLOTS; slot++)
		drop_idle(slot);
}

void av_seg_put(struct av_seg *seg)
{
	struct av_seg *origin;
	bool last, keep;

	if (!seg)
		return;
	pthread_mutex_lock(&mutex);
	last = --seg->users == 0;
	keep = !seg->own && idle < IDLE_MAX && mapped[AV_REF_SLOT(seg->ref)] == seg &&
	       av_seg_alive(seg); /* the memory of the dead is to go */
	if (last && keep)
		idle++;
	else if (last && mapped[AV_REF_SLOT(seg->ref)] == seg)
		mapped[AV_REF_SLOT(seg->ref)] = NULL;
	/* Once the mutex is free, others may take up or delete an idle one. */
	origin = last ? atomic_exchange(&seg->origin, NULL) : NULL;
	pthread_mutex_unlock(&mutex);
	av_seg_put(origin);
	if (last && !keep)
		seg_delete(seg);
}

struct av_seg *av_seg_origin(struct av_seg *seg)
{
	struct av_seg *origin = atomic_load_explicit(&seg->origin, memory_order_acquire),
		      *none = NULL;

	if (av_likely(origin != NULL))
		return origin;
	origin = av_seg_get(seg->head->origin);
	if (origin && !atomic_compare_exchange_strong(&seg->origin, &none, origin)) {
		av_seg_put(origin);
		return none;
	}
	return origin;
}

/*
 * Has the process ended, so that others may get its PID? Signal 0 is none, and is refused by what
 * is no pidfd: on older kernels, other descriptors without a file of their own look like one to
 * av_own_fd(). A zombie has its PID still.
 */
static bool is_peer_process_gone(const struct av_own_fd *process)
{
	AV_ERRNO_KEPT;
	int fd = av_own_fd(process);

	return fd >= 0 && syscall(SYS_pidfd_send_signal, fd, 0, NULL, 0) && errno == ESRCH;
}

bool av_seg_alive(struct av_seg *seg)
{
	AV_UNCANCELLED;
	uint64_t now = av_now_coarse_ns();

	if (atomic_load_explicit(&seg->gone, memory_order_relaxed))
		return false;
	if (atomic_load_explicit(&seg->head->closed, memory_order_acquire))
		goto gone;
	if (av_seg_known_alive(seg, now))
		return true;
	if (av_dir_context_owner(seg->ref) != seg->proc || !av_dir_proc_alive(seg->proc) ||
	    is_peer_process_gone(&seg->process))
		goto gone;
	atomic_store_explicit(&seg->alive_ns, now, memory_order_relaxed);
	return true;
gone:
	atomic_store(&seg->gone, true);
	return false;
}

bool av_seg_alive_now(struct av_seg *seg)
{
	AV_UNCANCELLED;

	atomic_store_explicit(&seg->alive_ns, 0, memory_order_relaxed);
	return av_seg_alive(seg);
}

void av_seg_wake_timer(struct av_seg *seg)
{
	atomic_fetch_add(&seg->head->timer_doorbell, 1);
	syscall(SYS_futex, &seg->head->timer_doorbell, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* --- locks in segments -------------------------------------------------------------- */

uint64_t av_peer_lock_until(const struct av_seg *seg)
{
	uint64_t now = av_now_ns();

	if (seg->own)
		return UINT64_MAX;
	return now < atomic_load(&seg->in_vain_until_ns) ? now : now + AV_PEER_TIMEOUT_NS;
}

void av_peer_lock_in_vain(struct av_seg *seg)
{
	atomic_store(&seg->in_vain_until_ns, av_now_ns() + AV_PEER_TIMEOUT_NS);
}

enum av_lock_result av_peer_lock_wait(struct av_seg *seg, struct av_lock *lock)
{
	enum av_lock_result got = av_lock_wait_until(lock, av_peer_lock_until(seg));

	if (got == AV_LOCK_BUSY) {
		av_peer_lock_in_vain(seg);
		av_lock_order_released(lock);
	}
	return got;
}
