/* SPDX-License-Identifier: MIT */
/* Receive queues. What takes requests out of one: queue/rq.h. */
#ifndef AV_QUEUE_RQ_H
#define AV_QUEUE_RQ_H

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <infiniband/verbs.h>

#include "base/compiler.h"
#include "base/limits.h"
#include "base/lock.h"
#include "base/wait.h"
#include "segment/pages.h"
#include "segment/segment.h"

/* === rq ========================================================================== */

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
	struct av_oneshot limit;  /* shared queues: queue/rq.h */
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

/* When is the list of a request's elements missing? */

/* @count elements are announced, but @list is NULL. Nobody may look at the elements then. */
#define AV_LIST_MISSING(count, list) av_unlikely((count) > 0 && !(list))

/*
 * Receive queues: rings of receive requests in the owner's segment, for one queue pair or shared by
 * many (SRQ). The owner posts requests, and whoever executes a message takes one. A slot is free
 * again when the request's completion has been polled.
 *
 * In the queue of one queue pair requests complete in order: the slot of request @number is number
 * & mask. In a shared one they do not: @order says which slot each number has, and free slots form
 * a stack. Resizing a shared queue adds runs of slots behind the ring, each as long as all before
 * it. Slots never move, since completions and takers hold their numbers.
 *
 * Thread-safety: posting, and freeing shared slots, take @post_lock (the owner's threads). A taker
 * holds the queue pair's right @resp. The poster publishes @tail, then reads @waiting and the queue
 * pair's state. The taker sets @waiting before its last look at @tail. Each has a full barrier in
 * between, so one of them sees the other.
 *
 * Taking from a shared queue needs no lock, whose holder could be stopped: queue/rq_take.c.
 */

struct av_rq_request {
	uint32_t capacity; /* 0 .. AV_MAX_QP_WR requests */
	uint32_t max_sge;  /* elements of a request, at most */
	uint32_t pd;
	uint32_t inline_bytes; /* 0 .. AV_MAX_INLINE_RECV: room for payload in each slot */
	uint32_t id;	       /* not 0 for a shared queue */
	uint32_t xrcd, cq;     /* XRC: see struct av_rq_shared */
	const struct av_page_policy *policy; /* of its ring's pages; NULL: any */
};

/**
 * av_rq_init() - set up a receive queue of an own segment
 * Return: index, or 0 and errno ENOMEM
 */
AV_MUST_USE uint32_t av_rq_init(struct av_seg *seg, const struct av_rq_request *req);
void av_rq_fini(struct av_seg *seg, uint32_t index);

/**
 * av_rq_resize() - change the capacity of a shared queue
 *
 * Keeps requests that are posted, taken or not polled yet.
 * Context: owner's threads, one at a time for a queue; takers and posters go on.
 * Return:  0, EINVAL (more are in use, or the limit is higher), ENOMEM
 */
AV_MUST_USE int av_rq_resize(struct av_seg *seg, struct av_rq_shared *rq, uint32_t capacity);

/*
 * Forget all requests, since the queue pair was reset: its state says so already.
 * Context: nobody takes or polls for this queue meanwhile.
 */
void av_rq_reset(struct av_rq_shared *rq);

/**
 * av_rq_post() - append a list of requests, in the owner's process
 * @state: of the queue pair, which may be reset at any moment; NULL: a shared queue
 * @bad: out on failure, the first request not posted; those before it are
 * Return: 0, ENOMEM (full), EINVAL (too many elements, or state RESET)
 */
AV_MUST_USE int av_rq_post(struct av_seg *seg, struct av_rq_shared *rq,
			   const _Atomic uint32_t *state, struct ibv_recv_wr *wr,
			   struct ibv_recv_wr **bad);

/**
 * av_rq_take() - take the next request for queue pair @qpn
 * @receiving: out, the request's place + 1, stored before the request leaves the queue. For repair
 * after a death
 *
 * Raises SRQ_LIMIT_REACHED if the limit is undercut.
 * Context: the queue pair's right @resp is held.
 * Return:  the request, with its @count checked, or NULL if none is posted
 */
const struct av_rq_wqe *av_rq_take(struct av_seg *seg, struct av_rq_shared *rq, uint32_t qpn,
				   uint32_t *receiving);

/* Prefetch what the next av_rq_take() reads. A hint: takes no lock and may be wrong. */
void av_rq_prefetch(struct av_seg *seg, const struct av_rq_shared *rq);

/* Put back the request that queue pair @qpn has just taken. The next message takes it. */
void av_rq_untake(struct av_seg *seg, struct av_rq_shared *rq, uint32_t qpn, uint32_t place);

/* The slot at @place, whatever is in it; NULL: the ring is unsound. */
struct av_rq_wqe *av_rq_slot(const struct av_seg *seg, const struct av_rq_shared *rq,
			     uint32_t place);

/*
 * The request at @place: the number of a taken request, or its slot in a shared queue. NULL: the
 * ring is unsound.
 */
const struct av_rq_wqe *av_rq_wqe(struct av_seg *seg, const struct av_rq_shared *rq,
				  uint32_t place);

/*
 * The room for payload in a request's slot, @inline_bytes long; NULL: there is none, or the ring is
 * unsound.
 */
uint8_t *av_rq_payload(struct av_seg *seg, const struct av_rq_shared *rq, uint32_t place);

/* Free a place: its completion was polled. */
void av_rq_freed(struct av_seg *seg, struct av_rq_shared *rq, uint32_t place);

/*
 * Nobody will poll a completion of the taken request at @place: there was no room for it. Its slot
 * is free again when the owner looks for one in vain, or polls a later completion.
 * Context: the queue pair's right @resp is held; any process.
 */
