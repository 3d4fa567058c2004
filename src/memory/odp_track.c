/* SPDX-License-Identifier: MIT */
#include "memory/odp.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sched.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "base/lock.h"
#include "memory/key.h"
#include "memory/region.h"

#define SPINS 200
#define CALLS 16u /* of madvise() at a time whose reports are one event each */

/* A stopped peer must not stop us. In our own process, only a debugger stops a single thread. */
#define PEER_WAIT_NS 10000000u
#define OWN_WAIT_NS  1000000000u

static struct {
	_Atomic int fd;
	_Atomic uint64_t round; /* odd while the listener may use entries of @context */
	_Atomic uint64_t expected_begin, expected_end; /* range of av_odp_expect(); equal: none */
	struct {
		_Atomic uint64_t begin, end; /* 0: free; or not said yet */
	} call[CALLS];
	_Atomic uint32_t used; /* length of the part of @context that was ever used */
	_Atomic(struct av_seg *) context[AV_REF_SLOTS];
} listener = {.fd = -1};

int av_odp_uffd(void)
{
	return atomic_load_explicit(&listener.fd, memory_order_acquire);
}

void av_odp_uffd_set(int fd)
{
	atomic_store(&listener.fd, fd);
}

/* --- contexts -------------------------------------------------------------------- */

struct av_seg *av_odp_context_at(uint32_t slot)
{
	return atomic_load_explicit(&listener.context[slot], memory_order_acquire);
}

uint32_t av_odp_context_slots(void)
{
	return atomic_load_explicit(&listener.used, memory_order_acquire);
}

/* The entry of @seg (NULL: a free one), or AV_REF_SLOTS. */
static uint32_t find_uffd_context(const struct av_seg *seg)
{
	uint32_t i = 0;

	while (i < AV_REF_SLOTS && av_odp_context_at(i) != seg)
		i++;
	return i;
}

bool av_odp_context_has(const struct av_seg *seg)
{
	return find_uffd_context(seg) < AV_REF_SLOTS;
}

bool av_odp_context_add(struct av_seg *seg)
{
	uint32_t i = find_uffd_context(NULL);

	if (i == AV_REF_SLOTS)
		return false;
	atomic_store(&listener.context[i], seg);
	if (i >= av_odp_context_slots())
		atomic_store(&listener.used, i + 1);
	return true;
}

void av_odp_forget_seen(void)
{
	for (uint32_t i = 0, n = av_odp_context_slots(); i < n; i++) {
		struct av_seg *seg = av_odp_context_at(i);
		struct av_odp_root *root = seg ? av_odp_root(seg) : NULL;

		if (root)
			atomic_fetch_add(&root->unmaps, 1);
	}
}

void av_odp_uffd_forked(void)
{
	atomic_store(&listener.fd, -1);
	atomic_store(&listener.round, 0);
	atomic_store(&listener.expected_begin, 0);
	atomic_store(&listener.expected_end, 0);
	for (uint32_t i = 0; i < CALLS; i++)
		av_odp_discard_end(i);
	for (uint32_t i = 0, n = av_odp_context_slots(); i < n; i++)
		atomic_store(&listener.context[i], NULL);
	atomic_store(&listener.used, 0);
}

/* --- waiting --------------------------------------------------------------------- */

static void pause_or_yield(unsigned int turn)
{
	if (turn < SPINS)
		av_pause();
	else
		sched_yield();
}

void av_odp_settle_wait(const struct av_seg *seg, uint64_t seq)
{
	uint64_t until = av_now_ns() + (seg->own ? OWN_WAIT_NS : PEER_WAIT_NS);

	for (unsigned int turn = 0;
	     atomic_load_explicit(&seg->head->odp_seq, memory_order_acquire) == seq; turn++) {
		pause_or_yield(turn);
		if (turn > SPINS && av_now_ns() > until)
			return;
	}
}

void av_odp_settle_to_read(const struct av_seg *seg)
{
	uint64_t seq = atomic_load_explicit(&seg->head->odp_seq, memory_order_acquire), until = 0;

	while ((seq & 1) &&
	       atomic_load_explicit(&seg->head->odp_seq, memory_order_acquire) == seq &&
	       !av_timed_out(&until))
		sched_yield();
}

void av_odp_round_begin(void)
{
	atomic_fetch_add(&listener.round, 1);
}

void av_odp_round_end(void)
{
	atomic_fetch_add(&listener.round, 1);
}

/* After clearing an entry: wait until the listener cannot be using it any more. */
static void wait_for_round(void)
{
	uint64_t round = atomic_load(&listener.round);

	for (unsigned int turn = 0; (round & 1) && atomic_load(&listener.round) == round; turn++)
		pause_or_yield(turn);
}

