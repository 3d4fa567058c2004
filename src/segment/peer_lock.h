/* SPDX-License-Identifier: MIT */
/*
 * Taking a lock that lies in a segment, anybody's. The word of a peer's lock may name a living
 * process that does not hold it. So nobody waits for a peer's lock longer than AV_PATIENCE_NS, and
 * whoever has waited that long in vain does not wait for the next ones of that segment for as long
 * again: one broken segment costs its peers half of their time at most.
 */
#ifndef AV_SEGMENT_PEER_LOCK_H
#define AV_SEGMENT_PEER_LOCK_H

#include "base/lock.h"
#include "segment/segment.h"

/* The slow part of av_peer_lock(). */
enum av_lock_result av_peer_lock_wait(struct av_seg *seg, struct av_lock *lock);

/**
 * av_peer_lock() - take a lock in @seg, and wait for it
 *
 * Return:  AV_LOCK_TAKEN, AV_LOCK_REPAIR; AV_LOCK_BUSY: a peer's lock was not had in time
 */
AV_MUST_USE static inline enum av_lock_result av_peer_lock(struct av_seg *seg, struct av_lock *lock,
							   enum av_lock_rank rank)
{
	uint32_t free = 0;

	av_lock_order_wait(lock, rank);
	return av_likely(atomic_compare_exchange_strong(&lock->owner, &free, av_lock_self))
		       ? AV_LOCK_TAKEN
		       : av_peer_lock_wait(seg, lock);
}

#endif
