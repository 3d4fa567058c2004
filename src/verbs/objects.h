/* SPDX-License-Identifier: MIT */
/*
 * Our objects, and what their files do for each other and for src/exp/.
 *
 * A verb never trusts the program's pointer, to the public struct with which ours begins: it looks
 * the handle up in the context's table, and compares. Behind the public struct are AV_PEEK_PAD zero
 * bytes, since providers of other devices read private fields of their own there.
 */
#pragma once

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

#define AV_PEEK_PAD 256

struct av_environment;

/* Misuse of a context's objects (misuse.c). No lock: a forked child might find it held. */
struct av_findings {
	_Atomic(struct av_finding *) last;
	_Atomic uint64_t count; /* with those that found no memory, or were too many */
};

struct av_context {
	struct av_device *dev;
	struct av_seg *seg;
	struct av_seg *child_seg; /* a forked child's own segment; NULL until it needs one */
	bool forked;		  /* this is a forked child's: it may only destroy the objects */
	_Atomic bool unusual;	  /* forked, or with fault rules: posts and polls look closer */
	_Atomic uint32_t cq_ids;  /* the last id: tells CQs and SRQs that reuse an index apart */
	_Atomic uint32_t opened;  /* queue pairs that ibv_open_qp() has opened so far */
	_Atomic uint32_t srq_count;
	_Atomic uint32_t mw_count;
	struct av_handles pds, tds, channels, ahs, xrcds, klm_lists;
	struct av_table mrs, mws, dms, cqs, qps, srqs; /* by index in the segment's tables */
	_Atomic(struct av_environment *) environment;  /* its settings; NULL: the process's */
	/* Of a strict device, behind its own: verbs/strict_poll.c. */
	int (*plain_poll)(struct ibv_cq *ibv, int count, struct ibv_wc *wc);
	int (*plain_notify)(struct ibv_cq *ibv, int solicited_only);
	_Atomic uint64_t notified;		      /* calls of it so far */
	_Atomic uint64_t used_undefined, used_events; /* the last records + 1 */
	struct av_findings findings;
	const void *made_at;	      /* verbs/misuse.h */
	SLIST_ENTRY(av_context) link; /* of the process's contexts; ibv_context.c has the mutex */
	struct verbs_context verbs;   /* ends with the struct ibv_context that the program has */
	uint8_t peek_pad[AV_PEEK_PAD];
};
SLIST_HEAD(av_context_list, av_context);

struct av_td {
	struct ibv_td ibv;
	uint8_t peek_pad[AV_PEEK_PAD];
	uint32_t handle;
	_Atomic uint32_t users; /* parent domains with this thread domain */
};

/* What may be on a protection domain. */
enum av_pd_user { AV_PD_MR, AV_PD_MW, AV_PD_QP, AV_PD_SRQ, AV_PD_AH, AV_PD_PARENT, AV_PD_USERS };

struct av_pd {
	struct ibv_pd ibv;
	uint8_t peek_pad[AV_PEEK_PAD];
	_Atomic uint32_t users;		    /* objects on it, plus AV_PD_FORGOTTEN */
	_Atomic uint32_t user[AV_PD_USERS]; /* objects on it by kind */
	bool imported;
	const void *made_at;	/* verbs/misuse.h */
	struct av_pd *contains; /* the domain, or parent domain, in a parent domain; or NULL */
	struct av_td *td;
};

struct av_channel {
	struct ibv_comp_channel ibv;
	uint8_t peek_pad[AV_PEEK_PAD];
	uint32_t doorbell;
	const void *made_at; /* verbs/misuse.h */
	/* verbs/ibv_event.c */
	pthread_mutex_t mutex;		 /* who sorts the FIFO or takes a kept record holds it */
	_Atomic uint32_t sorts;		 /* begins and ends of sorting; odd: a thread sorts */
	_Atomic uint32_t kept_count;	 /* records in @kept; changed under @mutex */
	struct av_doorbell_record *kept; /* what found no room in the FIFO, oldest first */
};

