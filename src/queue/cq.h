/* SPDX-License-Identifier: MIT */
/* A CQ in its owner's segment, and how the owner is told of an event. */
#ifndef AV_QUEUE_CQ_H
#define AV_QUEUE_CQ_H

#include <assert.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <infiniband/verbs.h>

#include "base/compiler.h"
#include "base/lock.h"
#include "base/wait.h"
#include "observe/counters.h"
#include "segment/pages.h"
#include "segment/segment.h"

/* === cq ========================================================================== */

/* How a CQ's owner is told of it: by its completion channel, or by an asynchronous event. */

/*
 * Ring the completion channel, if the CQ has one.
 * Context: any process; no lock is held. May make a system call.
 */
void av_cq_tell(struct av_seg *seg, uint32_t index);

/* A completion queue as it is in its owner's segment, and where its entries are. See queue/cq.h. */

#define AV_CQE_DATA 64 /* payload bytes in the entry itself */

enum av_cqe_flag {
	AV_CQE_RECV = 1, /* completes a receive request: @wqe is its place in its receive queue */
	AV_CQE_SOLICITED = 2, /* makes an event of a CQ armed for solicited events only */
	AV_CQE_IN_SLOT =
		4, /* the payload, of @bounce_len bytes, is in the receive request's slot */
};

/* One entry. Host byte order, except @imm. */
struct av_cqe {
	uint64_t wr_id;
	uint8_t status; /* enum ibv_wc_status */
	uint8_t sl;
	uint16_t opcode; /* enum ibv_wc_opcode */
	uint16_t slid;
	uint8_t flags;	  /* enum av_cqe_flag */
	uint8_t data_len; /* payload in @data, to be placed when polled */
	uint32_t byte_len;
	uint32_t imm; /* immediate data in network order, or the invalidated rkey */
	uint32_t wc_flags;
	uint32_t qpn;	 /* local QP */
	uint32_t src_qp; /* remote QP */
	uint32_t queue;	 /* index of the local QP; of a receive, index of the receive queue */
	uint32_t wqe;	 /* the completed request: its number, or its place, in that queue */
	uint32_t bounce; /* without @data_len: first bounce buffer + 1; 0: none is used */
	uint32_t bounce_len;
	/* AV_CQE_THERE(), stored last: then the entry is there. 0: none is. */
	_Atomic uint32_t there;
	/*
	 * The first word shares the cache line above: a message of 8 bytes moves one line from core
	 * to core.
	 */
	uint8_t data[AV_CQE_DATA];
	uint64_t stamp_ns; /* time of appending, if the CQ is @stamped */
};
static_assert(sizeof(struct av_cqe) == 128, "two cache lines");
static_assert(offsetof(struct av_cqe, data) == AV_CACHE_LINE - sizeof(uint64_t), "see there");

/* Does the entry bring payload to be placed? */
#define AV_CQE_HAS_PAYLOAD(cqe) \
	((cqe)->data_len || (cqe)->bounce || ((cqe)->flags & AV_CQE_IN_SLOT))

/*
 * Copy an entry's @data from or to a private copy: all of it, or only the word in the first cache
 * line if @bytes are no more. Both branches have a constant size, and neither is marked unlikely.
 * Otherwise compilers emit a string instruction, which takes as long as the rest of a poll.
 */
static inline void av_cqe_copy_data(uint8_t *to, const uint8_t *from, uint32_t bytes)
{
	if (__builtin_expect_with_probability(bytes > sizeof(uint64_t), 1, 0.5))
		memcpy(to, from, AV_CQE_DATA);
	else
		memcpy(to, from, sizeof(uint64_t));
}

/*
 * What an entry's @there says of its number. Never 0, as in a new ring, and the same for no two
 * numbers of one turn of a ring.
 */
#define AV_CQE_THERE(number) ((uint32_t)(number) << 1 | 1)

