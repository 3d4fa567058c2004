/* SPDX-License-Identifier: MIT */
/*
 * The private halves of objects. One is looked up by context and handle, and must then be that
 * which the pointer names: the pointer is never trusted to lead there. Each begins with the public
 * struct, then zeros: providers look for private fields of their own behind any device's objects.
 */
#ifndef AV_VERBS_OBJECTS_H
#define AV_VERBS_OBJECTS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/queue.h>
#include <infiniband/verbs.h>
#include <infiniband/verbs_exp.h>

#include "base/compiler.h"
#include "base/lock.h"
#include "base/newer_verbs.h"
#include "base/table.h"
#include "device/device.h"
#include "memory/key.h"
#include "memory/odp.h"
#include "memory/region.h"
#include "observe/check.h"
#include "queue/qp.h"
#include "segment/pages.h"
#include "segment/segment.h"

/* === objects ===================================================================== */

#define AV_PEEK_PAD 256

struct av_environment;

/* Of a context, in the order in which they came up: verbs/misuse.c. */
struct av_findings {
	uint64_t count;
	struct av_finding *list; /* the first of them; NULL: there was no memory */
};

struct av_context {
	struct av_device *dev;
	struct av_seg *seg;
	struct av_seg *child_seg; /* in a forked child: its own segment, NULL until needed */
	bool forked;		  /* inherited by a forked child: its objects can only be dropped */
	_Atomic uint32_t cq_ids;  /* distinguishes successive CQs or SRQs with the same index */
	_Atomic uint32_t opened;  /* queue pairs opened so far */
	_Atomic uint32_t srq_count;
	_Atomic uint32_t mw_count;
	struct av_handles pds, tds, channels, ahs, xrcds, klm_lists;
	struct av_table mrs, mws, dms, cqs, qps, srqs; /* by index in the segment's tables */
	_Atomic(struct av_environment *) environment;  /* its own settings; NULL: the process' */
	struct av_findings findings;
	const void *made_at;	      /* verbs/misuse.h */
	SLIST_ENTRY(av_context) link; /* contexts of the process, guarded by their mutex */
	struct verbs_context verbs;   /* ends with the struct ibv_context that the program has */
	uint8_t peek_pad[AV_PEEK_PAD];
};
SLIST_HEAD(av_context_list, av_context);

struct av_td {
	struct ibv_td ibv;
	uint8_t peek_pad[AV_PEEK_PAD];
	uint32_t handle;
	_Atomic uint32_t users; /* number of parent domains */
};

/* What may be on a protection domain. */
enum av_pd_user { AV_PD_MR, AV_PD_MW, AV_PD_QP, AV_PD_SRQ, AV_PD_AH, AV_PD_PARENT, AV_PD_USERS };

struct av_pd {
	struct ibv_pd ibv;
	uint8_t peek_pad[AV_PEEK_PAD];
	_Atomic uint32_t users;		    /* all of them; plus AV_PD_FORGOTTEN */
	_Atomic uint32_t user[AV_PD_USERS]; /* how many of each kind */
	bool imported;
	const void *made_at;	/* verbs/misuse.h */
	struct av_pd *contains; /* of a parent domain, which may be in another; else NULL */
	struct av_td *td;
};

struct av_channel {
	struct ibv_comp_channel ibv;
	uint8_t peek_pad[AV_PEEK_PAD];
	uint32_t doorbell;
	const void *made_at; /* verbs/misuse.h */
	/* verbs/ibv_event.c */
	pthread_mutex_t mutex;		 /* of whoever sorts the FIFO, or takes what is kept */
	_Atomic uint32_t sorts;		 /* begun and ended; odd: somebody is sorting */
	_Atomic uint32_t kept_count;	 /* changed under @mutex */
	struct av_doorbell_record *kept; /* in order */
};

struct av_xrcd {
	struct ibv_xrcd ibv;
	uint8_t peek_pad[AV_PEEK_PAD];
	uint32_t handle;
	uint32_t number; /* of the domain, among all processes */
	bool shared;	 /* identified by an inode */
	_Atomic uint32_t users;
};

struct av_cq {
	union {
		struct ibv_cq ibv;
		struct ibv_cq_ex ex;
	};
	uint8_t peek_pad[AV_PEEK_PAD];
	struct av_cq_shared *shared;
	const void *made_at; /* verbs/misuse.h */
	uint32_t id;
	_Atomic uint32_t users;	  /* QPs; one with both queues here counts twice */
	_Atomic uint32_t waiting; /* threads in anyverbs_cq_wait() */
	uint32_t comp_delivered;  /* guarded by ibv.mutex */
	uint32_t async_delivered; /* guarded by ibv.mutex */

