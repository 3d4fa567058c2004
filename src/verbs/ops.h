/* SPDX-License-Identifier: MIT */
/* The dispatch tables behind the inline verbs of <infiniband/verbs.h>. */
#ifndef AV_VERBS_OPS_H
#define AV_VERBS_OPS_H

#include <infiniband/verbs.h>

/* Fill in every member. */
void av_ops_fill(struct verbs_context *verbs);

#endif
