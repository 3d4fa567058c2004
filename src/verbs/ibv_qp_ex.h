/* SPDX-License-Identifier: MIT */
/* Posts work requests to queue pairs. */
#ifndef AV_VERBS_IBV_QP_EX_H
#define AV_VERBS_IBV_QP_EX_H

#include "verbs/objects.h"

/* ibv_post_send() and ibv_post_recv() for our queue pairs. */
int av_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr);
int av_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr);

/* av_post_send() for requests that the library built from others: av_sq_post() with @operands. */
int av_post_translated(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr,
		       const struct av_atomic *operands);

/* Post a request that plain verbs lack. Return: 0, EINVAL (state, list), ENOMEM (full). */
int av_post_special(struct av_qp *qp, const struct av_sq_special *req);

#endif