struct av_xrcd {
	struct ibv_xrcd ibv;
	uint8_t peek_pad[AV_PEEK_PAD];
	uint32_t handle;
	uint32_t number; /* of the domain, in all processes */
	bool shared;	 /* an inode identifies it */
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
	_Atomic uint32_t users;	  /* queues of QPs that complete here, and XRC SRQs */
	_Atomic uint32_t waiting; /* threads in anyverbs_cq_wait() */
	uint32_t comp_delivered;  /* completion events that the program got; under ibv.mutex */
	uint32_t async_delivered; /* asynchronous ones; under ibv.mutex */

	/* Extended polling */
	pthread_mutex_t batch; /* one thread holds it from ibv_start_poll() to ibv_end_poll() */
	bool single_threaded;  /* the program promised one thread: nobody takes @batch */
	bool in_batch;
	struct ibv_wc current; /* the completion that the program reads */
	uint64_t stamp_ns;     /* when the transport appended it; monotonic */
	/* Of a strict device, behind its own: verbs/strict_poll.c. */
	int (*plain_start)(struct ibv_cq_ex *ex, struct ibv_poll_cq_attr *attr);
	int (*plain_next)(struct ibv_cq_ex *ex);
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
	pthread_mutex_t users_mutex; /* guards @users, and lets one ibv_modify_srq() in */
	LIST_HEAD(, av_qp) users;    /* the queue pairs on it; a forked child leaves it alone */
	_Atomic uint32_t user_count; /* how many there are; also right in a forked child */
	uint32_t async_delivered;    /* events that the program got; under ibv.mutex */
};

struct av_qp {
	union {
		struct ibv_qp ibv;
		struct ibv_qp_ex ex;
		struct {
			uint8_t known[AV_WR_ATOMIC_WRITE_SLOT];
			av_wr_atomic_write *wr_atomic_write;
			av_wr_flush *wr_flush;
		} newer; /* builders that <infiniband/verbs.h> may lack */
	};
	uint8_t peek_pad[AV_PEEK_PAD];
	struct av_qp_ref end;
	const void *made_at; /* verbs/misuse.h */
	struct av_rq_shared *rq;
	struct av_qp_ref peer;	       /* its destination; under @req_lock */
	pthread_mutex_t changes_mutex; /* one thread at a time changes attributes or groups */
	bool opened;   /* ibv_open_qp() made it: the shared half belongs to another object */
	bool extended; /* the program may post by ibv_wr_*() */
	bool umr;      /* it may change UMR keys, with up to @inline_klms elements in a request */
	uint32_t inline_klms;
	struct {
		uint32_t tail; /* the ring's tail with the requests built so far */
		int err;       /* the first error since ibv_wr_start(), and what was wrong */
		enum av_check check;
		uint64_t wanted, limit;
		struct av_sq_wqe *wqe; /* the request under construction; NULL: none, or an error */
	} build; /* its holder has @append, from ibv_wr_start() to ibv_wr_complete() or _abort() */
	struct av_pd *pd;
	struct av_cq *send_cq, *recv_cq;
	struct av_xrcd *xrcd;	  /* XRC_RECV */
	_Atomic uint32_t groups;  /* multicast groups that it is attached to */
	struct av_srq *srq;	  /* NULL: it has a receive queue of its own */
	LIST_ENTRY(av_qp) on_srq; /* in the SRQ's list of users */
	uint32_t async_delivered; /* events that the program got; under ibv.mutex */
};

struct av_dm {
	struct ibv_dm ibv;
	uint8_t peek_pad[AV_PEEK_PAD];
	struct ibv_exp_dm exp; /* the public struct of experimental verbs */
	bool imported;
	struct av_seg *seg;    /* the segment that has the bytes: of the process that allocated */
	uint64_t offset;       /* bytes, in @seg */
	uint64_t length;       /* bytes that the program asked for */
	uint64_t block;	       /* bytes taken from @seg */
	uint32_t key;	       /* by which others import it from @seg */
	_Atomic uint32_t refs; /* 1 until the program frees it, plus 1 for each region on it */
};

