/* SPDX-License-Identifier: MIT */
/*
 * Both sides copy: a receiver that polls its CQ in vain copies pieces of the large message that is
 * being sent to it.
 *
 * The sender opens its message in the receiver's CQ, one at a time there, and copies its pieces
 * from the front on; threads that poll that CQ claim others from the back (struct av_assist,
 * queue/cq.h). A poller copies one piece, holding the pins of both keys, which it has looked up
 * itself, and the lock @piece. When no piece is left the sender takes that lock: then nobody writes
 * to the buffer any more. What a poller could not copy, or died over, is not mended: the message
 * goes the ordinary way, as a whole and once more.
 *
 * Nobody has to help, and a sender that finds another one's message there goes on alone.
 */
#ifndef AV_TRANSPORT_ASSIST_H
#define AV_TRANSPORT_ASSIST_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <infiniband/verbs.h>

#include "base/compiler.h"
#include "queue/cq.h"
#include "queue/qp.h"

/* Measured (docs/PERFORMANCE.md): shorter messages stay in a core's own cache and gain little;
 * smaller pieces cost more in claims, larger ones are waited for longer. */
#define AV_ASSIST_MIN	(256u << 10)
#define AV_ASSIST_PIECE (64u << 10)

/* The end of a message is the sender's, who copies it last: so much at least. It covers the last
 * page of a source, which is not adopted unless it is whole. */
#define AV_ASSIST_REST 4096u

/* Where a message comes from that pollers can help to copy: one keyed element, all of it sent. */
struct av_assist_source {
	const struct av_qp_end *req; /* the sender, of this process */
	struct ibv_sge sge;	     /* AV_ASSIST_MIN bytes at least */
};

/**
 * av_assist_copy() - copy a message to its receive buffer, with the help of whoever polls
 * @rsp: the receiving queue pair, in another process; @recv: its receive request's one element
 * @to, @from: as this process reaches the bytes
 *
 * Context: @rsp's responder execution right is held, and pins of both keys. Waits for pages, and
 * for a poller's piece that is under way, as for a lock. The end of the message comes last. Return:
 * false: not all bytes have been copied; any may have been
 */
AV_MUST_USE bool av_assist_copy(const struct av_assist_source *source, const struct av_qp_end *rsp,
				const struct ibv_sge *recv, uint8_t *to, const uint8_t *from);

/*
 * The sender died while it held @rsp's responder execution right, which has been taken over: nobody
 * helps with its message any more, and nobody does still. Waits for a piece that is under way.
 */
void av_assist_abandon(const struct av_qp_end *rsp);

/* The slow part of av_assist_polled(). */
void av_assist_help(struct av_seg *seg, struct av_cq_shared *cq);

/* Copy one piece for receiving queue pair @rsp of @cq, if it is that one's message. @req: its peer.
 * Part of av_assist_help(), apart for tests. */
void av_assist_help_with(const struct av_qp_end *rsp, const struct av_qp_end *req,
			 struct av_cq_shared *cq);

/* Is there a piece that nobody has claimed? */
static inline bool av_assist_wanted(uint32_t left)
{
	return (left & 0xffff) < left >> 16;
}

/* The own CQ was polled in vain: copy a piece of what is on its way, if there is one. Context:
 * owner's thread, no lock held; waits for pages. */
static inline void av_assist_polled(struct av_seg *seg, struct av_cq_shared *cq)
{
	if (av_unlikely(
		    av_assist_wanted(atomic_load_explicit(&cq->assist.left, memory_order_relaxed))))
		av_assist_help(seg, cq);
}

#endif
