/* SPDX-License-Identifier: MIT */
/*
 * Receive queues, of one queue pair or shared (SRQ): their memory, posting and taking requests, the
 * limit event, and the bounce buffers that hold a message's bytes until the receiver polls.
 */
#pragma once

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

/* === ring ======================================================================== */

/* Memory of rings, on the kind of pages that the policy asks for. */

/* Entries of a ring that holds @capacity: a power of two. */
static inline uint32_t av_ring_entries(uint32_t capacity)
{
	return capacity <= 1 ? 1 : 1u << (32 - __builtin_clz(capacity - 1));
}

/*
 * Zeroed memory for a ring in an own segment. @policy: NULL: any pages. A ring smaller than a huge
 * page shares small pages, unless huge pages are demanded, or tried first (ALL): then it takes one.
 * Return: offset, for av_seg_free(); or 0 and errno ENOMEM
 */
uint64_t av_ring_alloc(struct av_seg *seg, uint64_t bytes, const struct av_page_policy *policy);

/* === rq ========================================================================== */

struct av_rq_wqe {
	uint64_t wr_id;
	/* Shared queues: who has the request, see "order" below. Any: the mark of av_rq_drop(). */
	_Atomic uint64_t taker;
	uint64_t bytes; /* sum of the elements' lengths */
	uint32_t count; /* number of elements */
	uint32_t unused;
	struct ibv_sge sge[];
};

/* Low half of @taker in a request that av_rq_drop() has marked. No queue pair has this number. */
#define AV_RQ_DROPPED (UINT32_MAX - 1)

#define AV_RQ_RUNS 16 /* enough to double one slot up to AV_MAX_SRQ_WR */
static_assert((1u << AV_RQ_RUNS) > AV_MAX_SRQ_WR, "runs of slots");

/* The part in the owner's segment. */
struct av_rq_shared {
	/* Constant while the queue exists. */
	_Atomic uint32_t id; /* shared queues: different for each at this index; else 0 */
	uint32_t index;
	uint32_t mask; /* the ring has mask + 1 slots */
	uint32_t max_sge;
	uint32_t inline_bytes; /* payload bytes that fit into a slot, behind its elements */
	uint32_t stride;       /* bytes of a slot */
	uint32_t pd;	       /* the protection domain of its buffers */
	uint64_t ring;
	_Atomic uint32_t srqn; /* XRC: number of the queue */
	uint32_t xrcd;	       /* XRC: number of its domain */
	uint32_t cq;	       /* XRC: index of the CQ of its completions */

	/*
	 * Only a resize changes these, under both locks. A reader holds one of them, or is a taker:
	 * a resize changes @head, so the taker tries again.
	 */
	uint32_t capacity;   /* most requests it may hold */
	uint32_t places;     /* shared queues: number of slots */
	uint32_t order_mask; /* @order has order_mask + 1 entries, twice @places */
	uint64_t order; /* shared queues: offset of the entries by request number; 0: not shared */
	uint64_t stack; /* shared queues: offset of uint32_t[places], free slots */
	/* Further slots: run i has (mask + 1) << i. A resize adds one before use, removes none. */
	_Atomic uint64_t more[AV_RQ_RUNS];

	struct av_lock post_lock AV_ALIGNED(AV_CACHE_LINE);
	_Atomic uint32_t tail;	/* free-running: requests posted */
	_Atomic uint32_t freed; /* free-running: requests whose slots are free again */
	uint32_t stacked;	/* number of entries in @stack */
	/* A requester waits for the next request. In this line, which posters read each time. */
	_Atomic uint32_t waiting;

	_Atomic uint64_t head AV_ALIGNED(AV_CACHE_LINE); /* av_rq_taken(); queue/rq.c */
	struct av_lock take_lock; /* shared queues: to put a request back, and to change arrays */
	uint32_t reached;	  /* shared queues: a lower bound of the most requests ever taken */
	uint32_t tail_seen; /* not shared: takers' copy of @tail, since posters own its line */
	_Atomic uint32_t dropped; /* some request has the mark of av_rq_drop() */
	struct av_oneshot limit;  /* shared queues: SRQ_LIMIT_REACHED */
};
static_assert(sizeof(struct av_rq_shared) <= AV_RQ_BYTES, "receive queue table entry");

/* Number of requests taken, free-running. */
static inline uint32_t av_rq_taken(const struct av_rq_shared *rq)
{
	return (uint32_t)atomic_load_explicit(&rq->head, memory_order_relaxed);
}

/* Requests that are posted and not taken. A hint, unless nobody posts or takes meanwhile. */
static inline uint32_t av_rq_ready(const struct av_rq_shared *rq)
{
	return atomic_load_explicit(&rq->tail, memory_order_relaxed) - av_rq_taken(rq);
}

