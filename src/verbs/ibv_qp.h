/* SPDX-License-Identifier: MIT */
/* Creates queue pairs: shared by the plain and the extended verbs. */
#ifndef AV_VERBS_IBV_QP_H
#define AV_VERBS_IBV_QP_H

#include "verbs/ibv_context.h"

/* Attributes that ibv_create_qp() lacks. */
struct av_qp_extra {
	uint32_t inline_recv; /* in: bytes of inline receive wanted; out: granted; 0: off */
	uint32_t max_operand; /* in: largest operand of extended atomics in bytes; 0: none */
};

/*
 * Keep other threads from posting to the send queue, from ibv_wr_start() to ibv_wr_complete().
 * ibv_post_send() takes the shorter av_sq_enter().
 */
static inline void av_post_begin(struct av_qp *qp)
{
	av_lock_acquire_plain(&qp->end.qp->append, AV_RANK_APPEND);
}

static inline void av_post_end(struct av_qp *qp)
{
	av_lock_release(&qp->end.qp->append);
}

/*
 * ibv_create_qp() for one of our contexts. Takes @pd, or for XRC_RECV @xrcd. @extra may be NULL.
 * Return: queue pair in RESET, or NULL and errno.
 */
struct ibv_qp *av_qp_create(struct av_context *ctx, struct ibv_pd *pd, struct ibv_xrcd *xrcd,
			    struct ibv_qp_init_attr *attr, struct av_qp_extra *extra);

/* ibv_open_qp(3): open another handle for an XRC_RECV queue pair. */
struct ibv_qp *av_open_qp(struct ibv_context *context, struct ibv_qp_open_attr *attr);

#endif