/* How ibv_rereg_mr() and ibv_bind_mw() treat a region. */
enum av_mr_sort {
	AV_MR_PLAIN,	 /* memory of the program */
	AV_MR_ALLOCATED, /* memory that the library allocated for it: @memory */
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
	uint32_t handle;  /* ibv.handle as we set it */
	uint32_t rkey;	  /* ibv.rkey as we set it, if it is not the lkey; else 0 */
	uint32_t access;  /* as in struct av_key */
	uint64_t iova;	  /* the address that the program chose, also if it is zero based */
	struct av_dm *dm; /* AV_MR_DEVICE */
	void *mapping;	  /* AV_MR_DMABUF: our mapping of the buffer */
	size_t mapped;	  /* bytes of @mapping */
	struct av_allocated memory;
	uint64_t list;	      /* AV_MR_INDIRECT: offset of its list in the segment */
	uint32_t klms;	      /* elements that the list has room for */
	bool fixed;	      /* all its elements have the same length */
	uint32_t heap;	      /* its part of the shared heap: memory/region.h */
	atomic_bool changing; /* a thread re-registers or deregisters it */
};

/* Is this one of our contexts? Reads nothing but the pointer to the device. */
static inline bool av_ours(const struct ibv_context *context)
{
	return av_device_of(context->device) != NULL;
}

/* Our context of a public one. If that is another provider's, the pointer must not be followed. */
static inline struct av_context *av_context_of(const struct ibv_context *context)
{
	return av_container_of(context, struct av_context, verbs.context);
}

/* The domain's number: a key and a queue pair with the same number may work together. */
static inline uint32_t av_pd_id(const struct av_pd *pd)
{
	while (pd->contains)
		pd = pd->contains;
	return pd->ibv.handle;
}

/* A region's index in the context's table, by its handle. */
static inline uint32_t av_mr_place(uint32_t handle)
{
	return handle & ((1u << AV_HANDLE_INDEX_BITS) - 1);
}

static inline bool av_is_unusual(const struct av_context *ctx)
{
	return atomic_load_explicit(&ctx->unusual, memory_order_relaxed);
}

/* Defines av_NAME_find(): our object. NULL: the handle does not lead to the program's pointer. */
#define AV_FIND(name, table)                                                            \
	static inline struct av_##name *av_##name##_find(const struct ibv_##name *ibv)  \
	{                                                                               \
		struct av_##name *found =                                               \
			av_table_get(&av_context_of(ibv->context)->table, ibv->handle); \
                                                                                        \
		return av_likely(found && &found->ibv == ibv) ? found : NULL;           \
	}

/* Defines av_NAME_usable(): the same, but NULL for objects of an unusual context. */
#define AV_FIND_USABLE(name, table)                                                            \
	static inline struct av_##name *av_##name##_usable(const struct ibv_##name *ibv)       \
	{                                                                                      \
		const struct av_context *ctx =                                                 \
			av_container_of(ibv->context, struct av_context, verbs.context);       \
		struct av_##name *found = av_table_get(&ctx->table, ibv->handle);              \
		const bool usual = !atomic_load_explicit(&ctx->unusual, memory_order_relaxed); \
                                                                                               \
		return av_likely(found && &found->ibv == ibv && usual) ? found : NULL;         \
	}

/* Also defines av_NAME_in(): the same, and NULL for NULL or an object of another context. */
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
AV_FIND_USABLE(qp, qps)
AV_FIND_USABLE(cq, cqs)

/* The public struct has no handle. The table confirms the one that seems to be behind it. */
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

struct av_misuse_object;

/* --- contexts -------------------------------------------------------------------- */

/* Has another context of this process and device an ODP region of @lkey? Context: no lock held */
bool av_context_other_has(const struct av_context *ctx, uint32_t lkey);

/* ibv_exp_use_priv_env(3): copy the process's environment to the context. Return: 0 or ENOMEM */
AV_MUST_USE int av_environment_detach(struct av_context *ctx);

/* ibv_exp_setenv(3): in the process's settings if it has none. Return: 0, EINVAL or ENOMEM */
AV_MUST_USE int av_environment_set(struct av_context *ctx, const char *name, const char *value,
				   bool overwrite);

/* Read the page policy for a kind of object from the settings. Bad values go to stderr. */
struct av_page_policy av_environment_pages(const struct av_context *ctx,
					   const struct av_page_object *object);

/* --- events ---------------------------------------------------------------------- */

