/* SPDX-License-Identifier: MIT */
/*
 * Both sides copy a large message: the sender, and the receiver's threads that poll their CQ in
 * vain.
 *
 * The sender opens its message in the receiver's CQ (struct av_coop_copy, queue/cq.h), one at a
 * time there, and copies pieces from the front on. Threads that poll that CQ claim pieces from the
 * back. Each copies one piece at a time: it holds the right @piece and its own pins of both keys,
 * which it has looked up itself. When no piece is left, the sender takes @piece. Then nobody else
 * writes to the buffer any more.
 *
 * A poller may fail to copy its piece, or die over it. The piece is not repaired: the whole message
 * is sent again in the ordinary way.
 *
 * Nobody has to help. A sender that finds another sender's message in the CQ copies alone.
 */
#ifndef AV_TRANSPORT_COOP_COPY_H
#define AV_TRANSPORT_COOP_COPY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <infiniband/verbs.h>

#include "base/compiler.h"
#include "queue/cq.h"
#include "queue/qp.h"

/*
 * Measured (docs/notes/inside.md). Shorter messages stay in one core's cache and gain little.
 * Smaller pieces cost more claims; larger ones take longer to wait for.
 */
#define AV_COOP_MIN   (256u << 10)
#define AV_COOP_PIECE (64u << 10)

/*
 * The sender copies the end of a message itself, at least this many bytes, and copies it last.
 */
#define AV_COOP_REST 4096u

/* The source of a message that pollers can help to copy: one keyed element, sent whole. */
struct av_coop_source {
	const struct av_qp_ref *req; /* the sender, of this process */
	struct ibv_sge sge;	     /* AV_COOP_MIN bytes at least */
};

enum av_coop_result {
	AV_COOP_COPIED,
	AV_COOP_NOT,   /* some bytes have not been copied; any may have been */
	AV_COOP_STUCK, /* the same, and a poller may still be copying: AV_PATIENCE_NS are over */
};

/**
 * av_coop_copy() - copy a message to its receive buffer, with the help of whoever polls
 * @rsp: the receiving queue pair, in another process
 * @recv: the one element of its receive request
 * @to, @from: the addresses of the bytes in this process
 *
 * The end of the message is copied last.
 * Context: @rsp's right @resp is held, and pins of both keys. Waits for pages, and for a piece that
 * a poller is copying.
 */
AV_MUST_USE enum av_coop_result av_coop_copy(const struct av_coop_source *source,
					     const struct av_qp_ref *rsp,
					     const struct ibv_sge *recv, uint8_t *to,
					     const uint8_t *from);

/*
 * The sender died while it held @rsp's right @resp, which the caller has taken over: close its
 * message. On return nobody helps with it any more.
 * Context: waits for a piece that a poller is copying.
 */
void av_coop_abandon(const struct av_qp_ref *rsp);

/* The slow part of av_coop_polled(). */
void av_coop_help(struct av_seg *seg, struct av_cq_shared *cq);

/*
 * Copy one piece for receiving queue pair @rsp of @cq, if the open message is for it. @req: its
 * peer. Part of av_coop_help(), separate for tests.
 */
void av_coop_help_with(const struct av_qp_ref *rsp, const struct av_qp_ref *req,
		       struct av_cq_shared *cq);

/* Is there a piece that nobody has claimed? */
static inline bool av_coop_wanted(uint32_t left)
{
	return (left & 0xffff) < left >> 16;
}

/*
 * An own CQ was polled in vain: copy a piece of the message that is on its way, if there is one.
 * Context: owner's thread, no lock held; waits for pages.
 */
static inline void av_coop_polled(struct av_seg *seg, struct av_cq_shared *cq)
{
	if (av_unlikely(av_coop_wanted(atomic_load_explicit(&cq->coop.left, memory_order_relaxed))))
		av_coop_help(seg, cq);
}

#endif
