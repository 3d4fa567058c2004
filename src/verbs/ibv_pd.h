/* SPDX-License-Identifier: MIT */
/*
 * Protection domains, thread domains and parent domains: verbs reached through the dispatch tables.
 */
#ifndef AV_VERBS_IBV_PD_H
#define AV_VERBS_IBV_PD_H

#include "verbs/objects.h"

struct ibv_td *av_alloc_td(struct ibv_context *context, struct ibv_td_init_attr *attr);
int av_dealloc_td(struct ibv_td *td);
/* Is this a thread domain of its context? */
bool av_td_valid(struct ibv_td *td);
struct ibv_pd *av_alloc_parent_domain(struct ibv_context *context,
				      struct ibv_parent_domain_init_attr *attr);

/* Import a domain by its handle in the origin context; NULL and errno on failure. */
struct ibv_pd *av_pd_import(struct av_context *ctx, uint32_t handle);

/*
 * End the import locally. ibv_unimport_pd(3) cannot fail, although objects may still use the domain
 * (pyverbs unimports first). They continue without it, and the last one frees it.
 */
void av_pd_forget(struct av_pd *pd);

#define AV_PD_FORGOTTEN 0x80000000u

/* Every object on a domain has a reference to it, and it cannot be destroyed meanwhile. */
static inline void av_pd_get(struct av_pd *pd)
{
	atomic_fetch_add(&pd->users, 1);
}

void av_pd_put(struct av_pd *pd);

#endif