/*
 * Remove an object that is about to be destroyed from its table. From then on no event finds it;
 * those that the program got before are counted. Context: without the context's mutex
 */
void av_unlist(struct av_context *ctx, struct av_table *table, uint32_t handle);

/*
 * Wait until the program has acknowledged all events of an object: *@completed equals *@delivered,
 * under @mutex. @of: to blame if that takes long. Context: without @mutex; may wait for ever
 */
void av_event_wait(pthread_mutex_t *mutex, pthread_cond_t *cond, const uint32_t *completed,
		   const uint32_t *delivered, struct av_misuse_object of);

/* Remove a CQ's unread records from its channel, if it has one. Context: no lock held */
void av_channel_forget(const struct av_cq *cq);

/* --- domains and addresses ------------------------------------------------------- */

/* Our thread domain. NULL: its context has none at this pointer. */
struct av_td *av_td_find(struct ibv_td *td);

/*
 * Add (@by: 1) or drop (-1) the use of a domain by an object of this kind. A domain in use cannot
 * be destroyed. The last user frees a domain that ibv_unimport_pd() has removed.
 */
void av_pd_count(struct av_pd *pd, enum av_pd_user kind, int by);

/*
 * Check that an address vector names our port, and a GID that this has. If the GID's row is new,
 * reads the host's addresses. Return: 0, EINVAL or ENOMEM
 */
AV_MUST_USE int av_check_ah_attr(const struct av_context *ctx, const struct ibv_ah_attr *attr);

/* The address vector of a handle; as long as that exists. NULL: it is none of ours. */
const struct ibv_ah_attr *av_ah_attr(const struct ibv_ah *ah);

/* --- memory ---------------------------------------------------------------------- */

/*
 * Create a region and its key. @what: the key's fields but @pd, which this sets; on failure, ends
 * its @heap. @dm: the device memory, or NULL. Return: NULL and ENOENT (no such PD) or ENOMEM
 */
struct av_mr *av_mr_publish(struct ibv_pd *pd, struct av_key *what, void *addr, struct av_dm *dm);

/* ibv_reg_mr_iova2(3). @access: as in struct av_key, also rights that plain verbs do not know. */
struct ibv_mr *av_reg_mr(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
			 uint32_t access);

/* Allocate and register memory. Sets @req's policy. Errors: av_allocated_make(), ibv_reg_mr(3) */
struct ibv_mr *av_mr_allocate(struct ibv_pd *pd, struct av_allocate_request *req);

/* Register a shared region's memory. Return: NULL and errno, as av_allocated_attach() */
struct ibv_mr *av_mr_attach(struct ibv_pd *pd, const struct av_attach_request *req);

/* The arguments of ibv_rereg_mr(3). */
struct av_mr_change {
	int flags;
	struct ibv_pd *pd;
	void *addr;
	size_t length;
	uint32_t access; /* as in struct av_key */
	bool allocate;	 /* the library allocates the new memory; then @addr is NULL */
};

/* Re-register a region of ours. Return: 0, or enum ibv_rereg_mr_err_code and errno */
int av_mr_rereg(struct ibv_mr *ibv, const struct av_mr_change *c);

/*
 * Carry out an advice and wait for it, as ibv_advise_mr(3) with FLUSH. @range: addresses of the
 * program within the region. Waits for re-registration. Return: 0 or an errno value, not recorded
 */
AV_MUST_USE int av_advise_region(struct av_context *ctx, uint32_t lkey,
				 enum ibv_advise_mr_advice advice,
				 const struct av_odp_range *range);

/*
 * Drop a region's use of device memory. The last frees a block that the program has freed or
 * unimported. @inherited: a forked child drops a region of its parent
 */
void av_dm_region_ended(struct av_dm *dm, bool inherited);

/*
 * The bytes of a range of device memory, for av_copy(). @dm: or NULL. @unit: divides both, else
 * EINVAL; bytes. Return: also 0; ENOENT: NULL, or its exporter has freed it; EFAULT: beyond it
 */
AV_MUST_USE int av_dm_range(const struct av_dm *dm, uint64_t offset, size_t length,
			    unsigned int unit, void **bytes);