enum av_cq_armed { AV_CQ_NOT_ARMED, AV_CQ_ARMED_SOLICITED, AV_CQ_ARMED_ANY };

/* Who is told of a CQ's events; see queue/cq.h. */
enum av_cq_notify {
	AV_CQ_NOTIFY_NOT,  /* the completion channel */
	AV_CQ_NOTIFY_MADE, /* the completion channel, until a thread waits for an event directly */
	AV_CQ_NOTIFY_USED, /* threads that wait for events directly */
};

/*
 * A large message on its way into a receive buffer, and the pieces that are left for those who poll
 * this CQ: transport/execution.h.
 */
struct av_coop_copy {
	struct av_lock sender; /* held by the open message's sender; only tried */
	struct av_lock piece;  /* held while a poller copies a piece; its holder sees an open @job
				  unchanged */
	_Atomic uint32_t left; /* unclaimed pieces: bits 0-15 the first, 16-31 one past the last */
	_Atomic uint32_t failed; /* a poller could not copy its piece */
	struct av_coop_job {
		uint32_t qp;	/* the receiving queue pair */
		uint32_t bytes; /* of the message */
		uint32_t from_key, to_key;
		uint64_t from, to;
	} job;				 /* changes only while no piece is left */
	_Atomic uint64_t alone_until_ns; /* no message asks for help until then */
};

/*
 * Through this entries come in: whoever appends holds its lock, and has its cache line. All is
 * under @lock, unless it says otherwise.
 */
struct av_cq_producer {
	struct av_lock lock AV_ALIGNED(AV_CACHE_LINE);
	_Atomic uint32_t tail;	 /* free-running; read without @lock as a hint */
	struct av_oneshot armed; /* with enum av_cq_armed; read without @lock as a hint */
	uint32_t head_seen;	 /* appender's copy of @head */
	/* Moderation of an armed CQ's event. 0: no such bound; both 0: none. */
	uint16_t event_count;	       /* this many entries make an event */
	uint16_t event_period_us;      /* the first of them waits no longer than this */
	uint32_t counted;	       /* entries that count towards the next event */
	uint32_t told;		       /* entries before this one have made their event */
	_Atomic uint64_t event_due_ns; /* when the event is sent at the latest; 0: not by time */
	/* Of what came in here: av_cq_counted(). Not reset when the index is used again. */
	struct av_cq_counters counters;
	uint32_t peak;	/* high-water mark: the most entries seen waiting */
	uint32_t level; /* with more entries than this, @head is read: look_for_room() */
};

/* The part in the owner's segment. */
struct av_cq_shared {
	/*
	 * Constant while the CQ exists, but for a resize, and when the owner changes producer
	 * rings. Both hold poll_lock and the used producer ring's lock.
	 */
	_Atomic uint32_t id;	   /* different for each CQ at this index; 0: none */
	_Atomic uint32_t used;	   /* producer ring: 0 or 1 */
	_Atomic uint64_t ring[2];  /* offset */
	_Atomic uint32_t mask[2];  /* the ring has mask + 1 entries */
	_Atomic uint32_t capacity; /* entries it may hold: the argument of ibv_create_cq() */
	uint32_t doorbell;	   /* of its completion channel; 0: none */
	/*
	 * An entry was lost: the CQ is broken. In this line, since a waiting poller checks it each
	 * time.
	 */
	_Atomic uint32_t overrun;
	_Atomic uint16_t stamped;     /* entries carry the time; set before the CQ is used */
	_Atomic uint16_t drops;	      /* an entry without room is dropped, and nothing breaks */
	struct av_cq_counters before; /* counters of earlier CQs at this index */

	struct av_cq_producer producer[2];

