/* SPDX-License-Identifier: MIT */
/* What the file of one kind of object does for those of others, and for src/exp/. */
#ifndef AV_VERBS_BETWEEN_H
#define AV_VERBS_BETWEEN_H

#include "memory/key.h"
#include "memory/odp_prefetch.h"
#include "segment/pages.h"
#include "verbs/objects.h"

struct av_misuse_object;

/* --- contexts -------------------------------------------------------------------- */

/* For ibv_open_device() and ibv_close_device(). @origin: the context to import from, or 0. */
struct ibv_context *av_context_open(struct av_device *dev, uint32_t origin);
int av_context_close(struct av_context *ctx);

/* Is @lkey an ODP region's of another context here on this device? Context: no lock held. */
bool av_context_other_has(const struct av_context *ctx, uint32_t lkey);

/* --- a context's own settings: ibv_exp_use_priv_env(3), ibv_exp_setenv(3) ------------- */

/* Give the context settings of its own, copied from the process. Return: 0 or ENOMEM. */
AV_MUST_USE int av_environment_detach(struct av_context *ctx);

/* setenv(3) in the context's own settings, or the process's. Return: 0, EINVAL or ENOMEM. */
AV_MUST_USE int av_environment_set(struct av_context *ctx, const char *name, const char *value,
				   bool overwrite);

/* A setting's value. Return: false if unset or too long. Matches av_page_variable. */
bool av_environment_get(const void *ctx, const char *name, char *value, size_t size);

/* The page policy of this kind of object now. Says each value out of range on stderr. */
struct av_page_policy av_environment_pages(const struct av_context *ctx,
					   const struct av_page_object *object);

void av_environment_free(struct av_context *ctx);

/* --- events ---------------------------------------------------------------------- */

/* Off the table that delivers events: no new one finds the object; earlier ones are counted. */
void av_unlist(struct av_context *ctx, struct av_table *table, uint32_t handle);

/* Count @n acknowledgements of an object's events; its destruction waits for them. */
void av_event_acknowledge(pthread_mutex_t *mutex, pthread_cond_t *cond, uint32_t *completed,
			  uint32_t n);

/* Wait until @completed is @delivered. Context: without @mutex, which guards both. */
void av_event_wait(pthread_mutex_t *mutex, pthread_cond_t *cond, const uint32_t *completed,
		   const uint32_t *delivered, const struct av_misuse_object *of);

/* Remove a CQ's unread records: it is being destroyed, or its events go elsewhere from now on. */
void av_channel_forget(struct av_channel *channel, uint32_t cq_index, uint32_t cq_id);

/* --- domains and addresses ------------------------------------------------------- */

/* Our thread domain, or NULL if it is none of its context. */
struct av_td *av_td_find(struct ibv_td *td);

/* Import a domain by its handle in the origin context; NULL and errno on failure. */
struct ibv_pd *av_pd_import(struct av_context *ctx, uint32_t handle);

/* ibv_unimport_pd(3) cannot fail. Objects that still use the domain keep it: the last frees it. */
void av_pd_forget(struct av_pd *pd);

/* Every object on a domain has a reference to it, and it cannot be destroyed meanwhile. */
static inline void av_pd_get(struct av_pd *pd, enum av_pd_user kind)
{
	atomic_fetch_add(&pd->users, 1);
	atomic_fetch_add(&pd->user[kind], 1);
}

void av_pd_put(struct av_pd *pd, enum av_pd_user kind);

/* Is it the port's? Costs system calls if the GID's row is not known. Return: 0, EINVAL, ENOMEM. */
AV_MUST_USE int av_check_ah_attr(const struct av_context *ctx, const struct ibv_ah_attr *attr);

/* The address vector of a handle; NULL if it is not ours, or pointer and handle do not match. */
const struct ibv_ah_attr *av_ah_attr(const struct ibv_ah *ah);

/* --- memory ---------------------------------------------------------------------- */

/* A region with a new key: @what but for its pd. @dm: or NULL. Errors: ENOENT (PD), ENOMEM. */
struct ibv_mr *av_mr_publish(struct ibv_pd *pd, struct av_key *what, void *addr, struct av_dm *dm);

/* ibv_reg_mr_iova2(). @access as of struct av_key: also rights that plain verbs do not know. */
struct ibv_mr *av_reg_mr(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
			 uint32_t access);

/* Free the private half of a region and what it holds. The key has been destroyed. */
void av_mr_forget(struct av_mr *mr);

/* With memory of its own; @req lacks the policy. Errors: av_allocated_make()'s, ibv_reg_mr()'s. */
struct ibv_mr *av_mr_allocate(struct ibv_pd *pd, struct av_allocate_request *req);

/* Create a region of @pd on another region's memory: av_allocated_attach(). */
struct ibv_mr *av_mr_attach(struct ibv_pd *pd, const struct av_attach_request *req);

/* The page policy for regions of that context. */
struct av_page_policy av_mr_pages(const struct av_context *ctx);

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

/*
 * Carry out an advice for a range of the program's addresses in a region, and wait for it: the
 * errors of ibv_advise_mr(3) with FLUSH, without a record. Waits while the region is re-registered.
 */
AV_MUST_USE int av_advise_region(struct av_context *ctx, uint32_t lkey,
				 enum ibv_advise_mr_advice advice,
				 const struct av_odp_range *range);

/* Import by the handle in the origin; NULL and errno. av_dm_forget() ends the import locally. */
struct ibv_dm *av_dm_import(struct av_context *ctx, uint32_t handle);
void av_dm_forget(struct ibv_dm *dm);

/* A region on it has ended; @inherited: in a forked child. The last one frees what is forgotten. */
void av_dm_region_ended(struct av_dm *dm, bool inherited);

/*
 * Copy to and from device memory. @dm: NULL is ENOENT; @unit: offset and length are multiples of it
 * Return: 0, ENOENT, EFAULT (a range that is not there, on either side), or EINVAL
 */
AV_MUST_USE int av_dm_write(struct av_dm *dm, uint64_t offset, const void *host, size_t length,
			    unsigned int unit);
AV_MUST_USE int av_dm_read(void *host, const struct av_dm *dm, uint64_t offset, size_t length,
			   unsigned int unit);

/* The device memory behind its name in experimental verbs; NULL if the pointer is not ours. */
struct av_dm *av_dm_of_exp(const struct ibv_exp_dm *exp);

/* Unbind the windows bound on a queue pair that is being destroyed. */
void av_mw_queue_pair_ends(struct av_context *ctx, uint32_t qpn);

/* --- queues ---------------------------------------------------------------------- */

/* ibv_create_cq() for one of our contexts. Return: CQ, or NULL and errno. */
struct ibv_cq *av_cq_create(struct av_context *ctx, int cqe, void *cq_context,
			    struct ibv_comp_channel *channel, int comp_vector);

/* Attributes that ibv_create_qp() lacks. */
struct av_qp_extra {
	uint32_t inline_recv; /* in: bytes of inline receive wanted; out: granted; 0: off */
	uint32_t max_operand; /* in: largest operand of extended atomics in bytes; 0: none */
	bool blocks_loopback; /* in: see struct av_qp_shared */
};

/* Takes @pd, or for XRC_RECV @xrcd. @extra may be NULL. Return: QP in RESET, or NULL and errno. */
struct ibv_qp *av_qp_create(struct av_context *ctx, struct ibv_pd *pd, struct ibv_xrcd *xrcd,
			    struct ibv_qp_init_attr *attr, struct av_qp_extra *extra);

#endif
