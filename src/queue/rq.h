/* SPDX-License-Identifier: MIT */
/*
 * Receive queues: a ring of receive requests in the owner's segment. The owner posts, whoever executes a message
 * for it consumes, and a request's slot is free again when its completion has been polled.
 *
 * Thread-safety: posting takes @post_lock (the owner's threads). Consuming is done by the holder of the queue pair's
 * responder token. @tail is published by the poster with a full barrier and followed by a look at @waiting, and the
 * consumer sets @waiting before its last look at @tail: one of them sees the other.
 */
#ifndef AV_QUEUE_RQ_H
#define AV_QUEUE_RQ_H

#include <assert.h>
#include <stdatomic.h>
#include <stdint.h>
#include <infiniband/verbs.h>

#include "base/compiler.h"
#include "base/lock.h"
#include "hca/segment.h"

struct av_rq_wqe {
	uint64_t wr_id;
	uint32_t count; /* elements */
	uint32_t unused;
	uint64_t bytes; /* sum of their lengths */
	uint64_t unused2;
	struct ibv_sge sge[];
};

/* The shared part. */
struct av_rq_shared {
	/* Constant while the queue exists. */
	uint32_t capacity; /* requests it may hold */
	uint32_t mask;	   /* the ring has mask + 1 slots */
	uint32_t max_sge;
	uint32_t pd; /* protection domain its buffers are checked against */
	uint64_t ring;

	struct av_lock post_lock AV_ALIGNED(AV_CACHE_LINE);
	_Atomic uint32_t tail;	/* free-running: requests posted */
	_Atomic uint32_t freed; /* requests whose slots are free again */

	_Atomic uint32_t head AV_ALIGNED(AV_CACHE_LINE); /* requests consumed; the consumer's token holder writes */
	_Atomic uint32_t waiting; /* a requester waits for the next request */
};
static_assert(sizeof(struct av_rq_shared) <= AV_RQ_BYTES, "receive queue table entry");

static inline struct av_rq_shared *av_rq_at(const struct av_seg *seg, uint32_t index)
{
	return av_slab_at(seg, AV_SLAB_RQ, index, AV_RQ_BYTES, AV_OBJ_CHUNK);
}

/**
 * av_rq_init() - set up a receive queue of an own segment
 * @capacity: 0 .. AV_MAX_QP_WR requests of at most @max_sge elements
 * Return: index, or 0 and errno ENOMEM
 */
AV_MUST_USE uint32_t av_rq_init(struct av_seg *seg, uint32_t capacity, uint32_t max_sge, uint32_t pd);
void av_rq_fini(struct av_seg *seg, uint32_t index);

/* Forget all requests (the queue pair was reset); the caller excludes posters, consumers and pollers' use. */
void av_rq_reset(struct av_rq_shared *rq);

/**
 * av_rq_post() - append a list of requests, in the owner's process
 * @bad: out on failure, the first request not posted; those before it are
 * Return: 0, ENOMEM (full), EINVAL (too many elements)
 */
AV_MUST_USE int av_rq_post(struct av_seg *seg, struct av_rq_shared *rq, struct ibv_recv_wr *wr,
			   struct ibv_recv_wr **bad);

/**
 * av_rq_next() - the request the next message will consume
 * Return: the request, its @count checked against AV_MAX_SGE; NULL if none is posted. It stays in the queue.
 */
const struct av_rq_wqe *av_rq_next(struct av_seg *seg, struct av_rq_shared *rq);

/* The request of that free-running number, which has been posted and not freed; NULL if the ring is unsound. */
const struct av_rq_wqe *av_rq_wqe(struct av_seg *seg, const struct av_rq_shared *rq, uint32_t number);

/* Consume what av_rq_next() returned. */
static inline void av_rq_consume(struct av_rq_shared *rq)
{
	atomic_store_explicit(&rq->head, atomic_load_explicit(&rq->head, memory_order_relaxed) + 1,
			      memory_order_release);
}

/* One slot is free again: its completion was polled. */
static inline void av_rq_slot_freed(struct av_rq_shared *rq)
{
	atomic_fetch_add_explicit(&rq->freed, 1, memory_order_release);
}

#endif