	struct av_lock poll_lock AV_ALIGNED(AV_CACHE_LINE);
	_Atomic uint32_t head;	      /* free-running; written under poll_lock */
	_Atomic uint32_t empty_polls; /* in a row */
	_Atomic uint32_t patience;    /* empty polls before the core is yielded: transport/poll.c */
	/*
	 * Hints for a poll in vain (transport/transport.h); indices, 0: none. @waiting: a queue
	 * pair whose sends complete here, and which waits for its peer. @owed: one that receives
	 * here, and whose peer waits for it.
	 */
	_Atomic uint32_t waiting, owed;
	/* Of the owner's, under poll_lock: queue/cq.h. */
	uint32_t left;	      /* the abandoned producer ring + 1; 0: none */
	uint32_t stuck_tail;  /* the producer ring's lock was held, with this tail, */
	uint64_t stuck_since; /* since that time; 0: it is not */

	/* AS notify. The line changes only when there is an event: cores rest on it. */
	_Atomic uint32_t ready AV_ALIGNED(AV_CACHE_LINE); /* 1: there is an event to take */
	_Atomic uint32_t waiters;			  /* threads that may be asleep for it */
	_Atomic uint32_t notify; /* enum av_cq_notify; changed under @lock */

	struct av_coop_copy coop AV_ALIGNED(AV_CACHE_LINE);
};
static_assert(sizeof(struct av_cq_shared) <= AV_CQ_BYTES, "CQ table entry");
static_assert(sizeof(struct av_cq_producer) == AV_CACHE_LINE, "one cache line");
static_assert(offsetof(struct av_cq_shared, producer[0].counters) == AV_CQ_COUNTERS_AT,
	      "where segment/segment_map.c reads them");
static_assert(offsetof(struct av_cq_shared, producer[1].counters) ==
		      AV_CQ_COUNTERS_AT + AV_CACHE_LINE,
	      "where segment/segment_map.c reads them");

static inline struct av_cq_shared *av_cq_at(const struct av_seg *seg, uint32_t index)
{
	return av_slab_at(seg, AV_SLAB_CQ, index, AV_CQ_BYTES, AV_OBJ_CHUNK);
}

/* What has been counted at this index, in both producer rings: their holders count at once. */
static inline struct av_cq_counters av_cq_counted(const struct av_cq_shared *cq)
{
	struct av_cq_counters sum = {.completions = 0};

	for (int i = 0; i < 2; i++)
		av_count_add((uint64_t *)&sum, &cq->producer[i].counters, AV_CQ_COUNTERS);
	return sum;
}

/* Number of the producer ring that is used, whatever a peer has written there. */
static inline uint32_t av_cq_used(const struct av_cq_shared *cq)
{
	return atomic_load_explicit(&cq->used, memory_order_acquire) & 1;
}

/*
 * The place of entry @number in producer ring @i, whatever is there; NULL: the ring is unsound.
 * Context: the caller holds a lock of the CQ.
 */
static inline struct av_cqe *av_cq_entry(const struct av_seg *seg, const struct av_cq_shared *cq,
					 uint32_t i, uint32_t number)
{
	uint64_t mask = atomic_load_explicit(&cq->mask[i], memory_order_relaxed);
	uint64_t ring = atomic_load_explicit(&cq->ring[i], memory_order_relaxed);

	return av_seg_piece(seg, ring + (number & mask) * sizeof(struct av_cqe),
			    sizeof(struct av_cqe));
}

/*
 * Entry @number, at or after @head; NULL: it is not there yet. Does not read @tail: an entry may be
 * there before @tail counts it.
 * Context: the caller holds poll_lock.
 */
static inline struct av_cqe *av_cq_present(const struct av_seg *seg, const struct av_cq_shared *cq,
					   uint32_t i, uint32_t number)
{
	struct av_cqe *e = av_cq_entry(seg, cq, i, number);

	return av_likely(e != NULL) && atomic_load_explicit(&e->there, memory_order_acquire) ==
					       AV_CQE_THERE(number)
		       ? e
		       : NULL;
}

