/* SPDX-License-Identifier: MIT */
/* Who gets the next receive request, and where bytes wait for its poll. */
#ifndef AV_QUEUE_RQ_TAKE_H
#define AV_QUEUE_RQ_TAKE_H

#include <stdint.h>

#include "base/compiler.h"
#include "queue/rq.h"
#include "segment/segment.h"

/*
 * SRQ_LIMIT_REACHED: one event when fewer requests are left in a shared receive queue than its
 * limit says, and none until the limit is set again. One of those who take requests raises it,
 * whoever is stopped or killed (base/wait.h).
 */

/* What the program has set; 0: disarmed. */
static inline uint32_t av_srq_limit(const struct av_rq_shared *rq)
{
	return av_oneshot_armed(&rq->limit);
}

/* Set the limit. Raises the event at once if it is already undercut. Context: the owner */
void av_srq_limit_set(struct av_seg *seg, struct av_rq_shared *rq, uint32_t limit);

/* A look at an armed limit. Context: any process, the right @resp of a queue pair is held */
void av_srq_limit_check(struct av_seg *seg, struct av_rq_shared *rq);

/* A request has been taken, or was not there. */
static inline void av_srq_limit_look(struct av_seg *seg, struct av_rq_shared *rq)
{
	if (av_unlikely(av_srq_limit(rq) != 0))
		av_srq_limit_check(seg, rq);
}

/*
 * Bounce buffers, in the receiver's segment. A sender leaves the bytes of a SEND there, and the
 * receiver's ibv_poll_cq() places them. Two copies through shared memory are faster than one system
 * call up to tens of kilobytes, and they need no permission to access the other process.
 *
 * A message is a chain of buffers. Free buffers form a stack, so that the next one is still cached;
 * a count in the stack's head prevents the ABA problem. A sender that dies between taking buffers
 * and handing them over loses them until the receiver's context is closed: at most one message per
 * death.
 */

/**
 * av_bounce_take() - take a chain of buffers for @bytes (> 0)
 * Return:  the first buffer's index + 1, or 0 if there are not enough
 */
AV_MUST_USE uint32_t av_bounce_take(struct av_seg *seg, uint64_t bytes);

/* Free a chain; 0 is ignored. @bytes: as it was taken */
void av_bounce_give(struct av_seg *seg, uint32_t first, uint64_t bytes);

/* The memory of buffer @link (index + 1), AV_BOUNCE_BYTES long; NULL if there is no such buffer. */
void *av_bounce_buffer(struct av_seg *seg, uint32_t link);

/* The next buffer's link in a chain; 0 behind the last. */
uint32_t av_bounce_next(struct av_seg *seg, uint32_t link);

/*
 * Who gets the next request of a shared receive queue?
 *
 * Takers are in many processes. None may hold a lock, since it could be stopped with it. A request
 * that is queued has a *mark*, in the queue's order and in its own word @taker, that no other
 * queueing has. Whoever exchanges that word for one that names its queue pair has the request. Then
 * @head is advanced, by whoever comes first: an entry whose mark is not its request's any more is
 * passed over. So a taker that was stopped for long, and finds an old entry, either takes what is
 * still meant by it, or nothing.
 *
 * A request that is put back gets a new mark, and an entry before all others. Between @head and the
 * most requests ever taken (@reached) there may be entries that are only passed over: requests that
 * were taken out of turn. There are never more than @places of them, and never more requests than
 * places, so the order has twice that room. A put-back that would exceed it compacts that part
 * first; takers wait for it meanwhile, as for a resize.
 */

/* Entries of @order for so many slots, and their bytes. */
#define AV_RQ_ORDER_ENTRIES(places) (2 * (places))
static inline uint64_t av_rq_order_bytes(uint32_t places)
{
	return AV_RQ_ORDER_ENTRIES((uint64_t)places) * sizeof(uint64_t);
}

/*
 * Queue @place as request @number, then, when it is filled in, let it be taken.
 * Context: post_lock is held. Return: false: the order is unsound
 */
AV_MUST_USE bool av_rq_order_add(struct av_seg *seg, const struct av_rq_shared *rq, uint32_t number,
				 uint32_t place);
void av_rq_order_publish(struct av_rq_wqe *wqe, uint32_t number);

/* av_rq_take() for a shared queue. Raises SRQ_LIMIT_REACHED if the limit is undercut. */
const struct av_rq_wqe *av_rq_order_take(struct av_seg *seg, struct av_rq_shared *rq, uint32_t qpn,
					 uint32_t *receiving);

/* Put back the request at @place, if queue pair @qpn has it: the next message takes it. */
void av_rq_order_put_back(struct av_seg *seg, struct av_rq_shared *rq, uint32_t qpn,
			  uint32_t place);

/*
 * The same for a dead holder of @qpn's right @resp, which may have died before it took the request,
 * or while it put it back.
 */
void av_rq_order_repair(struct av_seg *seg, struct av_rq_shared *rq, uint32_t qpn, uint32_t place);

/*
 * Put the order into other memory, of twice @places entries. It is changed by the owner, between
 * these two: takers wait.
 * Context: post_lock is held.
 */
void av_rq_order_lock(struct av_seg *seg, struct av_rq_shared *rq);
void av_rq_order_move(struct av_seg *seg, struct av_rq_shared *rq, uint64_t order, uint32_t places);
void av_rq_order_unlock(struct av_rq_shared *rq);

#endif
