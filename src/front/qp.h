/* SPDX-License-Identifier: MIT */
/* Creating queue pairs: what both ways of asking for one share. */
#ifndef AV_FRONT_QP_H
#define AV_FRONT_QP_H

#include "front/context.h"

/* ibv_create_qp() on one of our contexts. Return: queue pair in RESET, or NULL and errno. */
struct ibv_qp *av_qp_create(struct av_context *ctx, struct ibv_pd *pd, struct ibv_qp_init_attr *attr);

#endif