void av_rq_drop(struct av_seg *seg, struct av_rq_shared *rq, uint32_t place);

/**
 * av_rq_repair() - put back the request at @place, which a dead holder of @qpn's right @resp took
 * and never completed
 * @in_cq: its completion is in the CQ. Then nothing is put back, nor if it was already polled, or
 * was dropped
 */
void av_rq_repair(struct av_seg *seg, struct av_rq_shared *rq, uint32_t qpn, uint32_t place,
		  bool in_cq);

/* === rq take ===================================================================== */

/* Who gets the next receive request, and where bytes wait for its poll. */

/*
 * SRQ_LIMIT_REACHED: one event when fewer requests are left in a shared receive queue than its
 * limit says, and none until the limit is set again. One of those who take requests raises it,
 * whoever is stopped or killed (base/wait.h).
 */

/* What the program has set; 0: disarmed. */
static inline uint32_t av_srq_limit(const struct av_rq_shared *rq)
{
	return av_oneshot_armed(&rq->limit);
}

/* Set the limit. Raises the event at once if it is already undercut. Context: the owner */
void av_srq_limit_set(struct av_seg *seg, struct av_rq_shared *rq, uint32_t limit);

/* A look at an armed limit. Context: any process, the right @resp of a queue pair is held */
void av_srq_limit_check(struct av_seg *seg, struct av_rq_shared *rq);

/* A request has been taken, or was not there. */
static inline void av_srq_limit_look(struct av_seg *seg, struct av_rq_shared *rq)
{
	if (av_unlikely(av_srq_limit(rq) != 0))
		av_srq_limit_check(seg, rq);
}

/*
 * Bounce buffers, in the receiver's segment. A sender leaves the bytes of a SEND there, and the
 * receiver's ibv_poll_cq() places them. Two copies through shared memory are faster than one system
 * call up to tens of kilobytes, and they need no permission to access the other process.
 *
 * A message is a chain of buffers. Free buffers form a stack, so that the next one is still cached;
 * a count in the stack's head prevents the ABA problem. A sender that dies between taking buffers
 * and handing them over loses them until the receiver's context is closed: at most one message per
 * death.
 */

/**
 * av_bounce_take() - take a chain of buffers for @bytes (> 0)
 * Return:  the first buffer's index + 1, or 0 if there are not enough
 */
AV_MUST_USE uint32_t av_bounce_take(struct av_seg *seg, uint64_t bytes);

/* Free a chain; 0 is ignored. @bytes: as it was taken */
void av_bounce_give(struct av_seg *seg, uint32_t first, uint64_t bytes);

/* The memory of buffer @link (index + 1), AV_BOUNCE_BYTES long; NULL if there is no such buffer. */
void *av_bounce_buffer(struct av_seg *seg, uint32_t link);

/* The next buffer's link in a chain; 0 behind the last. */
uint32_t av_bounce_next(struct av_seg *seg, uint32_t link);

/*
 * Who gets the next request of a shared receive queue?
 *
 * Takers are in many processes. None may hold a lock, since it could be stopped with it. A request
 * that is queued has a *mark*, in the queue's order and in its own word @taker, that no other
 * queueing has. Whoever exchanges that word for one that names its queue pair has the request. Then
 * @head is advanced, by whoever comes first: an entry whose mark is not its request's any more is
 * passed over. So a taker that was stopped for long, and finds an old entry, either takes what is
 * still meant by it, or nothing.
 *
 * A request that is put back gets a new mark, and an entry before all others. Between @head and the
 * most requests ever taken (@reached) there may be entries that are only passed over: requests that
 * were taken out of turn. There are never more than @places of them, and never more requests than
 * places, so the order has twice that room. A put-back that would exceed it compacts that part
 * first; takers wait for it meanwhile, as for a resize.
 */

/* Entries of @order for so many slots, and their bytes. */
#define AV_RQ_ORDER_ENTRIES(places) (2 * (places))
static inline uint64_t av_rq_order_bytes(uint32_t places)
{
	return AV_RQ_ORDER_ENTRIES((uint64_t)places) * sizeof(uint64_t);
}

/*
 * Queue @place as request @number, then, when it is filled in, let it be taken.
 * Context: post_lock is held. Return: false: the order is unsound
 */
AV_MUST_USE bool av_rq_order_add(struct av_seg *seg, const struct av_rq_shared *rq, uint32_t number,
				 uint32_t place);
void av_rq_order_publish(struct av_rq_wqe *wqe, uint32_t number);

/* av_rq_take() for a shared queue. Raises SRQ_LIMIT_REACHED if the limit is undercut. */
const struct av_rq_wqe *av_rq_order_take(struct av_seg *seg, struct av_rq_shared *rq, uint32_t qpn,
					 uint32_t *receiving);

/* Put back the request at @place, if queue pair @qpn has it: the next message takes it. */
void av_rq_order_put_back(struct av_seg *seg, struct av_rq_shared *rq, uint32_t qpn,
			  uint32_t place);

/*
 * The same for a dead holder of @qpn's right @resp, which may have died before it took the request,
 * or while it put it back.
 */
void av_rq_order_repair(struct av_seg *seg, struct av_rq_shared *rq, uint32_t qpn, uint32_t place);

/*
 * Put the order into other memory, of twice @places entries. It is changed by the owner, between
 * these two: takers wait.
 * Context: post_lock is held.
 */
void av_rq_order_lock(struct av_seg *seg, struct av_rq_shared *rq);
void av_rq_order_move(struct av_seg *seg, struct av_rq_shared *rq, uint64_t order, uint32_t places);
void av_rq_order_unlock(struct av_rq_shared *rq);

#endif