	/* For extended polling: */
	pthread_mutex_t batch; /* held from ibv_start_poll() to ibv_end_poll() */
	bool single_threaded;  /* the program promised it, so @batch is not taken */
	bool in_batch;
	struct ibv_wc current; /* the completion being read */
	uint64_t stamp_ns;     /* when it was appended */
};

struct av_srq {
	struct ibv_srq ibv;
	uint8_t peek_pad[AV_PEEK_PAD];
	struct av_rq_shared *shared;
	struct av_pd *pd;
	const void *made_at;  /* verbs/misuse.h */
	struct av_xrcd *xrcd; /* XRC only */
	struct av_cq *cq;     /* XRC only */
	uint32_t index, id;
	pthread_mutex_t users_mutex; /* and one ibv_modify_srq() at a time */
	LIST_HEAD(, av_qp) users;    /* the queue pairs on it, under users_mutex */
	_Atomic uint32_t user_count; /* how many; in a forked child, @users is left as it was */
	uint32_t async_delivered;    /* under ibv.mutex */
};

struct av_qp {
	union {
		struct ibv_qp ibv;
		struct ibv_qp_ex ex;
		struct {
			uint8_t known[AV_WR_ATOMIC_WRITE_SLOT];
			av_wr_atomic_write *wr_atomic_write;
			av_wr_flush *wr_flush;
		} newer; /* builders that the header may lack */
	};
	uint8_t peek_pad[AV_PEEK_PAD];
	struct av_qp_ref end;
	const void *made_at; /* verbs/misuse.h */
	struct av_rq_shared *rq;
	struct av_qp_ref peer;	       /* its destination, guarded by the @exec execution right */
	pthread_mutex_t changes_mutex; /* one change at a time: of its attributes, or its groups */
	bool opened;   /* by ibv_open_qp(): the shared half belongs to another object */
	bool extended; /* created with send operations for ibv_wr_*() */
	bool umr;      /* may change UMR keys, with up to @inline_klms elements in the request */
	uint32_t inline_klms;
	struct {
		uint32_t tail; /* after the last request built */
		int err;       /* the first error since ibv_wr_start(), and what was wrong */
		enum av_check check;
		uint64_t wanted, limit;
		struct av_sq_wqe *wqe; /* the request under construction; NULL: none, or an error */
	} build; /* of who holds @append: from ibv_wr_start() to ibv_wr_complete() or _abort() */
	struct av_pd *pd;
	struct av_cq *send_cq, *recv_cq;
	struct av_xrcd *xrcd;	  /* XRC_RECV */
	_Atomic uint32_t groups;  /* multicast attachments */
	struct av_srq *srq;	  /* NULL: a receive queue of its own */
	LIST_ENTRY(av_qp) on_srq; /* in its list of users */
	uint32_t async_delivered; /* under ibv.mutex */
};

struct av_dm {
	struct ibv_dm ibv;
	uint8_t peek_pad[AV_PEEK_PAD];
	struct ibv_exp_dm exp; /* the same block for experimental verbs */
	bool imported;
	struct av_seg *seg; /* of the process that allocated it */
	uint64_t offset;    /* offset in the segment */
	uint64_t length;
	uint64_t block;	       /* bytes allocated from the segment */
	uint32_t key;	       /* of the block, in that segment */
	_Atomic uint32_t refs; /* the object, until it is freed or forgotten; regions on it */
};

/* How ibv_rereg_mr() and ibv_bind_mw() treat a region. */
enum av_mr_sort {
	AV_MR_PLAIN,	 /* memory of the program */
	AV_MR_ALLOCATED, /* memory allocated with the region: @memory */
	AV_MR_NULL,	 /* ibv_alloc_null_mr() */
	AV_MR_DEVICE,	 /* ibv_reg_dm_mr() */
	AV_MR_DMABUF,	 /* ibv_reg_dmabuf_mr() */
	AV_MR_INDIRECT,	 /* ibv_exp_create_mr() */
	AV_MR_IMPORTED,	 /* ibv_import_mr(): the key belongs to another context */
};

