/* SPDX-License-Identifier: MIT */
/* Memory regions of all kinds: the private half, and creating one around a key. */
#ifndef AV_VERBS_IBV_MR_H
#define AV_VERBS_IBV_MR_H

#include "verbs/ibv_context.h"
#include "memory/allocated.h"
#include "memory/key.h"

struct av_dm;

/* How ibv_rereg_mr() and ibv_bind_mw() treat a region. */
enum av_mr_sort {
	AV_MR_PLAIN,	 /* memory of the process */
	AV_MR_ALLOCATED, /* memory that came with the region: @memory */
	AV_MR_NULL,	 /* ibv_alloc_null_mr() */
	AV_MR_DEVICE,	 /* ibv_reg_dm_mr() */
	AV_MR_DMABUF,	 /* ibv_reg_dmabuf_mr() */
	AV_MR_INDIRECT,	 /* ibv_exp_create_mr() */
	AV_MR_IMPORTED,	 /* ibv_import_mr(): the key is another context's */
};

struct av_mr {
	struct ibv_mr ibv;
	uint8_t peek_pad[AV_PEEK_PAD];
	struct av_pd *pd;
	const void *made_at; /* verbs/misuse.h */
	enum av_mr_sort sort;
	uint32_t handle; /* ibv.handle as we gave it */
	uint32_t access;
	uint64_t iova; /* address of the first byte that the program chose, whatever the key says */
	struct av_dm *dm; /* AV_MR_DEVICE: the device memory it is on */
	void *mapping;	  /* AV_MR_DMABUF: our mapping of the buffer, */
	size_t mapped;	  /* so many bytes */
	struct av_allocated memory;
	uint64_t list;	  /* AV_MR_INDIRECT: its list in the segment, with room for */
	uint32_t klms;	  /* so many elements, */
	bool fixed;	  /* which are of equal length */
	uint32_t adopted; /* what of its memory is: memory/adopt.h */
};

/**
 * av_mr_publish() - a region of @pd with a new key
 * @what: the key's fields but pd; @addr: what ibv_mr.addr says; @dm: device memory or NULL
 * Return: region, or NULL and errno (ENOENT: damaged PD; ENOMEM)
 */
struct ibv_mr *av_mr_publish(struct ibv_pd *pd, struct av_key *what, void *addr, struct av_dm *dm);

/*
 * ibv_reg_mr_iova2() on a context of ours; @access as of struct av_key, so that it may
 * name rights that the plain verbs do not know.
 */
struct ibv_mr *av_reg_mr(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
			 uint32_t access);

/* Place of a handle in the table of regions. */
static inline uint32_t av_mr_place(uint32_t handle)
{
	return handle & ((1u << AV_HANDLE_INDEX_BITS) - 1);
}

/* The region, if pointer and handle belong together; else NULL. */
struct av_mr *av_mr_find(const struct ibv_mr *mr);

/* Free the private half of a region whose key has ended, and what it holds. */
void av_mr_forget(struct av_mr *mr);

/**
 * av_mr_allocate() - a region of @pd with memory of its own
 * @req: all but the policy, which is read from the context's settings
 * Return: region, or NULL and errno as of av_allocated_make(), ibv_reg_mr()
 */
struct ibv_mr *av_mr_allocate(struct ibv_pd *pd, struct av_allocate_request *req);

/* A region of @pd on another's memory: av_allocated_attach(). */
struct ibv_mr *av_mr_attach(struct ibv_pd *pd, const struct av_attach_request *req);

/* What a re-registration is to change: arguments of ibv_rereg_mr(3), and whether memory comes with
 * it, @addr NULL then. */
struct av_mr_change {
	int flags;
	struct ibv_pd *pd;
	void *addr;
	size_t length;
	uint32_t access; /* as of struct av_key */
	bool allocate;
};

/* Return: 0, or enum ibv_rereg_mr_err_code and errno. @ibv is of one of our contexts. */
int av_mr_rereg(struct ibv_mr *ibv, const struct av_mr_change *c);

/* Wishes for pages of regions of that context. */
struct av_page_policy av_mr_pages(const struct av_context *ctx);

int av_advise_mr(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags,
		 struct ibv_sge *sge, uint32_t count);

struct ibv_mr *av_alloc_null_mr(struct ibv_pd *pd);

#endif
