/* SPDX-License-Identifier: MIT */
/*
 * The kernel's reports that pages went away. One userfaultfd and one thread per process clear what
 * was invalidated from the device page tables of this process's contexts.
 *
 * The descriptor serves only for its events (unmap, remap, remove). Ranges are registered for write
 * protection, which is never enabled, so no fault of the program is ever delayed. odp_track.h says
 * which ranges.
 *
 * A thread that unmaps continues as soon as its event has been *read*. It must never see a page
 * table that does not yet know. So the listener makes odp_seq of every context odd before it reads
 * and even when the tables are up to date, and accesses wait for that (av_odp_settle()).
 */
#ifndef AV_MEMORY_ODP_NOTIFY_H
#define AV_MEMORY_ODP_NOTIFY_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/compiler.h"
#include "segment/segment.h"

/**
 * av_odp_watch() - start to watch invalidations for an own context; does nothing if it is watched
 *
 * Call it before the first ODP region of a context exists. The first context of a process opens the
 * descriptor and starts the thread. If the kernel refuses, nothing is watched (docs/ODP.md); only
 * counters show the difference.
 * Context: any thread; uses the heap (thread creation); hold no lock of the data path.
 */
void av_odp_watch(struct av_seg *seg);

/**
 * av_odp_unwatch() - an own context is being closed
 *
 * No access to the context may be under way. The last context ends the thread and closes the
 * descriptor, which cancels every registration. Contexts that are not watched, also those inherited
 * by fork(), are ignored.
 * Context: any thread, not the listener; waits while the listener handles one batch of events.
 */
void av_odp_unwatch(struct av_seg *seg);

/**
 * av_odp_barrier() - wait until every unmapping that has taken effect is recorded
 *
 * The kernel frees addresses before it reports that they were unmapped. After the return, no report
 * is outstanding for an earlier mapping: a report that comes now concerns what is mapped now.
 *
 * Context: any thread of the owner, not the listener; a system call and bounded waiting.
 */
void av_odp_barrier(void);

/*
 * The mover (memory/page_move.h) is about to replace the memory mapped at exactly this range by
 * other memory with the same bytes. If somebody has registered the range again meanwhile, the
 * kernel reports that as an unmapping, and the listener ignores the report. Holds until
 * av_odp_expect_end(), which waits for the listener. Context: moving.
 */
void av_odp_expect(uint64_t addr, uint64_t len);
void av_odp_expect_end(void);

/*
 * Invalidate a range in the device's table of that context. Counts one invalidation event if any
 * page was valid. Any process, any thread; takes no lock.
 */
void av_odp_invalidate(struct av_seg *seg, uint64_t addr, uint64_t len);

/* Make threads forget which mappings they saw watched, in all own contexts. */
void av_odp_forget_seen(void);

/* The userfaultfd of this process, or -1. Valid while a watched context is open. */
int av_odp_uffd(void);

/* The slow part of av_odp_settle(). */
void av_odp_settle_wait(const struct av_seg *seg, uint64_t seq);

/*
 * Wait until the table of @seg reflects every invalidation that a thread could have noticed.
 * Bounded, because a stopped owner must not stop its peers. Nearly always a single load.
 */
static inline void av_odp_settle(const struct av_seg *seg)
{
	uint64_t seq = atomic_load_explicit(&seg->head->odp_seq, memory_order_acquire);

	if (av_unlikely(seq & 1))
		av_odp_settle_wait(seg, seq);
}

#endif