struct av_mr {
	struct ibv_mr ibv;
	uint8_t peek_pad[AV_PEEK_PAD];
	struct av_pd *pd;
	const void *made_at; /* verbs/misuse.h */
	enum av_mr_sort sort;
	uint32_t handle; /* ibv.handle as set by us */
	uint32_t access;
	uint64_t iova; /* address of the first byte as chosen by the program, even if zero based */
	struct av_dm *dm; /* AV_MR_DEVICE: its device memory */
	void *mapping;	  /* AV_MR_DMABUF: our mapping of the buffer */
	size_t mapped;	  /* length of @mapping in bytes */
	struct av_allocated memory;
	uint64_t list;	      /* AV_MR_INDIRECT: offset of its list in the segment */
	uint32_t klms;	      /* room in the list, in elements */
	bool fixed;	      /* all elements have the same length */
	uint32_t heap;	      /* its part of the shared heap: memory/region.h */
	atomic_bool changing; /* a thread re-registers or deregisters it */
};

/* Is this one of our contexts? Compares pointers only. */
static inline bool av_ours(const struct ibv_context *context)
{
	return av_device_of(context->device) != NULL;
}

/* Our context behind a public one. Means nothing, but does no harm, if that is not ours. */
static inline struct av_context *av_context_of(const struct ibv_context *context)
{
	return av_container_of(context, struct av_context, verbs.context);
}

/* The number by which keys and queue pairs of a domain recognise each other. */
static inline uint32_t av_pd_id(const struct av_pd *pd)
{
	while (pd->contains)
		pd = pd->contains;
	return pd->ibv.handle;
}

/* Index of a handle in the table of regions. */
static inline uint32_t av_mr_place(uint32_t handle)
{
	return handle & ((1u << AV_HANDLE_INDEX_BITS) - 1);
}

/* Defines av_NAME_find(): our object, or NULL if its handle does not lead back to the pointer. */
#define AV_FIND(name, table)                                                            \
	static inline struct av_##name *av_##name##_find(const struct ibv_##name *ibv)  \
	{                                                                               \
		struct av_##name *found =                                               \
			av_table_get(&av_context_of(ibv->context)->table, ibv->handle); \
                                                                                        \
		return av_likely(found && &found->ibv == ibv) ? found : NULL;           \
	}

/* And av_NAME_in(): the same if it is of that context. NULL for NULL. */
#define AV_FIND_IN(name, table)                                                           \
	AV_FIND(name, table)                                                              \
	static inline struct av_##name *av_##name##_in(const struct ibv_context *context, \
						       const struct ibv_##name *ibv)      \
	{                                                                                 \
		return ibv && ibv->context == context ? av_##name##_find(ibv) : NULL;     \
	}

AV_FIND_IN(pd, pds.table)
AV_FIND_IN(cq, cqs)
AV_FIND_IN(srq, srqs)
AV_FIND_IN(dm, dms)
AV_FIND(qp, qps)

/* The public struct has no handle; the one in our private half is checked against the table. */
static inline struct av_xrcd *av_xrcd_find(const struct av_context *ctx, struct ibv_xrcd *ibv)
{
	struct av_xrcd *xrcd = av_container_of(ibv, struct av_xrcd, ibv);

	return ibv && ibv->context == &ctx->verbs.context &&
			       av_table_get(&ctx->xrcds.table, xrcd->handle) == xrcd
		       ? xrcd
		       : NULL;
}

static inline struct av_mr *av_mr_find(const struct ibv_mr *mr)
{
	struct av_mr *found =
		av_table_get(&av_context_of(mr->context)->mrs, av_mr_place(mr->handle));

	return found && &found->ibv == mr && found->handle == mr->handle ? found : NULL;
}

/* What the file of one kind of object does for those of others, and for src/exp/. */

struct av_misuse_object;

/* --- contexts -------------------------------------------------------------------- */

/* Is @lkey an ODP region's of another context here on this device? Context: no lock held. */
bool av_context_other_has(const struct av_context *ctx, uint32_t lkey);

/* --- a context's own settings: ibv_exp_use_priv_env(3), ibv_exp_setenv(3) ------------- */

/* Give the context settings of its own, copied from the process. Return: 0 or ENOMEM. */
AV_MUST_USE int av_environment_detach(struct av_context *ctx);

/* setenv(3) in the context's own settings, or the process's. Return: 0, EINVAL or ENOMEM. */
AV_MUST_USE int av_environment_set(struct av_context *ctx, const char *name, const char *value,
				   bool overwrite);

/* The page policy of this kind of object now. Says each value out of range on stderr. */
struct av_page_policy av_environment_pages(const struct av_context *ctx,
					   const struct av_page_object *object);

/* --- events ---------------------------------------------------------------------- */

/* Off the table that delivers events: no new one finds the object; earlier ones are counted. */
void av_unlist(struct av_context *ctx, struct av_table *table, uint32_t handle);

/* Wait until @completed is @delivered. Context: without @mutex, which guards both. */
void av_event_wait(pthread_mutex_t *mutex, pthread_cond_t *cond, const uint32_t *completed,
		   const uint32_t *delivered, struct av_misuse_object of);

