/* SPDX-License-Identifier: MIT */
/* Protection domains, thread domains and parent domains: verbs reached through the dispatch tables. */
#ifndef AV_FRONT_PD_H
#define AV_FRONT_PD_H

#include "front/context.h"

struct ibv_td *av_alloc_td(struct ibv_context *context, struct ibv_td_init_attr *attr);
int av_dealloc_td(struct ibv_td *td);
struct ibv_pd *av_alloc_parent_domain(struct ibv_context *context, struct ibv_parent_domain_init_attr *attr);

/* A domain of the context that is imported from, by its handle there; NULL and errno. And the local end of
 * it. */
struct ibv_pd *av_pd_import(struct av_context *ctx, uint32_t handle);
void av_pd_forget(struct av_pd *pd);

#endif
