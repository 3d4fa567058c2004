/* SPDX-License-Identifier: MIT */
/* Device memory. ibv_alloc_dm(3). */
#ifndef AV_VERBS_IBV_DM_H
#define AV_VERBS_IBV_DM_H

#include "verbs/objects.h"

struct ibv_dm *av_alloc_dm(struct ibv_context *context, struct ibv_alloc_dm_attr *attr);
int av_free_dm(struct ibv_dm *dm);
struct ibv_mr *av_reg_dm_mr(struct ibv_pd *pd, struct ibv_dm *dm, uint64_t offset, size_t length,
			    unsigned int access);

/* Import by the handle in the origin; NULL and errno. av_dm_forget() ends the import locally. */
struct ibv_dm *av_dm_import(struct av_context *ctx, uint32_t handle);
void av_dm_forget(struct ibv_dm *dm);

/* The same object for experimental verbs, and back; NULL if the pointer is not ours. */
struct ibv_exp_dm *av_dm_exp(struct ibv_dm *dm);
struct ibv_dm *av_dm_of_exp(const struct ibv_exp_dm *exp);

/* Length in bytes of a valid @dm. */
uint64_t av_dm_length(const struct ibv_dm *dm);

#endif
