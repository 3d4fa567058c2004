/* SPDX-License-Identifier: MIT */
/* Memory windows: verbs reached through the dispatch tables, and functions for other objects. */
#ifndef AV_VERBS_IBV_MW_H
#define AV_VERBS_IBV_MW_H

#include "verbs/objects.h"

struct ibv_mw *av_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type);
int av_dealloc_mw(struct ibv_mw *mw);
int av_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind);

/* Finish unbinding windows from a region where a dead peer stopped half-way. */
void av_mw_finish(struct av_context *ctx, uint32_t region);

/* Unbind the windows bound on a queue pair that is being destroyed. */
void av_mw_queue_pair_ends(struct av_context *ctx, uint32_t qpn);

#endif
