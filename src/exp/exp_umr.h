/* SPDX-License-Identifier: MIT */
/* Posting the requests that plain verbs do not have. */
#ifndef AV_EXP_EXP_UMR_H
#define AV_EXP_EXP_UMR_H

#include <infiniband/verbs_exp.h>

#include "verbs/objects.h"

/* Is it one of them: NOP, UMR_FILL, UMR_INVALIDATE? */
bool av_exp_is_special(const struct ibv_exp_send_wr *wr);

/* Post it. Return: 0, EINVAL, ENOMEM: ibv_exp_post_send(); errno is not set */
AV_MUST_USE int av_exp_post_special(struct av_qp *qp, const struct ibv_exp_send_wr *wr);

#endif
