/* SPDX-License-Identifier: MIT */
/*
 * The order in which a thread takes locks and execution rights: docs/concurrency/ORDER.md.
 *
 * Every place that takes one names its rank. A thread that waits for a lock holds only locks of
 * lower ranks, so no circle of waiters can form. Trying is exempt, because it never waits.
 *
 * Builds with AV_CHECK_LOCKS (the sanitizers' presets) keep a list per thread, and abort with a
 * message at the first violation. In other builds none of this leaves an instruction.
 */
#ifndef AV_BASE_LOCK_ORDER_H
#define AV_BASE_LOCK_ORDER_H

#include <stdbool.h>

enum av_lock_rank {
	AV_RANK_APPEND,	   /* av_qp_shared.append: writing requests into the send ring */
	AV_RANK_EXEC,	   /* av_qp_shared.exec: the requester's execution right */
	AV_RANK_RESP,	   /* av_qp_shared.resp: the responder's execution right */
	AV_RANK_SENDER,	   /* av_assist.sender: the large message that a CQ's pollers help with */
	AV_RANK_PIECE,	   /* av_assist.piece: copying one piece of it */
	AV_RANK_KEY_RIGHT, /* the lock of a window or a UMR key: the right to change it */
	AV_RANK_POLL,	   /* av_cq_shared.poll_lock */
	AV_RANK_CQ,	   /* av_cq_shared.lock */
	AV_RANK_POST_RECV, /* av_rq_shared.post_lock */
	AV_RANK_TAKE_RECV, /* av_rq_shared.take_lock */
	AV_RANK_ATOMIC,	   /* one stripe of the directory: one read-modify-write */
	AV_RANK_KEY,	   /* the lock of a region's key */
};

#if defined(AV_CHECK_LOCKS)

/*
 * This thread is about to wait for @lock; it got @lock by trying; it has released @lock. Waiting
 * aborts if it could close a circle.
 */
void av_lock_order_wait(const void *lock, enum av_lock_rank rank);
void av_lock_order_taken(const void *lock, enum av_lock_rank rank);
void av_lock_order_released(const void *lock);

/* Aborts unless this thread holds @lock. @where: for the message */
void av_lock_order_assert(const void *lock, const char *where);

/*
 * The child's only thread, after a fork, holds the private locks that its parent's thread held, and
 * no shared ones.
 */
void av_lock_order_forked(void);

#define AV_ASSERT_HELD(lock) av_lock_order_assert(lock, __func__)

#else

#define av_lock_order_wait(lock, rank)	((void)(rank))
#define av_lock_order_taken(lock, rank) ((void)(rank))
#define av_lock_order_released(lock)	((void)(lock))
#define av_lock_order_forked()		((void)0)
#define AV_ASSERT_HELD(lock)		((void)(lock))

#endif

#endif
