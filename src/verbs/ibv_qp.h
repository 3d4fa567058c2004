/* SPDX-License-Identifier: MIT */
/* Creates queue pairs: shared by the plain and the extended verbs. */
#ifndef AV_VERBS_IBV_QP_H
#define AV_VERBS_IBV_QP_H

#include "verbs/objects.h"

/* Attributes that ibv_create_qp() lacks. */
struct av_qp_extra {
	uint32_t inline_recv; /* in: bytes of inline receive wanted; out: granted; 0: off */
	uint32_t max_operand; /* in: largest operand of extended atomics in bytes; 0: none */
};

/* Takes @pd, or for XRC_RECV @xrcd. @extra may be NULL. Return: QP in RESET, or NULL and errno. */
struct ibv_qp *av_qp_create(struct av_context *ctx, struct ibv_pd *pd, struct ibv_xrcd *xrcd,
			    struct ibv_qp_init_attr *attr, struct av_qp_extra *extra);

/* ibv_open_qp(3): open another handle for an XRC_RECV queue pair. */
struct ibv_qp *av_open_qp(struct ibv_context *context, struct ibv_qp_open_attr *attr);

#endif