void av_odp_context_remove(const struct av_seg *seg)
{
	uint32_t i = find_uffd_context(seg);

	if (i == AV_REF_SLOTS)
		return;
	atomic_store(&listener.context[i], NULL);
	wait_for_round();
}

/* Is an event unread? Since Linux 5.7 this ioctl checks that before anything else. */
static bool report_outstanding(int fd)
{
	struct uffdio_writeprotect nothing = {0};

	return ioctl(fd, UFFDIO_WRITEPROTECT, &nothing) && errno == EAGAIN;
}

void av_odp_barrier(void)
{
	int fd = av_odp_uffd(), saved = errno;
	uint64_t until = 0;

	if (fd < 0)
		return;
	for (unsigned int turn = 0; report_outstanding(fd); turn++) {
		pause_or_yield(turn);
		if (turn == 0)
			until = av_now_ns() + OWN_WAIT_NS;
		else if (turn > SPINS && av_now_ns() > until)
			break; /* the unmapping thread is stopped */
	}
	wait_for_round();
	errno = saved;
}

/* --- unmappings to ignore -------------------------------------------------------- */

void av_odp_expect(uint64_t addr, uint64_t len)
{
	atomic_store(&listener.expected_begin, addr);
	atomic_store(&listener.expected_end, addr + len);
}

/* The unmapping returned when its event was read. The event is handled when its batch is. */
void av_odp_expect_end(void)
{
	wait_for_round();
	atomic_store(&listener.expected_begin, 0);
	atomic_store(&listener.expected_end, 0);
}

bool av_odp_is_expected(uint64_t begin, uint64_t end)
{
	return begin == atomic_load(&listener.expected_begin) &&
	       end == atomic_load(&listener.expected_end);
}

/* --- one call, several reports ---------------------------------------------------- */

uint32_t av_odp_discard_begin(uint64_t addr, uint64_t len)
{
	uint32_t i = 0;

	if (addr == 0 || av_odp_uffd() < 0)
		return CALLS;
	while (i < CALLS &&
	       !atomic_compare_exchange_strong(&listener.call[i].begin, &(uint64_t){0}, addr))
		i++;
	if (i < CALLS)
		atomic_store(&listener.call[i].end, addr + len);
	return i;
}

void av_odp_discard_end(uint32_t call)
{
	if (call == CALLS)
		return;
	atomic_store(&listener.call[call].end, 0);
	atomic_store(&listener.call[call].begin, 0);
}

void av_odp_discarded_by(uint64_t *begin, uint64_t *end)
{
	for (uint32_t i = 0; i < CALLS; i++) {
		uint64_t from = atomic_load(&listener.call[i].begin),
			 to = atomic_load(&listener.call[i].end);

		if (from && from <= *begin && *end <= to) {
			*begin = from;
			*end = to;
			return;
		}
	}
}

#define IMPLICIT SIZE_MAX

/* --- invalidation; the listener comes here: no heap, no lock --------------------- */

/* Clear the overlap of a region and the range. Return: pages that were valid. */
static uint64_t invalidate_region(struct av_seg *seg, const struct av_odp_region *r, uint64_t addr,
				  uint64_t len)
{
	uint64_t last = addr + (len - 1), end = r->addr + (r->length - 1), first, pages;

	if (r->length == 0 || r->addr > last || end < addr)
		return 0;
	first = r->addr > addr ? r->addr : addr;
	pages = av_odp_clear(seg, first, (end < last ? end : last) - first + 1);
	if (pages) {
		av_region_count(seg, r->key, AV_MR_INVALIDATION_PAGES, pages);
		av_region_count(seg, r->key, AV_MR_INVALIDATIONS, 1);
	}
	return pages;
}

/* Implicit regions last: exactly one of overlapping regions counts each page. */
static uint64_t invalidate_regions(struct av_seg *seg, uint64_t addr, uint64_t len)
{
	struct av_odp_region r, whole = {0};
	uint64_t pages = 0;
	uint32_t at = 0;

	for (int i = 0; i < AV_ODP_REGION_LOOKS && av_odp_region_next(seg, &at, &r); i++) {
		if (r.whole)
			whole = r;
		else
			pages += invalidate_region(seg, &r, addr, len);
	}
	return pages + invalidate_region(seg, &whole, addr, len);
}

void av_odp_invalidate(struct av_seg *seg, uint64_t addr, uint64_t len)
{
	uint64_t pages;

	if (len == 0)
		return;
	pages = invalidate_regions(seg, addr, len) + av_odp_clear(seg, addr, len);
	if (!pages)
		return;
	av_odp_count(seg, AV_ODP_COUNT_INVALIDATION_PAGES, pages);
	/* After the pages: who sees the event sees its pages. */
	av_odp_count(seg, AV_ODP_COUNT_INVALIDATIONS, 1);
}

