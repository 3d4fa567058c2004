/* SPDX-License-Identifier: MIT */
/*
 * The private halves of verbs objects, and how a call finds them from the program's pointer.
 *
 * An object is looked up by context and handle, and must then be the one that the pointer names.
 * The pointer itself is never trusted to lead to a private half. Each struct begins with the public
 * struct, followed by zeros: provider libraries look for private fields of their own behind the
 * objects of any device.
 */
#ifndef AV_VERBS_IBV_CONTEXT_H
#define AV_VERBS_IBV_CONTEXT_H

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/queue.h>
#include <infiniband/verbs.h>

#include "base/compiler.h"
#include "base/lock.h"
#include "base/newer_verbs.h"
#include "base/table.h"
#include "verbs/next.h"
#include "verbs/handles.h"
#include "verbs/misuse.h"
#include "segment/doorbell.h"
#include "device/device.h"
#include "segment/segment.h"
#include "observe/diagnosis.h"
#include "queue/qp.h"
#include "transport/inject.h"

#define AV_PEEK_PAD 256

struct av_environment;

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
	SLIST_ENTRY(av_context) link; /* contexts of the process, guarded by their mutex */
	struct verbs_context verbs;   /* ends with the struct ibv_context that the program has */
	uint8_t peek_pad[AV_PEEK_PAD];
};
SLIST_HEAD(av_context_list, av_context);

struct av_td;

struct av_pd {
	struct ibv_pd ibv;
	uint8_t peek_pad[AV_PEEK_PAD];
	_Atomic uint32_t users; /* MRs, MWs, QPs, SRQs and parent domains; plus AV_PD_FORGOTTEN */
	bool imported;
	const void *made_at;	/* verbs/misuse.h */
	struct av_pd *contains; /* parent domain: the domain it contains; otherwise NULL */
	struct av_td *td;
};

/* The number by which keys and queue pairs of a domain recognise each other. */
static inline uint32_t av_pd_id(const struct av_pd *pd)
{
	return pd->contains ? pd->contains->ibv.handle : pd->ibv.handle;
}

struct av_channel {
	struct ibv_comp_channel ibv;
	uint8_t peek_pad[AV_PEEK_PAD];
	uint32_t doorbell;
	const void *made_at;   /* verbs/misuse.h */
	pthread_mutex_t mutex; /* serialises readers of the FIFO with those who rewrite it */
};

struct av_srq;

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

struct av_qp {
	union {
		struct ibv_qp ibv;
		struct ibv_qp_ex ex;
		struct {
			uint8_t known[AV_WR_FLUSH_SLOT];
			av_wr_flush *wr_flush;
		} newer; /* builders that the header may lack */
	};
	uint8_t peek_pad[AV_PEEK_PAD];
	struct av_qp_end end;
	const void *made_at; /* verbs/misuse.h */
	struct av_rq_shared *rq;
	struct av_qp_end peer; /* its destination, guarded by the @exec execution right */
	bool opened;	       /* by ibv_open_qp(): the shared half belongs to another object */
	bool extended;	       /* created with send operations for ibv_wr_*() */
	bool umr; /* may change UMR keys, with up to @inline_klms elements in the request */
	uint32_t inline_klms;
	struct {
		uint32_t tail;	       /* after the last request built */
		int err;	       /* the first error since ibv_wr_start() */
		struct av_sq_wqe *wqe; /* the request under construction; NULL: none, or an error */
	} build;		       /* between av_post_begin() and av_post_end() */
	struct av_pd *pd;
	struct av_cq *send_cq, *recv_cq;
	struct av_xrcd *xrcd;	  /* XRC_RECV */
	_Atomic uint32_t groups;  /* multicast attachments */
	struct av_srq *srq;	  /* NULL: a receive queue of its own */
	LIST_ENTRY(av_qp) on_srq; /* in its list of users */
	uint32_t async_delivered; /* under ibv.mutex */
};

/* Is this one of our contexts? Compares pointers only. */
static inline bool av_ours(const struct ibv_context *context)
{
	return av_device_of(context->device) != NULL;
}

/* Our context behind a public one, which must be ours. */
static inline struct av_context *av_context_of(const struct ibv_context *context)
{
	return av_container_of(context, struct av_context, verbs.context);
}

/*
 * 0, or the errno value for verbs that need the device: EPERM for the parent's context in a forked
 * child, EIO for a failed device.
 */
static inline int av_context_err(const struct av_context *ctx)
{
	if (av_unlikely(ctx->forked))
		return EPERM;
	return av_unlikely(atomic_load(&ctx->seg->head->fatal)) ? EIO : 0;
}

