/* SPDX-License-Identifier: MIT */
/*
 * Receive queues: rings of receive requests in the owner's segment, of one queue pair or shared by
 * many (SRQ). The owner posts, whoever executes a message for it takes, and a request's slot is
 * free again when its completion has been polled.
 *
 * In the queue of one queue pair requests complete in order, so the slot of request @number is
 * number & mask. In a shared one they do not: there @order says which slot each number has, and
 * free slots form a stack. A shared queue that is resized gets further runs of slots behind the
 * ring, each as long as all before it; slots never move, since completions and takers hold their
 * numbers.
 *
 * Thread-safety: posting and freeing of shared slots take @post_lock (the owner's threads). Taking
 * is done by the holder of the queue pair's responder execution right, and in a shared queue with
 * @take_lock. The poster publishes @tail, then looks at @waiting and at the queue pair's state; the
 * taker sets @waiting before its last looks at @tail. With a full barrier on either side, one of
 * them sees the other.
 */
#ifndef AV_QUEUE_RQ_H
#define AV_QUEUE_RQ_H

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <infiniband/verbs.h>

#include "base/compiler.h"
#include "base/lock.h"
#include "base/limits.h"
#include "segment/page_policy.h"
#include "segment/segment.h"

struct av_rq_wqe {
	uint64_t wr_id;
	uint32_t count; /* elements */
	uint32_t taker; /* number of the queue pair that took it, 0: free or posted. For repair, in
			   shared queues. */
	uint64_t bytes; /* sum of the elements' lengths */
	uint64_t unused;
	struct ibv_sge sge[];
};

#define AV_RQ_RUNS 16 /* from one slot to more than there can be */
static_assert((1u << AV_RQ_RUNS) > AV_MAX_SRQ_WR, "runs of slots");

/* The shared part. */
struct av_rq_shared {
	/* Constant while the queue exists. */
	_Atomic uint32_t id; /* shared queues: differs for each of this index; 0: belongs to one
				queue pair */
	uint32_t index;
	uint32_t mask; /* the ring has mask + 1 slots */
	uint32_t max_sge;
	uint32_t inline_bytes; /* a slot has room for so much payload, behind its elements */
	uint32_t stride;       /* bytes of a slot */
	uint32_t pd;	       /* protection domain its buffers are checked against */
	uint64_t ring;
	_Atomic uint32_t
		srqn; /* XRC: its number, the domain it is in, and the CQ of its completions */
	uint32_t xrcd;
	uint32_t cq;

	/* Changed by resizing, with both locks held; each is looked at under one of them. */
	uint32_t capacity;   /* requests it may hold */
	uint32_t places;     /* shared queues: slots there are */
	uint32_t order_mask; /* @order has so many entries, and one more */
	uint64_t order;	     /* shared queues: uint32_t[], slot by number; 0: not shared */
	uint64_t stack;	     /* shared queues: uint32_t[places], free slots */
	/* Further slots: run i has (mask + 1) << i of them. Only added to, before a slot of it is
	 * used. */
	_Atomic uint64_t more[AV_RQ_RUNS];

	struct av_lock post_lock AV_ALIGNED(AV_CACHE_LINE);
	_Atomic uint32_t tail;	/* free-running: requests posted */
	_Atomic uint32_t freed; /* requests whose slots are free again */
	uint32_t stacked;	/* entries of @stack */
	/* A requester waits for the next request. Here, since posters look at it each time. */
	_Atomic uint32_t waiting;

	struct av_lock take_lock AV_ALIGNED(AV_CACHE_LINE);
	_Atomic uint32_t head; /* requests taken */
	uint32_t tail_seen; /* takers' copy of @tail, so that posters' line is looked at rarely; not
			       shared */
	_Atomic uint32_t
		limit; /* shared queues: raise SRQ_LIMIT_REACHED when fewer are left; 0: never */
};
static_assert(sizeof(struct av_rq_shared) <= AV_RQ_BYTES, "receive queue table entry");