/*
 * The oldest entry; NULL: there is none. Without poll_lock, a hint. Under it, the entry stays valid
 * until av_cq_take().
 */
static inline const struct av_cqe *av_cq_peek(const struct av_seg *seg,
					      const struct av_cq_shared *cq)
{
	return av_cq_present(seg, cq, av_cq_used(cq),
			     atomic_load_explicit(&cq->head, memory_order_relaxed));
}

/*
 * Drop the oldest entry.
 * Context: the caller holds poll_lock.
 */
static inline void av_cq_take(struct av_cq_shared *cq)
{
	uint32_t head = atomic_load_explicit(&cq->head, memory_order_relaxed);

	atomic_store_explicit(&cq->head, head + 1, memory_order_release);
}

/* Copy all but @there and the time. */
static inline void av_cqe_fill(struct av_cqe *to, const struct av_cqe *from)
{
	if (from->data_len) /* without payload, @data was never written */
		av_cqe_copy_data(to->data, from->data, from->data_len);
	memcpy(to, from, offsetof(struct av_cqe, there));
}

/* Copy an entry, as @number, and publish it. */
static inline void av_cqe_copy(struct av_cqe *to, const struct av_cqe *from, uint32_t number)
{
	av_cqe_fill(to, from);
	to->stamp_ns = from->stamp_ns;
	atomic_store_explicit(&to->there, AV_CQE_THERE(number), memory_order_release);
}

/*
 * Completion queues: a ring in the owner's segment. Whoever executes work for a queue pair of the
 * owner appends to it; only the owner takes from it.
 *
 * Thread-safety: appending takes @lock (any process), taking entries takes @poll_lock (the owner's
 * threads). The two meet in the entry's @there (release by the appender, acquire by the poller)
 * and in @head (the other way round). A waiting poller reads only the next entry, so the appenders'
 * cache line stays with them. An appender may die between storing an entry's @there and @tail: the
 * next holder of @lock counts that entry.
 *
 * An appender may be stopped (SIGSTOP, a debugger) while it holds @lock. So a CQ has two producer
 * rings, of which one is used: queue/cq.h.
 */

/**
 * av_cq_init() - set up a CQ of an own segment
 * @capacity: 1 .. AV_MAX_CQE
 * @doorbell: that of the completion channel, or 0
 * @id:       not 0
 * @policy:   of its ring's pages; NULL: any
 *
 * Return:  index, or 0 and errno ENOMEM
 */
AV_MUST_USE uint32_t av_cq_init(struct av_seg *seg, uint32_t capacity, uint32_t doorbell,
				uint32_t id, uint32_t limit, const struct av_page_policy *policy);
void av_cq_fini(struct av_seg *seg, uint32_t index);

/**
 * av_cq_resize() - change the capacity of an own CQ, and keep its entries
 * @capacity: 1 .. AV_MAX_CQE
 * @policy:   as above
 *
 * Return:  0, EINVAL (it holds more entries than that), EBUSY (a producer ring is abandoned) or
 * ENOMEM; on failure nothing has changed
 */
AV_MUST_USE int av_cq_resize(struct av_seg *seg, uint32_t index, uint32_t capacity,
			     const struct av_page_policy *policy);

/* The same, but EBUSY only after AV_PATIENCE_NS: who appends there is about to go on, as a rule. */
AV_MUST_USE int av_cq_resize_patiently(struct av_seg *seg, uint32_t index, uint32_t capacity,
				       const struct av_page_policy *policy);

/* The event that an entry makes, before it is sent. All zero: none. */
struct av_cq_bell {
	uint64_t claim; /* of base/wait.h */
	uint32_t index, id;
	uint32_t event; /* enum event of cq.c */
};

/* The CQ ignores overruns, and has dropped the entry. What it held is its appender's to release. */
#define AV_CQ_DROPPED 1