/* Is @list NULL although it should have @count elements? Then nobody may read the elements. */
#define AV_LIST_MISSING(count, list) av_unlikely((count) > 0 && !(list))

/*
 * A receive queue is a ring of receive requests in its owner's segment. The owner posts requests;
 * whoever executes a message takes one, in any process. The poll of its completion frees its slot.
 *
 * The requests of one queue pair complete in order: request @number has slot number & mask. Those
 * of a shared queue do not: @order gives the slot of each number, and @stack holds the free slots.
 * Its resize adds runs of slots behind the ring, each as long as all slots before it. Slots never
 * move, because completions and takers hold their numbers.
 *
 * Thread-safety: the owner's threads hold @post_lock to post, and to free a shared slot. Whoever
 * takes, drops or puts back, in any process, holds the queue pair's @resp_lock; a shared queue
 * has no lock for takers, which a stopped process could hold: "order" below. The poster publishes
 * @tail, then reads @waiting and the queue pair's state. The taker sets @waiting, then reads @tail
 * once more. Each has a full barrier in between, so one of them sees the other.
 */

struct av_rq_request {
	uint32_t capacity; /* 0 .. AV_MAX_QP_WR requests */
	uint32_t max_sge;  /* most elements of a request */
	uint32_t pd;
	uint32_t inline_bytes; /* 0 .. AV_MAX_INLINE_RECV: payload bytes in each slot */
	uint32_t id;	       /* not 0 for a shared queue */
	uint32_t xrcd, cq;     /* XRC: see struct av_rq_shared */
	const struct av_page_policy *policy; /* pages of its ring; NULL: any */
};

/* Set up a receive queue in an own segment. Any thread of the owner. Return: index; 0: ENOMEM */
AV_MUST_USE uint32_t av_rq_init(struct av_seg *seg, const struct av_rq_request *req);
void av_rq_fini(struct av_seg *seg, uint32_t index);

/*
 * Change a shared queue's capacity. Keeps all requests: those posted, taken, or not polled yet.
 * Context: the owner's threads, one at a time for a queue. Takers and posters continue meanwhile.
 * Return: 0; EINVAL: more requests are in use, or the limit is higher; ENOMEM
 */
AV_MUST_USE int av_rq_resize(struct av_seg *seg, struct av_rq_shared *rq, uint32_t capacity);

/* Remove all requests. Context: the owner; state RESET; nobody takes or polls here meanwhile. */
void av_rq_reset(struct av_rq_shared *rq);

/*
 * Append a list of requests.
 * @state: of the queue pair, which another thread may reset at any moment; NULL: a shared queue
 * @bad: out, on failure: the first request not posted. The requests before it are posted
 * Context: the owner's threads. Waits for @post_lock.
 * Return: 0; ENOMEM: full; EINVAL: too many elements, a list that is NULL, or state RESET
 * Source: ibv_post_recv(3), ibv_post_srq_recv(3).
 */
AV_MUST_USE int av_rq_post(struct av_seg *seg, struct av_rq_shared *rq,
			   const _Atomic uint32_t *state, struct ibv_recv_wr *wr,
			   struct ibv_recv_wr **bad);

/*
 * Take the next request for queue pair @qpn, whose @resp_lock is held. May raise SRQ_LIMIT_REACHED.
 * @receiving: out: the request's place + 1, stored before the request leaves the queue, so that
 * somebody can repair the queue after a death. Shared queues: 0 if no request was taken
 * Return: the request, with a valid @count; NULL: none is posted, or the queue is unsound
 */
const struct av_rq_wqe *av_rq_take(struct av_seg *seg, struct av_rq_shared *rq, uint32_t qpn,
				   uint32_t *receiving);

/* Prefetch what the next av_rq_take() reads. Takes no lock, so the address may be wrong. */
void av_rq_prefetch(struct av_seg *seg, const struct av_rq_shared *rq);

/* Put back the request that queue pair @qpn has just taken, as the next one. @resp_lock is held. */
void av_rq_untake(struct av_seg *seg, struct av_rq_shared *rq, uint32_t qpn, uint32_t place);

/* The slot at @place, whatever it holds. NULL: the ring is unsound. */
struct av_rq_wqe *av_rq_slot(const struct av_seg *seg, const struct av_rq_shared *rq,
			     uint32_t place);

/* The request at @place: a taken request's number; in a shared queue, its slot's. NULL: unsound. */
const struct av_rq_wqe *av_rq_wqe(struct av_seg *seg, const struct av_rq_shared *rq,
				  uint32_t place);

/* The room for payload in a slot, @inline_bytes long. NULL: none, or the ring is unsound. */
uint8_t *av_rq_payload(struct av_seg *seg, const struct av_rq_shared *rq, uint32_t place);

/*
 * Free the slot at @place, whose completion the owner has polled. Context: the owner; takes
 * @post_lock of a shared queue; of another, the poll_lock of its CQ is held.
 */