/* --- eviction -------------------------------------------------------------------- */

static void evict_odp_pages(struct av_seg *seg, const struct av_odp_eviction *how, uint64_t addr,
			    uint64_t length)
{
	uint64_t first = addr >> AV_NODE_PAGE_SHIFT, pages = av_odp_pages(addr, length);

	if (how->pages == UINT32_MAX || length == IMPLICIT) {
		av_odp_invalidate(seg, addr, length);
		return;
	}
	for (uint32_t i = 0; i < how->pages && pages; i++)
		av_odp_invalidate(seg, (first + how->chance(how->arg, pages)) << AV_NODE_PAGE_SHIFT,
				  1ull << AV_NODE_PAGE_SHIFT);
}

static bool is_eviction_target(const struct av_key *k, const struct av_odp_eviction *how)
{
	uint32_t key = atomic_load(&k->held);

	return key && atomic_load(&k->kind) == AV_KEY_ODP && (!how->key || how->key == key);
}

/* If the region ends meanwhile, the invalidated pages belong to nobody: harmless. */
static void visit(struct av_seg *seg, const struct av_odp_eviction *how, struct av_key *k)
{
	uint64_t addr = 0, length = 0;

	/* Checked before locking, because a window's lock may be held for long. */
	if (!k || !is_eviction_target(k, how) ||
	    av_peer_lock(seg, &k->lock, AV_RANK_KEY) == AV_LOCK_BUSY)
		return;
	if (is_eviction_target(k, how)) {
		addr = k->addr;
		length = k->length;
	}
	av_lock_release(&k->lock);
	if (length)
		evict_odp_pages(seg, how, addr, length);
}

void av_odp_evict(struct av_seg *seg, const struct av_odp_eviction *how)
{
	for (uint32_t chunk = 0; chunk < AV_SLAB_CHUNKS; chunk++) {
		if (!atomic_load(&seg->head->chunk[AV_SLAB_KEY][chunk]))
			continue;
		for (uint32_t i = 0; i < AV_KEY_CHUNK; i++)
			visit(seg, how,
			      av_slab_at(seg, AV_SLAB_KEY, chunk * AV_KEY_CHUNK + i, AV_KEY_BYTES,
					 AV_KEY_CHUNK));
	}
}

#ifndef SYS_pidfd_getfd
#define SYS_pidfd_getfd 438
#endif

/* What this thread has handled lately; valid while the context's @unmaps is unchanged. */
#define SEEN	 4
#define LOOKS	 16 /* attempts, if mappings change meanwhile */
#define REFUSALS 3
struct seen {
	uint32_t ref; /* of the context; never 0 */
	uint64_t unmaps;
	uint64_t begin, end;
	bool plain; /* private anonymous, and watched; so it still is */
};
static _Thread_local struct seen seen[SEEN] AV_TLS_FAST;
static _Thread_local unsigned int seen_next AV_TLS_FAST;

static const struct seen *find_seen(uint32_t ref, uint64_t unmaps, uint64_t addr, uint64_t len)
{
	for (unsigned int i = 0; i < SEEN; i++) {
		const struct seen *s = &seen[i];

		if (s->ref == ref && s->unmaps == unmaps &&
		    av_range_within(addr, len, s->begin, s->end - s->begin))
			return s;
	}
	return NULL;
}

static void cache_seen_vma(uint32_t ref, uint64_t unmaps, const struct av_vma *vma, bool watched)
{
	seen[seen_next++ % SEEN] =
		(struct seen){ref, unmaps, vma->begin, vma->end, watched && vma->anonymous};
}

/* By number: callers hold execution rights, and the library's versions are cancellation points. */
static void close_fd(int fd)
{
	if (fd >= 0)
		syscall(SYS_close, fd);
}

