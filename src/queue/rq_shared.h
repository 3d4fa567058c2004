/* SPDX-License-Identifier: MIT */
/* A receive queue in its owner's segment: queue/rq.h, queue/rq_take.h. */
#ifndef AV_QUEUE_RQ_SHARED_H
#define AV_QUEUE_RQ_SHARED_H

#include <assert.h>
#include <stdatomic.h>
#include <stdint.h>
#include <infiniband/verbs.h>

#include "base/compiler.h"
#include "base/limits.h"
#include "base/lock.h"
#include "base/raise.h"
#include "segment/segment.h"

struct av_rq_wqe {
	uint64_t wr_id;
	/* Shared queues: whose it is; queue/rq_take.c. Any queue: av_rq_drop(). */
	_Atomic uint64_t taker;
	uint64_t bytes; /* sum of the elements' lengths */
	uint32_t count; /* elements */
	uint32_t unused;
	struct ibv_sge sge[];
};

/* The low half of @taker of a request that av_rq_drop() has marked. No queue pair's number. */
#define AV_RQ_DROPPED (UINT32_MAX - 1)

#define AV_RQ_RUNS 16 /* enough to double one slot up to AV_MAX_SRQ_WR */
static_assert((1u << AV_RQ_RUNS) > AV_MAX_SRQ_WR, "runs of slots");

/* The part in the owner's segment. */
struct av_rq_shared {
	/* Constant while the queue exists. */
	_Atomic uint32_t id; /* shared queues: different for each at this index; 0: belongs to one
				queue pair */
	uint32_t index;
	uint32_t mask; /* the ring has mask + 1 slots */
	uint32_t max_sge;
	uint32_t inline_bytes; /* payload bytes that fit into a slot, behind its elements */
	uint32_t stride;       /* bytes of a slot */
	uint32_t pd;	       /* protection domain its buffers are checked against */
	uint64_t ring;
	_Atomic uint32_t srqn; /* XRC: its number */
	uint32_t xrcd;	       /* XRC: number of its domain */
	uint32_t cq;	       /* XRC: index of the CQ of its completions */

	/*
	 * Changed only by a resize, which holds both locks. Read under one of them, or by a taker,
	 * who then finds that @head has changed.
	 */
	uint32_t capacity;   /* requests it may hold */
	uint32_t places;     /* shared queues: number of slots */
	uint32_t order_mask; /* @order has order_mask + 1 entries, twice as many as @places */
	uint64_t order;	     /* shared queues: entries by request number; 0: not shared */
	uint64_t stack;	     /* shared queues: uint32_t[places], free slots */
	/*
	 * Further slots: run i has (mask + 1) << i of them. Runs are only added, each before one of
	 * its slots is used.
	 */
	_Atomic uint64_t more[AV_RQ_RUNS];

	struct av_lock post_lock AV_ALIGNED(AV_CACHE_LINE);
	_Atomic uint32_t tail;	/* free-running: requests posted */
	_Atomic uint32_t freed; /* requests whose slots are free again */
	uint32_t stacked;	/* entries of @stack */
	/* A requester waits for the next request. In this line, since posters read it each time. */
	_Atomic uint32_t waiting;

	_Atomic uint64_t head AV_ALIGNED(AV_CACHE_LINE); /* av_rq_taken(); queue/rq_take.c */
	struct av_lock take_lock; /* shared queues: to put a request back, and to change arrays */
	uint32_t reached;	  /* shared queues: the most requests ever taken, as far as known */
	uint32_t tail_seen; /* takers' copy of @tail, so that they rarely read the posters' line;
			       for queues that are not shared */
	_Atomic uint32_t dropped; /* there are requests that av_rq_drop() has marked */
	struct av_raise limit;	  /* shared queues: queue/srq_limit.h */
};
static_assert(sizeof(struct av_rq_shared) <= AV_RQ_BYTES, "receive queue table entry");

static inline struct av_rq_shared *av_rq_at(const struct av_seg *seg, uint32_t index)
{
	return av_slab_at(seg, AV_SLAB_RQ, index, AV_RQ_BYTES, AV_RQ_CHUNK);
}

/* Requests taken, free-running. */
static inline uint32_t av_rq_taken(const struct av_rq_shared *rq)
{
	return (uint32_t)atomic_load_explicit(&rq->head, memory_order_relaxed);
}

/* Requests that are posted and not taken. A hint, unless nobody else takes or posts. */
static inline uint32_t av_rq_ready(const struct av_rq_shared *rq)
{
	return atomic_load_explicit(&rq->tail, memory_order_relaxed) - av_rq_taken(rq);
}

#endif
