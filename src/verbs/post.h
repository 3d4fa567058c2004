/* SPDX-License-Identifier: MIT */
/* Posting work requests to queue pairs. */
#ifndef AV_VERBS_POST_H
#define AV_VERBS_POST_H

#include "verbs/objects.h"

/*
 * Keep other threads from posting to the queue pair's send queue. Of a queue pair in a thread
 * domain the program has promised that there is but one: ibv_alloc_td(3).
 */
static inline void av_post_begin(struct av_qp *qp)
{
	if (!qp->one_thread)
		av_biased_acquire_plain(&qp->post_lock);
}

static inline void av_post_end(struct av_qp *qp)
{
	if (!qp->one_thread)
		av_biased_release(&qp->post_lock);
}

/* ibv_post_send(), ibv_post_recv() of queue pairs of ours. */
int av_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr);
int av_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr);

/* av_post_send() of requests that the library made of others: av_sq_post() with @operands. */
int av_post_translated(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr,
		       const struct av_atomic *operands);

/* One request that plain verbs do not have. Return: 0, EINVAL (state, list too long for the queue),
 * ENOMEM (full) */
int av_post_special(struct av_qp *qp, const struct av_sq_special *req);

#endif
