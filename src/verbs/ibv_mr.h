/* SPDX-License-Identifier: MIT */
/* Memory regions of all kinds: creation around a key, and changes. */
#ifndef AV_VERBS_IBV_MR_H
#define AV_VERBS_IBV_MR_H

#include "memory/key.h"
#include "verbs/objects.h"

/**
 * av_mr_publish() - create a region of @pd with a new key
 * @what: the key's fields but pd
 * @addr: value for ibv_mr.addr
 * @dm: device memory or NULL
 * Return: region, or NULL and errno (ENOENT: invalid PD; ENOMEM)
 */
struct ibv_mr *av_mr_publish(struct ibv_pd *pd, struct av_key *what, void *addr, struct av_dm *dm);

/* ibv_reg_mr_iova2(). @access as of struct av_key: also rights that plain verbs do not know. */
struct ibv_mr *av_reg_mr(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
			 uint32_t access);

/* Free the private half of a region and what it holds. The key has been destroyed. */
void av_mr_forget(struct av_mr *mr);

/**
 * av_mr_allocate() - create a region of @pd with memory of its own
 * @req: all but the policy, which is read from the context's settings
 * Return: region, or NULL and errno as for av_allocated_make() and ibv_reg_mr()
 */
struct ibv_mr *av_mr_allocate(struct ibv_pd *pd, struct av_allocate_request *req);

/* Create a region of @pd on another region's memory: av_allocated_attach(). */
struct ibv_mr *av_mr_attach(struct ibv_pd *pd, const struct av_attach_request *req);

/* The arguments of ibv_rereg_mr(3). @allocate: allocate new memory; then @addr is NULL. */
struct av_mr_change {
	int flags;
	struct ibv_pd *pd;
	void *addr;
	size_t length;
	uint32_t access; /* as of struct av_key */
	bool allocate;
};

/* Return: 0, or enum ibv_rereg_mr_err_code and errno. @ibv must belong to one of our contexts. */
int av_mr_rereg(struct ibv_mr *ibv, const struct av_mr_change *c);

/* The page policy for regions of that context. */
struct av_page_policy av_mr_pages(const struct av_context *ctx);

int av_advise_mr(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags,
		 struct ibv_sge *sge, uint32_t count);

struct ibv_mr *av_alloc_null_mr(struct ibv_pd *pd);

#endif