/* The same for a verb that makes or changes an object. Such a verb may also fail on demand. */
static inline int av_verb_err(const struct av_context *ctx, enum av_fail verb)
{
	int err = av_context_err(ctx);

	return err || !av_faults_watched(ctx->seg) ? err : av_inject_verb(ctx->seg, verb);
}

/* Find our object behind a public pointer; NULL if its handle does not lead back to the pointer. */
static inline struct av_pd *av_pd_find(const struct ibv_pd *pd)
{
	struct av_pd *found = av_table_get(&av_context_of(pd->context)->pds.table, pd->handle);

	return found && &found->ibv == pd ? found : NULL;
}

static inline struct av_cq *av_cq_find(const struct ibv_cq *cq)
{
	struct av_cq *found = av_table_get(&av_context_of(cq->context)->cqs, cq->handle);

	return av_likely(found && &found->ibv == cq) ? found : NULL;
}

static inline struct av_qp *av_qp_find(const struct ibv_qp *qp)
{
	struct av_qp *found = av_table_get(&av_context_of(qp->context)->qps, qp->handle);

	return av_likely(found && &found->ibv == qp) ? found : NULL;
}

/*
 * The ways in which verbs report failure. Each leaves a record (observe/diagnosis.h) with the check
 * that failed, if av_refuse() noted one.
 */
static inline int av_fail_errno(enum av_verb verb, int err)
{
	return errno = av_refused(verb, err);
}

static inline void *av_fail_null(enum av_verb verb, int err)
{
	errno = av_refused(verb, err);
	return NULL;
}

static inline int av_fail_fd(enum av_verb verb, int err)
{
	errno = av_refused(verb, err);
	return -1;
}

/*
 * Open and close a context of one of our devices, for ibv_open_device() and ibv_close_device().
 * @origin: the context to import from, or 0.
 */
struct ibv_context *av_context_open(struct av_device *dev, uint32_t origin);
int av_context_close(struct av_context *ctx);

/*
 * The segment from which this process may allocate memory for a new object: the context's, or, in a
 * forked child, which must not touch its parent's, one of its own. NULL and errno on failure. For
 * device memory.
 */
struct av_seg *av_context_memory(struct av_context *ctx);

/*
 * Does @lkey name an ODP region of another context of this process on the same device? Context: any
 * thread, no lock held.
 */
bool av_context_other_has(const struct av_context *ctx, uint32_t lkey);

/* Can windows be bound to this region at all? */
bool av_mr_may_bind(const struct ibv_mr *mr);

/*
 * Remove an object from a table through which events are delivered. Afterwards no new event finds
 * the object, and all earlier ones have been counted.
 */
void av_unlist(struct av_context *ctx, struct av_table *table, uint32_t handle);

/* Fill the dispatch tables behind the inline verbs of <infiniband/verbs.h>. In verbs/ops.c. */
void av_ops_fill(struct verbs_context *verbs);

/* Verbs that are reached only through the dispatch tables. */
int av_poll_cq(struct ibv_cq *cq, int count, struct ibv_wc *wc);
int av_req_notify_cq(struct ibv_cq *cq, int solicited_only);
int av_modify_cq(struct ibv_cq *cq, struct ibv_modify_cq_attr *attr);
int av_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr);

/* av_post_send() for requests that the library built from others: av_sq_post() with @operands. */
int av_post_translated(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr,
		       const struct av_atomic *operands);

/*
 * Post one request that plain verbs do not have. Return: 0, EINVAL (state, or list too long for the
 * queue), ENOMEM (queue full).
 */
int av_post_special(struct av_qp *qp, const struct av_sq_special *req);
int av_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr);
int av_query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr,
		  size_t size);
int av_query_device_ex(struct ibv_context *context, const struct ibv_query_device_ex_input *input,
		       struct ibv_device_attr_ex *attr, size_t size);

/* Count @n acknowledgements of an object's events; its destruction waits for them. */
void av_event_acknowledge(pthread_mutex_t *mutex, pthread_cond_t *cond, uint32_t *completed,
			  uint32_t n);

/*
 * Wait until @completed has caught up with @delivered. Both are guarded by @mutex, which the caller
 * does not hold. @of: the object, for the report on misuse if the wait is long.
 */
void av_event_wait(pthread_mutex_t *mutex, pthread_cond_t *cond, const uint32_t *completed,
		   const uint32_t *delivered, const struct av_misuse_object *of);

#endif