static int open_maps(const struct av_seg *seg)
{
	char path[32] = "/proc/self/maps";

	if (!seg->own)
		snprintf(path, sizeof(path), "/proc/%d/maps", (int)seg->pid);
	return (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
}

/* The number may belong to any file by now: one that is no userfaultfd refuses our ioctl. */
static int borrow_uffd(struct av_seg *seg, const struct av_odp_root *root)
{
	uint32_t number = atomic_load(&root->uffd);
	int process;

	if (number == 0 || atomic_load_explicit(&seg->vm_refused, memory_order_relaxed))
		return -1;
	process = av_own_fd(&seg->process);
	return process < 0 ? -1 : (int)syscall(SYS_pidfd_getfd, process, number - 1, 0);
}

/* Watch a range. By number: the program's calls go to preload/memory_hooks.c. Return: 0 or errno.
 */
static int register_uffd_range(int uffd, uint64_t addr, uint64_t len)
{
	struct uffdio_register reg = {
		.range = {.start = addr, .len = len},
		.mode = UFFDIO_REGISTER_MODE_WP,
	};

	return syscall(SYS_ioctl, uffd, UFFDIO_REGISTER, &reg) ? errno : 0;
}

/* If the mapping has changed, the refusal may have concerned something else. */
static bool unchanged(int maps, const struct av_vma *vma)
{
	struct av_vma now;

	return av_vma_next(maps, vma->begin, &now) && now.begin == vma->begin &&
	       now.end == vma->end;
}

/*
 * Watch one mapping, or find that the kernel refuses. Return: false: it changed, look again.
 *
 * EINVAL means both a mapping that the kernel does not register and a range that has become a hole,
 * which may be filled again before we look. Anonymous memory can always be registered, so there it
 * was a hole. For a file mapping we believe EINVAL after several attempts.
 */
static bool register_one(int uffd, int maps, const struct av_vma *vma, bool *watched)
{
	for (int i = 0; i < REFUSALS; i++) {
		int err = register_uffd_range(uffd, vma->begin, vma->end - vma->begin);

		*watched = err == 0;
		if (err == ENOMEM || (err == EINVAL && vma->anonymous) || !unchanged(maps, vma))
			return false;
		if (err != EINVAL)
			return true;
	}
	return true;
}

/* Return: false: part is unmapped or keeps changing, perhaps unwatched by the access. */
static bool register_all(int uffd, int maps, uint32_t ref, uint64_t unmaps, uint64_t addr,
			 uint64_t len)
{
	uint64_t last = av_range_wraps(addr, len) ? UINT64_MAX : addr + (len - 1);
	struct av_vma vma;
	bool watched;

	for (unsigned int again = 0; again < LOOKS;) {
		if (!av_vma_next(maps, addr, &vma) || vma.begin > addr)
			return false;
		if (!register_one(uffd, maps, &vma, &watched)) {
			again++;
			continue;
		}
		cache_seen_vma(ref, unmaps, &vma, watched);
		if (vma.end > last)
			return true;
		addr = vma.end;
	}
	return false;
}

static bool track(struct av_seg *seg, const struct av_odp_root *root, uint64_t unmaps,
		  uint64_t addr, uint64_t len)
{
	int uffd = seg->own ? av_odp_uffd() : borrow_uffd(seg, root);
	int maps = uffd < 0 ? -1 : open_maps(seg);
	bool ret = true;

	if (maps >= 0)
		ret = register_all(uffd, maps, seg->ref, unmaps, addr, len);
	close_fd(maps);
	if (!seg->own)
		close_fd(uffd);
	return ret;
}

bool av_odp_track(struct av_seg *seg, uint64_t addr, uint64_t len)
{
	const struct av_odp_root *root = av_odp_root(seg);
	uint64_t unmaps;
	int saved = errno;
	bool ret;

	if (!root || len == 0 || atomic_load_explicit(&root->uffd, memory_order_relaxed) == 0)
		return true;
	unmaps = atomic_load(&root->unmaps);
	if (find_seen(seg->ref, unmaps, addr, len))
		return true;
	ret = track(seg, root, unmaps, addr, len);
	errno = saved;
	return ret;
}

static void unwatch(uint64_t addr, uint64_t len)
{
	struct uffdio_range range = {.start = addr, .len = len};
	int uffd = av_odp_uffd(), saved = errno;

	if (uffd >= 0)
		(void)!ioctl(uffd, UFFDIO_UNREGISTER, &range);
	errno = saved;
}

void av_odp_untrack(uint64_t addr, uint64_t len)
{
	av_odp_expect(addr, len);
	unwatch(addr, len);
}

void av_odp_release(uint64_t addr, uint64_t len)
{
	unwatch(addr, len);
	av_odp_forget_seen();
}

void av_odp_retrack(struct av_seg *seg, uint64_t addr, uint64_t len)
{
	const struct av_odp_root *root = av_odp_root(seg);
	int saved = errno;

	av_odp_expect_end();
	av_odp_forget_seen(); /* what threads remember of the range concerns other mappings */
	if (root)
		(void)!track(seg, root, atomic_load(&root->unmaps), addr, len);
	errno = saved;
}

bool av_odp_is_plain(const struct av_seg *seg, uint64_t addr, uint64_t len)
{
	const struct av_odp_root *root = av_odp_root(seg);
	const struct seen *s =
		root ? find_seen(seg->ref, atomic_load(&root->unmaps), addr, len) : NULL;

	return s && s->plain;
}
