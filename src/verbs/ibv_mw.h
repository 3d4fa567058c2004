/* SPDX-License-Identifier: MIT */
/* Memory windows: verbs reached through the dispatch tables, and what other objects need. */
#ifndef AV_VERBS_IBV_MW_H
#define AV_VERBS_IBV_MW_H

#include "verbs/objects.h"

struct ibv_mw *av_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type);
int av_dealloc_mw(struct ibv_mw *mw);
int av_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind);

/* Let go of a region all windows whose unbinding a dead peer left half done. */
void av_mw_finish(struct av_context *ctx, uint32_t region);

/* Free the windows that are bound on a queue pair that ends. */
void av_mw_queue_pair_ends(struct av_context *ctx, uint32_t qpn);

#endif