/**
 * av_cq_push() - append an entry
 * @cqe: complete but for @there and @stamp_ns; @data as far as @data_len says
 * @later: out: the event, if the CQ is armed for such an entry, for av_cq_ring(). NULL: sends it
 *
 * Raises the overrun event once.
 * Context: any process and thread; holds no lock that ranks at or above the CQ's. The doorbell may
 * make a system call.
 * Return:  0; AV_CQ_DROPPED; or -ENOSPC: the CQ was full, and is broken from now on
 */
int av_cq_push(struct av_seg *seg, uint32_t index, const struct av_cqe *cqe,
	       struct av_cq_bell *later);

/*
 * Send the event of an entry that was appended to a CQ of @seg. The CQ may be gone meanwhile.
 * Context: as of av_cq_push(). What a stop or death before this leaves is in base/wait.h.
 */
void av_cq_ring(struct av_seg *seg, const struct av_cq_bell *bell);

/*
 * An entry found no room and is lost: the CQ is broken. Raises the event, once.
 * Return:  0: it is broken; AV_CQ_DROPPED: it ignores that
 */
int av_cq_overrun(struct av_seg *seg, uint32_t index);

/*
 * Arm an own CQ for the next entry. If it already holds an entry that counts, sends the event at
 * once, as adapters do. AV_CQ_ARMED_SOLICITED does not weaken AV_CQ_ARMED_ANY.
 */
void av_cq_arm(struct av_seg *seg, uint32_t index, enum av_cq_armed how);

/*
 * From now on the events of an own CQ for AS notify go to the threads that wait for them directly.
 * Return:  was this the first call?
 */
bool av_cq_notify_waits(struct av_seg *seg, uint32_t index);

/*
 * Send the event of an own CQ that is armed though it holds entries that count: their appender died
 * before the event. Does nothing while events are put off, since that state is normal then.
 */
void av_cq_look_again(struct av_seg *seg, uint32_t index);

/**
 * av_cq_moderate() - put off the events of an own CQ: ibv_modify_cq(3)
 * @count:     send an event when this many entries want it; 0: any number, once @period_us is over
 * @period_us: or this long after the first; 0: no limit. Both 0: with the first entry
 *
 * Entries in error do not wait. What the CQ holds counts afresh. If @period_us is not 0, the owner
 * has started its timer for this CQ.
 */
void av_cq_moderate(struct av_seg *seg, uint32_t index, uint32_t count, uint32_t period_us);

/*
 * The timer's look at an own CQ: send the event that has been put off, if it is due.
 * Return:  when to look again; UINT64_MAX: when woken
 */
uint64_t av_cq_put_off(struct av_seg *seg, uint32_t index, uint64_t now_ns);

/*
 * Prefetch the lines of @lock and of the next entry's payload for writing, since a push follows
 * soon. Leaves out the line of the entry itself, which a waiting poller would take away again.
 */
void av_cq_prefetch(struct av_seg *seg, uint32_t index);

/**
 * av_cq_purge() - remove all entries of an object that was reset or is being destroyed
 * @of:      does this entry belong to the object called @number?
 * @dropped: called for each removed entry, to release what it holds
 */
void av_cq_purge(struct av_seg *seg, uint32_t index,
		 bool (*of)(const struct av_cqe *cqe, uint32_t number), uint32_t number,
		 void (*dropped)(struct av_seg *seg, const struct av_cqe *cqe));

/* Does an entry complete receive request @wqe of QP @qpn? For repair after a death. */
bool av_cq_holds_receive(struct av_seg *seg, uint32_t index, uint32_t qpn, uint32_t wqe);

/* === notify ====================================================================== */

/* How a thread is woken that waits for a CQ; and peers that are stopped while they append. */