/* The device memory of an experimental struct. NULL: it is none of ours. */
struct av_dm *av_dm_of_exp(const struct ibv_exp_dm *exp);

/* Unbind the windows that are bound to a queue pair, which is being destroyed. */
void av_mw_queue_pair_ends(struct av_context *ctx, struct av_qp_ref *end);

/* --- queues ---------------------------------------------------------------------- */

/* ibv_create_cq(3) for one of our contexts. Return: NULL and errno */
struct ibv_cq *av_cq_create(struct av_context *ctx, int cqe, void *cq_context,
			    struct ibv_comp_channel *channel, int comp_vector);

/* Attributes that ibv_create_qp(3) lacks. */
struct av_qp_extra {
	uint32_t inline_recv; /* in: bytes of inline receive wanted; out: granted; 0: off */
	uint32_t max_operand; /* in: bytes of the largest operand of extended atomics; 0: none */
	bool blocks_loopback; /* in: as in struct av_qp_shared */
};

/*
 * Create a queue pair in RESET, with @pd, or for XRC_RECV @xrcd; ignores the other. @attr: in; out:
 * the capacities granted. @extra: or NULL. Return: NULL and errno
 */
struct ibv_qp *av_qp_create(struct av_context *ctx, struct ibv_pd *pd, struct ibv_xrcd *xrcd,
			    struct ibv_qp_init_attr *attr, struct av_qp_extra *extra);

/* --- the dispatch tables of <infiniband/verbs.h> --------------------------------- */

/* Set every member of a new context's tables. What the device lacks fails with EOPNOTSUPP. */
void av_ops_fill(struct verbs_context *verbs);

/* For av_ops_fill(): each file sets the members that it implements. */
void av_query_fill_ops(struct verbs_context *verbs);
void av_pd_fill_ops(struct verbs_context *verbs);
void av_mr_fill_ops(struct verbs_context *verbs);
void av_dm_fill_ops(struct verbs_context *verbs);
void av_cq_fill_ops(struct verbs_context *verbs);
void av_srq_fill_ops(struct verbs_context *verbs);
void av_qp_fill_ops(struct verbs_context *verbs);
/*
 * The rkey of a region, if a strict device gives it another one than the lkey (verbs/strict_key.c).
 * Context of all: a thread of the owner, no lock or pin held.
 */

/* The rights of @what that the region's own key has: without the remote ones, if the rkey has. */
uint32_t av_lkey_rights(const struct av_seg *seg, const struct av_key *what);

/* Set @mr's rkey, once it has an lkey. @rights: of the region. Return: false: no memory, no rkey */
AV_MUST_USE bool av_rkey_make(const struct av_context *ctx, struct av_mr *mr, uint32_t rights);

/*
 * Let the region change or end: the rkey gives no access until av_rkey_restore(). av_rkey_free()
 * ends it. Return: false: an access through it does not end, and it is as before
 */
AV_MUST_USE bool av_rkey_withdraw(const struct av_context *ctx, const struct av_mr *mr);
void av_rkey_restore(const struct av_context *ctx, const struct av_mr *mr, uint32_t rights);
void av_rkey_free(const struct av_context *ctx, const struct av_mr *mr);

/* Those of a strict device, after all others. Context: the segment is open */
void av_strict_fill_ops(struct av_context *ctx);

/* The readers of a new extended CQ, after the plain ones. */
void av_strict_fill_cq(struct av_cq *cq);

/* Members that another file sets or calls, for our objects only. Their manual pages hold. */
int av_advise_mr(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags,
		 struct ibv_sge *sge, uint32_t count);
struct ibv_srq *av_create_srq_ex(struct ibv_context *context, struct ibv_srq_init_attr_ex *init);
struct ibv_qp *av_open_qp(struct ibv_context *context, struct ibv_qp_open_attr *attr);

/* --- posting --------------------------------------------------------------------- */

/* ibv_post_send(3). @operands: of the requests that exp/ translated, for av_sq_post(); or NULL. */
int av_post_translated(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr,
		       const struct av_atomic *operands);

/* Post a request that plain verbs lack. Return: 0, EINVAL (state, list) or ENOMEM (queue full) */
int av_post_special(struct av_qp *qp, const struct av_sq_special *req);