/* Remove a CQ's unread records: it is being destroyed, or its events go elsewhere from now on. */
void av_channel_forget(const struct av_cq *cq);

/* --- domains and addresses ------------------------------------------------------- */

/* Our thread domain, or NULL if it is none of its context. */
struct av_td *av_td_find(struct ibv_td *td);

/*
 * Add (@by: 1) or drop (-1) the use of a domain by an object of this kind. A domain that is in use
 * cannot be destroyed. The last user frees a domain that ibv_unimport_pd() has removed.
 */
void av_pd_count(struct av_pd *pd, enum av_pd_user kind, int by);

/* Is it the port's? Costs system calls if the GID's row is not known. Return: 0, EINVAL, ENOMEM. */
AV_MUST_USE int av_check_ah_attr(const struct av_context *ctx, const struct ibv_ah_attr *attr);

/* The address vector of a handle; NULL if it is not ours, or pointer and handle do not match. */
const struct ibv_ah_attr *av_ah_attr(const struct ibv_ah *ah);

/* --- memory ---------------------------------------------------------------------- */

/* A region with a new key: @what but for its pd. @dm: or NULL. Errors: ENOENT (PD), ENOMEM. */
struct av_mr *av_mr_publish(struct ibv_pd *pd, struct av_key *what, void *addr, struct av_dm *dm);

/* ibv_reg_mr_iova2(). @access as of struct av_key: also rights that plain verbs do not know. */
struct ibv_mr *av_reg_mr(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
			 uint32_t access);

/* With memory of its own; @req lacks the policy. Errors: av_allocated_make()'s, ibv_reg_mr()'s. */
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

/*
 * Carry out an advice for a range of the program's addresses in a region, and wait for it: the
 * errors of ibv_advise_mr(3) with FLUSH, without a record. Waits while the region is re-registered.
 */
AV_MUST_USE int av_advise_region(struct av_context *ctx, uint32_t lkey,
				 enum ibv_advise_mr_advice advice,
				 const struct av_odp_range *range);

/* A region on it has ended; @inherited: in a forked child. The last one frees what is forgotten. */
void av_dm_region_ended(struct av_dm *dm, bool inherited);

/*
 * Find the bytes of a range of device memory. @unit: offset and length must be multiples of it
 * @bytes: out, in the segment that holds them; av_copy() reaches them.
 * Return: 0; ENOENT: @dm is NULL or has been freed; EFAULT: beyond the memory; EINVAL: @unit
 */
AV_MUST_USE int av_dm_range(const struct av_dm *dm, uint64_t offset, size_t length,
			    unsigned int unit, void **bytes);

/* The device memory behind its name in experimental verbs; NULL if the pointer is not ours. */
struct av_dm *av_dm_of_exp(const struct ibv_exp_dm *exp);

/* Unbind the windows bound on a queue pair that is being destroyed. */
void av_mw_queue_pair_ends(struct av_context *ctx, struct av_qp_ref *end);

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

/* --- the dispatch tables of <infiniband/verbs.h> --------------------------------- */

/* Sets every member of a new context's tables. What the device lacks fails with EOPNOTSUPP. */
void av_ops_fill(struct verbs_context *verbs);

/* For av_ops_fill(): the file of an object sets the members that it implements. */
void av_query_fill_ops(struct verbs_context *verbs);
void av_pd_fill_ops(struct verbs_context *verbs);
void av_mr_fill_ops(struct verbs_context *verbs);
void av_dm_fill_ops(struct verbs_context *verbs);
void av_cq_fill_ops(struct verbs_context *verbs);
void av_srq_fill_ops(struct verbs_context *verbs);
void av_qp_fill_ops(struct verbs_context *verbs);

/* Members that another file sets or calls. Each does what its manual page says, for our objects. */
int av_advise_mr(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags,
		 struct ibv_sge *sge, uint32_t count);
struct ibv_srq *av_create_srq_ex(struct ibv_context *context, struct ibv_srq_init_attr_ex *init);
struct ibv_qp *av_open_qp(struct ibv_context *context, struct ibv_qp_open_attr *attr);

/* --- posting --------------------------------------------------------------------- */

/* ibv_post_send(), also for requests that exp/ translated. @operands: av_sq_post()'s, or NULL. */
int av_post_translated(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr,
		       const struct av_atomic *operands);

/* Post a request that plain verbs lack. Return: 0, EINVAL (state, list), ENOMEM (full). */
int av_post_special(struct av_qp *qp, const struct av_sq_special *req);

#endif