/*
 * The lock of a CQ, and what happens when its holder is stopped (SIGSTOP, a debugger): others
 * append to the CQ, too, and are not to wait for that one.
 *
 * A stopped process cannot be kept from storing when it goes on. So the owner abandons
 * the producer ring, and uses the other one, into whose new memory it has copied the entries. What
 * the stopped appender still stores goes where nobody reads. When it goes on, it sees that its
 * producer ring is not the used one, and appends once more. Then the owner frees the memory of the
 * abandoned one; it abandons only one at a time.
 *
 * The appender stores, then reads which producer ring is used. The owner changes that, then reads
 * what was stored. Both have a full barrier in between, so one of them sees the other.
 */

/*
 * Take the lock of the used producer ring. An entry that a dead holder had published is counted.
 * While it waits for a peer's, it has the owner look, with an event, if the owner may sleep for
 * one.
 * @polls: the caller holds poll_lock
 * Return: the producer ring's number; -1: that of a peer's CQ was not had in time (AV_PATIENCE_NS)
 */
AV_MUST_USE int av_cq_lock(struct av_seg *seg, uint32_t index, bool polls);

/*
 * Of an appender, which has stored the entry @number where it was left behind, and the owner, which
 * has polled it before or copies it, one gets it. Return: the caller
 */
static inline bool av_cqe_claim(struct av_cqe *e, uint32_t number)
{
	uint32_t there = AV_CQE_THERE(number);

	return atomic_compare_exchange_strong(&e->there, &there, 0);
}

/*
 * A look now and then at an own CQ that has nothing to poll: does somebody hold its lock without
 * end, or can what was left behind be freed? Context: no lock of it is held
 */
void av_cq_producer_look(struct av_seg *seg, struct av_cq_shared *cq);

/* Free what was left behind. Context: the owner; poll_lock. Return: false: it is in use still */
bool av_cq_producer_settle(struct av_seg *seg, struct av_cq_shared *cq);

/*
 * AS notify: events of CQs wake a thread without a file descriptor. A CQ made for it sends its
 * events the ordinary way until a thread first waits for one here. From then on each event ends one
 * wait.
 *
 * The CQ's word @ready is 1 from the event of an armed CQ until a waiter takes it, or until the CQ
 * is armed again. One arming makes one event, so there is at most one to take. No wake-up is lost:
 * - The sender stores 1, then reads @waiters. A waiter counts itself there, then reads @ready. All
 * are sequentially consistent, and the kernel compares @ready with 0 under its lock before a sleep.
 * - FUTEX_WAKE wakes one thread. That one looks again: it takes the event, or another has. A thread
 *   that leaves for another reason (time, a signal) looks once more, too.
 * - Arming again takes back an event that nobody has taken, and looks at the entries: what it stood
 * for is in the CQ, or was polled.
 * - A sender may be killed between publishing its entry and the wake. So nobody sleeps longer than
 *   av_notify_nap_ns without looking at the entries.
 */

/* The longest sleep, in nanoseconds. Variable for tests only. */
extern uint64_t av_notify_nap_ns;

/* Make an own CQ, which nobody has used yet, a CQ for AS notify. */
void av_cq_notify_make(struct av_cq_shared *cq);

/* Is it a CQ for AS notify? */
static inline bool av_cq_notifies(const struct av_cq_shared *cq)
{
	return atomic_load_explicit(&cq->notify, memory_order_relaxed) != AV_CQ_NOTIFY_NOT;
}

/*
 * Wait for the event of an own CQ for AS notify that is armed, or will be; av_cq_notify_waits() has
 * been called. Give up at @until_ns (CLOCK_MONOTONIC); UINT64_MAX: never.
 * Context: any threads of its owner, no lock held; sleeps.
 * Return:  0: the event is taken; ETIMEDOUT; EINTR: a signal handler has run
 */
AV_MUST_USE int av_cq_wait(struct av_seg *seg, uint32_t index, uint64_t until_ns);

/*
 * For queue/cq.c: wake a thread that waits for the event that was made.
 * Context: the CQ's lock is not held any more.
 */
void av_cq_notify_wake(struct av_cq_shared *cq);

#endif