void av_rq_freed(struct av_seg *seg, struct av_rq_shared *rq, uint32_t place);

/*
 * Mark the taken request at @place as dropped: its completion found no room in the CQ, so nobody
 * will poll it. The owner frees the slot when a post finds the queue full, or at a later
 * completion's poll. Context: @resp_lock is held.
 */
void av_rq_drop(struct av_seg *seg, struct av_rq_shared *rq, uint32_t place);

/*
 * Put back the request at @place, which a dead holder of @qpn's @resp_lock took and never
 * completed; but not if @in_cq: the CQ holds its completion, or if that was polled, or it was
 * dropped. Context: the caller holds @resp_lock.
 */
void av_rq_repair(struct av_seg *seg, struct av_rq_shared *rq, uint32_t qpn, uint32_t place,
		  bool in_cq);

/*
 * SRQ_LIMIT_REACHED: one event when a shared receive queue has fewer requests left than its limit,
 * until the program sets that again. A taker raises it; if it stops or dies, another (base/wait.h).
 */

/* The limit that the program has set. 0: disarmed. */
static inline uint32_t av_srq_limit(const struct av_rq_shared *rq)
{
	return av_oneshot_armed(&rq->limit);
}

/* Set the limit. Raises the event at once if fewer requests are left. Context: the owner */
void av_srq_limit_set(struct av_seg *seg, struct av_rq_shared *rq, uint32_t limit);

/*
 * Bounce buffers lie in the receiver's segment. A sender copies the bytes of a SEND into them, and
 * the receiver's ibv_poll_cq() copies them to the program. Up to tens of kilobytes, two copies
 * through shared memory beat a system call, and need no permission for the other process.
 *
 * A message is a chain of buffers. Free buffers form a stack, so that the next one is still cached.
 * A count in the stack's head prevents the ABA problem. A sender that dies before it hands its
 * buffers over loses them until the receiver closes its context: at most one message per death.
 *
 * Context: any thread of any process. Lock-free.
 */

/* Take a chain of buffers for @bytes > 0. Return: index + 1 of the first; 0: not enough free */
AV_MUST_USE uint32_t av_bounce_take(struct av_seg *seg, uint64_t bytes);

/* Free a chain. 0 is ignored. @bytes: as in av_bounce_take() */
void av_bounce_give(struct av_seg *seg, uint32_t first, uint64_t bytes);

/* The memory of buffer @link (index + 1), AV_BOUNCE_BYTES long. NULL: there is no such buffer. */
void *av_bounce_buffer(struct av_seg *seg, uint32_t link);

/* The link of the next buffer in a chain. 0: @link is the last, or there is no such buffer. */
uint32_t av_bounce_next(struct av_seg *seg, uint32_t link);

/*
 * The order: which taker gets the next request of a shared receive queue? No taker may hold a lock,
 * because it could be stopped meanwhile, in any process.
 *
 * Each time that a request is queued, it gets a new *mark*, in the order's entry and in the
 * request's word @taker. A taker exchanges that word for one with its queue pair's number: whoever
 * succeeds has the request. Then any taker advances @head. Takers skip an entry whose mark differs
 * from that of its request. So a taker that was stopped for long, and reads an old entry, either
 * takes the request that the entry still means, or takes nothing.
 *
 * A request that is put back gets a new mark, and an entry before all others. Between @head and
 * @reached there may be entries that takers only skip: their requests were taken out of turn. There
 * are at most @places such entries, and at most @places requests, so the order has twice that room.
 * A put-back that needs more room first compacts those entries; takers wait, as for a resize.
 */

/* Number of entries in @order for so many slots, and their bytes. */
#define AV_RQ_ORDER_ENTRIES(places) (2 * (places))
static inline uint64_t av_rq_order_bytes(uint32_t places)
{
	return AV_RQ_ORDER_ENTRIES((uint64_t)places) * sizeof(uint64_t);
}

/* The arrays of a shared queue. */
struct av_rq_arrays {
	uint64_t order, stack;
	uint32_t places;
};

static inline uint64_t av_rq_stack_bytes(uint32_t places)
{
	return (uint64_t)places * sizeof(uint32_t);
}

/* Offset of the room for payload in a slot. */
static inline uint64_t av_rq_payload_at(uint32_t max_sge)
{
	return av_round_up(sizeof(struct av_rq_wqe) + (uint64_t)max_sge * sizeof(struct ibv_sge),
			   32);
}

/*
 * av_rq_resize() with the memory at hand. @with: in, the new arrays, or no places: the old ones
 * stay; out, those that are not in use
 */
AV_MUST_USE int av_rq_set_capacity(struct av_seg *seg, struct av_rq_shared *rq, uint32_t capacity,
				   struct av_rq_arrays *with);
