/* SPDX-License-Identifier: MIT */
/* Posts the requests that plain verbs do not have. */
#ifndef AV_EXP_EXP_UMR_H
#define AV_EXP_EXP_UMR_H

#include <infiniband/verbs_exp.h>

#include "verbs/objects.h"

/* Is this NOP, UMR_FILL or UMR_INVALIDATE? */
bool av_exp_is_special(const struct ibv_exp_send_wr *wr);

/* Return: 0, EINVAL or ENOMEM as for ibv_exp_post_send(); does not set errno. */
AV_MUST_USE int av_exp_post_special(struct av_qp *qp, const struct ibv_exp_send_wr *wr);

#endif
