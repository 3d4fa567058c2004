/* SPDX-License-Identifier: MIT */
/* Creating queue pairs: what both ways of asking for one share. */
#ifndef AV_VERBS_IBV_QP_H
#define AV_VERBS_IBV_QP_H

#include "verbs/objects.h"

/* What the attributes of ibv_create_qp() cannot say. */
struct av_qp_extra {
	uint32_t inline_recv; /* in: bytes wanted of inline receive; out: granted, 0: off */
	uint32_t max_operand; /* in: bytes of the operands of extended atomics, 0: it has none of
				 these */
};

/*
 * ibv_create_qp() on one of our contexts; @pd, or for XRC_RECV @xrcd; @extra may be NULL. Return:
 * queue pair in RESET, or NULL and errno.
 */
struct ibv_qp *av_qp_create(struct av_context *ctx, struct ibv_pd *pd, struct ibv_xrcd *xrcd,
			    struct ibv_qp_init_attr *attr, struct av_qp_extra *extra);

/* ibv_open_qp(3): another name for an XRC_RECV queue pair. */
struct ibv_qp *av_open_qp(struct ibv_context *context, struct ibv_qp_open_attr *attr);

#endif
