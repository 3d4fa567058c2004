/* SPDX-License-Identifier: MIT */
/* Memory windows: what one is bound to, and how many are bound to a region. */
#ifndef AV_MEMORY_WINDOW_H
#define AV_MEMORY_WINDOW_H

#include <infiniband/verbs.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/newer_verbs.h"
#include "memory/key.h"
#include "observe/check.h"
#include "segment/segment.h"

/*
 * How many windows are bound to a region?
 *
 * Each is counted before it is bound, and discounted after it is unbound. So whoever dies in
 * between leaves the count too high, never too low: a region whose count is 0 has no windows, and
 * the owner of one whose count is not has the windows themselves counted.
 */

/* Set while the windows are being counted, cleared by whoever changes the count meanwhile. */
#define AV_WINDOWS_COUNTING (1u << 31)

static inline uint32_t av_window_count(const struct av_key *region)
{
	return region->windows & ~AV_WINDOWS_COUNTING;
}

/*
 * Count the windows of an own region. Context: one thread per region, no lock held; waits
 * AV_PATIENCE_NS at most for those who are binding windows.
 * Return: are there none? false also if they change all the time, or one is not had in time
 */
AV_MUST_USE bool av_window_none_bound(struct av_seg *seg, uint32_t region);

/*
 * Memory windows: keys for remote access that work requests bind to a part of a region and unbind
 * again. Type 1 may be rebound at will and used through any queue pair of its protection domain.
 * Type 2B must be invalidated before it is bound again, and belongs to the queue pair that bound
 * it.
 * Source: IBTA volume 1, 10.6.7.2; ibv_bind_mw(3), ibv_alloc_mw(3).
 */

/*
 * What a window may permit. Local rights mean nothing for it, but programs pass
 * IBV_ACCESS_LOCAL_WRITE out of habit.
 */
#define AV_WINDOW_ACCESS                                                                        \
	((uint32_t)(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | \
		    IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_ZERO_BASED | AV_ACCESS_FLUSH_GLOBAL))

struct av_window_bind {
	uint32_t window; /* any key with the window's index */
	uint32_t rkey;	 /* the new key: same index, tag chosen by the program */
	uint32_t region; /* lkey; 0 with length 0: unbind (type 1) */
	uint32_t access; /* of the window */
	uint32_t pd;	 /* of the queue pair */
	uint32_t qpn;	 /* the binding queue pair */
	uint64_t addr;
	uint64_t length;
};

/* Return: a key with its index that gives access to nothing, or 0 and errno ENOMEM. */
AV_MUST_USE uint32_t av_window_create(struct av_seg *seg, enum ibv_mw_type type, uint32_t pd,
				      uint32_t limit);

/*
 * Unbind and free a window. Waits until nobody uses it, AV_PATIENCE_NS at most. Return: 0, or
 * EBUSY: somebody does, and nothing has changed
 */
AV_MUST_USE int av_window_destroy(struct av_seg *seg, uint32_t key);

/*
 * Execute a bind. Context: any process, with the queue pair's @exec right; may wait as long as a
 * change of the region and an access through the old binding take, AV_PATIENCE_NS at most for each.
 * Return: AV_CHECK_NONE; or, and nothing has changed, the check that forbids it;
 * AV_CHECK_OBJECT_BUSY: one of these does not end
 */
AV_MUST_USE enum av_check av_window_bind(struct av_seg *seg, const struct av_window_bind *bind);

/*
 * Unbind the type 2 window bound as @rkey on @qpn. Return: AV_CHECK_NONE; or, and nothing has
 * changed, AV_CHECK_INVALIDATE_WINDOW: there is no such window; AV_CHECK_INVALIDATE_UNBOUND: it is
 * not bound so, or an access by it does not end
 */
AV_MUST_USE enum av_check av_window_invalidate(struct av_seg *seg, uint32_t rkey, uint32_t qpn);

/* What would av_window_invalidate() return? Changes nothing. */
AV_MUST_USE enum av_check av_window_may_invalidate(struct av_seg *seg, uint32_t rkey, uint32_t qpn);

/*
 * Unbind this index's window if it is bound on @qpn, which is being destroyed. Context: nobody
 * executes for that queue pair, nor will.
 */
void av_window_queue_pair_ends(struct av_seg *seg, uint32_t key, uint32_t qpn);

#endif