static inline struct av_rq_shared *av_rq_at(const struct av_seg *seg, uint32_t index)
{
	return av_slab_at(seg, AV_SLAB_RQ, index, AV_RQ_BYTES, AV_RQ_CHUNK);
}

struct av_rq_request {
	uint32_t capacity; /* 0 .. AV_MAX_QP_WR requests */
	uint32_t max_sge;  /* of at most so many elements */
	uint32_t pd;
	uint32_t inline_bytes; /* 0 .. AV_MAX_INLINE_RECV: room for payload in each slot */
	uint32_t id;	       /* not 0: a shared queue */
	uint32_t xrcd, cq;     /* XRC: see struct av_rq_shared */
	const struct av_page_policy *policy; /* of its ring's pages, NULL: any */
};

/**
 * av_rq_init() - set up a receive queue of an own segment
 * Return: index, or 0 and errno ENOMEM
 */
AV_MUST_USE uint32_t av_rq_init(struct av_seg *seg, const struct av_rq_request *req);
void av_rq_fini(struct av_seg *seg, uint32_t index);

/**
 * av_rq_resize() - have a shared queue hold @capacity requests
 *
 * Requests that are posted, taken or not polled yet are kept. Context: owner's threads, one at a
 * time for a queue; takers and posters go on. Return: 0, EINVAL (more are in use, or the limit is
 * higher), ENOMEM
 */
AV_MUST_USE int av_rq_resize(struct av_seg *seg, struct av_rq_shared *rq, uint32_t capacity);

/* Forget all requests (the queue pair was reset); the caller excludes posters, takers and pollers'
 * use. */
void av_rq_reset(struct av_rq_shared *rq);

/**
 * av_rq_post() - append a list of requests, in the owner's process
 * @bad: out on failure, the first request not posted; those before it are
 * Return: 0, ENOMEM (full), EINVAL (too many elements)
 */
AV_MUST_USE int av_rq_post(struct av_seg *seg, struct av_rq_shared *rq, struct ibv_recv_wr *wr,
			   struct ibv_recv_wr **bad);

/**
 * av_rq_take() - take the next request for queue pair @qpn, whose responder execution right is held
 * @receiving: out, before the request is gone from the queue: where it is, + 1. For repair after a
 * death.
 *
 * Raises SRQ_LIMIT_REACHED where that is due.
 * Return: the request, its @count checked, or NULL if none is posted
 */
const struct av_rq_wqe *av_rq_take(struct av_seg *seg, struct av_rq_shared *rq, uint32_t qpn,
				   uint32_t *receiving);

/* Have what the next av_rq_take() will look at brought in. A hint: takes no lock and may be wrong.
 */
void av_rq_prefetch(struct av_seg *seg, const struct av_rq_shared *rq);

/* Put back what was just taken: the next message will take it. */
void av_rq_untake(struct av_seg *seg, struct av_rq_shared *rq, uint32_t place);

/* The request at that place (number of a taken request, or slot in a shared queue); NULL if the
 * ring is unsound. */
const struct av_rq_wqe *av_rq_wqe(struct av_seg *seg, const struct av_rq_shared *rq,
				  uint32_t place);

/* Its room for payload, @inline_bytes of the queue; NULL if it has none, or the ring is unsound. */
uint8_t *av_rq_payload(struct av_seg *seg, const struct av_rq_shared *rq, uint32_t place);

/* One place is free again: its completion was polled. */
void av_rq_freed(struct av_seg *seg, struct av_rq_shared *rq, uint32_t place);

/**
 * av_rq_repair() - put back the request that a dead holder of @qpn's execution right took from
 * @place and never completed
 * @in_cq: there is a completion of it in the CQ; nothing is put back then, nor if it was polled
 * already
 */
void av_rq_repair(struct av_seg *seg, struct av_rq_shared *rq, uint32_t qpn, uint32_t place,
		  bool in_cq);

/* Set the limit of a shared queue; raises the event at once if it is already undercut. */
void av_rq_set_limit(struct av_seg *seg, struct av_rq_shared *rq, uint32_t limit);

#endif
