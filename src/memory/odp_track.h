/* SPDX-License-Identifier: MIT */
/*
 * Pages that may go away under the device: who tracks them, and what the listener shares with
 * those who wait for it.
 */
#ifndef AV_MEMORY_ODP_TRACK_H
#define AV_MEMORY_ODP_TRACK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "segment/segment.h"

/* What the listener (odp_notify.h) shares with those who wait for it: no lock and no heap. */

/* The userfaultfd of this process, or -1. Valid while a watched context is open. */
int av_odp_uffd(void);

void av_odp_settle_wait(const struct av_seg *seg, uint64_t seq);

/*
 * Wait until the table of @seg reflects every invalidation that a thread could have noticed.
 * Bounded: a stopped owner must not stop its peers. Nearly always a single load.
 */
static inline void av_odp_settle(const struct av_seg *seg)
{
	uint64_t seq = atomic_load_explicit(&seg->head->odp_seq, memory_order_acquire);

	if (av_unlikely(seq & 1))
		av_odp_settle_wait(seg, seq);
}

/*
 * The same for who reads statistics: waits longer for an owner that has no core. Any segment, also
 * a view. Context: no lock held; AV_PATIENCE_NS at most.
 */
void av_odp_settle_to_read(const struct av_seg *seg);

/*
 * Wait until every unmapping that has taken effect is recorded: the kernel frees addresses before
 * it reports that. A report that comes after the return concerns what is mapped now.
 * Context: any thread of the owner, not the listener; a system call and bounded waiting.
 */
void av_odp_barrier(void);

/*
 * madvise() is about to discard this range of the program's memory. The kernel reports each mapping
 * by itself; the listener takes the first report for the whole range, so that one call is one
 * invalidation. Also in a signal handler; no lock. Return: to be given to av_odp_discard_end()
 */
uint32_t av_odp_discard_begin(uint64_t addr, uint64_t len);
void av_odp_discard_end(uint32_t call);

/*
 * The mover (memory/deferred_free.h) is about to replace the memory at exactly this range by other
 * memory with the same bytes. If somebody has registered the range again meanwhile, the kernel
 * reports an unmapping, which the listener ignores until av_odp_expect_end(), which waits for it.
 */
void av_odp_expect(uint64_t addr, uint64_t len);
void av_odp_expect_end(void);

/* Make threads forget which mappings they saw watched, in all own contexts. */
void av_odp_forget_seen(void);

/* --- for odp_notify.c ------------------------------------------------------------ */

void av_odp_uffd_set(int fd);

void av_odp_uffd_forked(void);

/* The listener begins or ends a round, in which it may use contexts. */
void av_odp_round_begin(void);
void av_odp_round_end(void);

bool av_odp_is_expected(uint64_t begin, uint64_t end);

/* Widen the range of a report to that of the call that it is a part of. */
void av_odp_discarded_by(uint64_t *begin, uint64_t *end);

/* Iterate over the contexts. Entries may be NULL. */
uint32_t av_odp_context_slots(void);
struct av_seg *av_odp_context_at(uint32_t slot);

/* One such call at a time. false: no room. A removed context is no longer used by the listener. */
AV_MUST_USE bool av_odp_context_add(struct av_seg *seg);
void av_odp_context_remove(const struct av_seg *seg);
bool av_odp_context_has(const struct av_seg *seg);

/* Pages that go away from a device's page table, and those that may. */

/* Takes pages out of a context's device page table, and counts that. No byte is lost. */

/* Invalidate a range. Any process, any thread; takes no lock. */
void av_odp_invalidate(struct av_seg *seg, uint64_t addr, uint64_t len);

struct av_odp_eviction {
	uint32_t pages; /* pages per region, chosen by @chance; UINT32_MAX: all */
	uint64_t (*chance)(void *arg, uint64_t below);
	void *arg;
	uint32_t key; /* only the region with this key; 0: every region */
};

/*
 * Invalidate pages of an own context's ODP regions, as the kernel does when it needs memory;
 * implicit ones entirely. Any thread of the owner; takes locks of keys, one at a time.
 */
void av_odp_evict(struct av_seg *seg, const struct av_odp_eviction *how);

/*
 * Decides which memory is watched: every mapping of which the device holds a page, as a whole, from
 * just before its first page becomes valid. Watching a part would split the mapping: one mapping
 * per faulted page, of the 65530 that a process may have, and huge pages broken at the seams.
 *
 * A peer that resolves a fault does the same from outside. It borrows the owner's descriptor by
 * pidfd_getfd(2), which needs the same permission as the process_vm_writev(2) that moves the bytes.
 * So a page is watched before it becomes valid, whoever makes it valid, and nothing is asked of the
 * owner.
 */

/*
 * Have the mappings in a range of the owner's address space watched. What cannot be (no
 * userfaultfd, the program's own one on it, a mapping that the kernel refuses) is left alone; its
 * invalidations go unnoticed.
 *
 * Call it between av_odp_prepare() and the access. The listener changes @unmaps, which guards what
 * threads remember, before it changes the stamp: whoever has a stamp from after an invalidation
 * does not believe what was remembered before it. And an unwatched change before the access is seen
 * by the access itself.
 *
 * Context: any thread of any process, before an access that will make pages valid; hold no lock
 * that others spin on. System calls unless the range was handled lately. No cancellation point;
 * preserves errno.
 * Return: false if part of the range was unmapped. If the access succeeds nevertheless, an
 * unwatched mapping has appeared: do not make the pages valid; the next access tries again.
 */
AV_MUST_USE bool av_odp_track(struct av_seg *seg, uint64_t addr, uint64_t len);

/*
 * Stop watching a range of own memory that is about to be exchanged in one step: nobody is to hear
 * of that as an unmapping. Threads may watch it again meanwhile. av_odp_retrack() watches it again
 * and makes threads forget what they remembered of it. Its context may have been closed since:
 * others may watch the range, too.
 * Context: any thread of the owner; moving (memory/deferred_free.h).
 */
void av_odp_untrack(uint64_t addr, uint64_t len);
void av_odp_retrack(struct av_seg *seg, uint64_t addr, uint64_t len);

/* The program is to have a range of its memory watched by itself. Context: any thread; no lock. */
void av_odp_release(uint64_t addr, uint64_t len);

/* Is the range, just tracked, one mapping of private anonymous memory, safe to touch? */
bool av_odp_is_plain(const struct av_seg *seg, uint64_t addr, uint64_t len);

#endif
