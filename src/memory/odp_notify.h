/* SPDX-License-Identifier: MIT */
/*
 * The kernel's word that pages went away: one userfaultfd and one thread per process, which clears
 * what was invalidated from the device page tables of this process' contexts.
 *
 * The descriptor is used for its events only (unmap, remap, remove): ranges are registered for
 * write protection, which is never asked for, so no fault of the program is ever delayed. Which
 * ranges: see odp_track.h.
 *
 * An unmapping thread goes on when its event has been *read*. So that it never sees a page table
 * that does not know yet, the thread makes odp_seq of every context odd before it reads and even
 * when the tables are up to date, and accesses wait for that (av_odp_settle()).
 */
#ifndef AV_MEMORY_ODP_NOTIFY_H
#define AV_MEMORY_ODP_NOTIFY_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/compiler.h"
#include "segment/segment.h"

/**
 * av_odp_watch() - begin to watch invalidations for an own context; again is nothing
 *
 * Called before the first ODP region of a context exists. The first context of a process opens the
 * descriptor and starts the thread. Where the kernel does not let us, nothing is watched
 * (docs/ODP.md), and nobody notices but the counters. Context: any thread; takes the heap (thread
 * creation); no lock of the data path held.
 */
void av_odp_watch(struct av_seg *seg);

/**
 * av_odp_unwatch() - the own context is being closed
 *
 * No access to it is under way any more. The last context ends the thread and closes the
 * descriptor, which takes every registration back. A context that is not watched is ignored (also
 * one inherited by fork()). Context: any thread, not the listener; waits for the listener for as
 * long as it handles one batch of events.
 */
void av_odp_unwatch(struct av_seg *seg);

/**
 * av_odp_barrier() - wait until every unmapping that has taken effect is recorded
 *
 * Addresses are free again before the kernel reports that they were unmapped. After the return no
 * report is outstanding of a mapping that is not there any more: what is mapped now will be
 * unmapped by a later one.
 *
 * Context: any thread of the owner, not the listener; a system call, and bounded waiting.
 */
void av_odp_barrier(void);

/*
 * The mover (memory/page_move.h) is about to exchange what is mapped in just that range for other
 * memory with the same bytes: if that is reported as an unmapping, which it is where somebody has
 * had the range watched again meanwhile, nobody hears of it. Until av_odp_expect_end(), which waits
 * for the listener. Context: moving.
 */
void av_odp_expect(uint64_t addr, uint64_t len);
void av_odp_expect_end(void);

/*
 * A range is not what it was: its pages are not valid any more for the device of that context,
 * which is one invalidation event if any was. Any process and thread; takes no lock.
 */
void av_odp_invalidate(struct av_seg *seg, uint64_t addr, uint64_t len);

/* What threads remember of watched mappings is not to be believed any more, of any own context. */
void av_odp_forget_seen(void);

/* The userfaultfd of this process, or -1. Valid while a watched context is open. */
int av_odp_uffd(void);

/* The slow part of av_odp_settle(). */
void av_odp_settle_wait(const struct av_seg *seg, uint64_t seq);

/*
 * Wait until the table of @seg knows of every invalidation that a thread could have seen to happen.
 * Bounded (a stopped owner must not stop its peers), and nearly always one load.
 */
static inline void av_odp_settle(const struct av_seg *seg)
{
	uint64_t seq = atomic_load_explicit(&seg->head->odp_seq, memory_order_acquire);

	if (av_unlikely(seq & 1))
		av_odp_settle_wait(seg, seq);
}

#endif
