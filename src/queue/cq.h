/* SPDX-License-Identifier: MIT */
/*
 * Completion queues: the entry, the CQ in its owner's segment, and the functions that append
 * entries, take them, and send events: to the completion channel, or to waiters (AS notify).
 */
#pragma once

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

/* Ring the CQ's completion channel, if any. Any process; no lock held. May make a system call. */
void av_cq_tell(struct av_seg *seg, uint32_t index);

#define AV_CQE_DATA 64 /* bytes of payload in the entry itself */

enum av_cqe_flag {
	AV_CQE_RECV = 1, /* completes a receive request; @wqe is the request's place in its queue */
	AV_CQE_SOLICITED = 2, /* makes an event of a CQ that is armed for solicited events only */
	AV_CQE_IN_SLOT =
		4, /* the slot of the receive request holds the payload of @bounce_len bytes */
};

/* One entry. Host byte order, except @imm. */
struct av_cqe {
	uint64_t wr_id;
	uint8_t status; /* enum ibv_wc_status */
	uint8_t sl;
	uint16_t opcode; /* enum ibv_wc_opcode */
	uint16_t slid;
	uint8_t flags;	  /* enum av_cqe_flag */
	uint8_t data_len; /* bytes of payload in @data, which the poll places */
	uint32_t byte_len;
	uint32_t imm; /* immediate data in network order, or the invalidated rkey */
	uint32_t wc_flags;
	uint32_t qpn;	 /* local QP */
	uint32_t src_qp; /* remote QP */
	uint32_t queue;	 /* index of the local QP; of a receive completion, of the receive queue */
	uint32_t wqe;	 /* the completed request in that queue: its number, or its place */
	uint32_t bounce; /* if @data_len is 0: index of the first bounce buffer + 1; 0: none */
	uint32_t bounce_len;
	/* AV_CQE_THERE(). The appender stores it last: this publishes the entry. 0: no entry. */
	_Atomic uint32_t there;
	/* The first word shares the cache line above, so a message of 8 bytes moves one line. */
	uint8_t data[AV_CQE_DATA];
	uint64_t stamp_ns; /* time of appending, if the CQ is @stamped */
};
static_assert(sizeof(struct av_cqe) == 128, "two cache lines");
static_assert(offsetof(struct av_cqe, data) == AV_CACHE_LINE - sizeof(uint64_t), "see there");

/* Does the entry hold payload that the poll must place? */
#define AV_CQE_HAS_PAYLOAD(cqe) \
	((cqe)->data_len || (cqe)->bounce || ((cqe)->flags & AV_CQE_IN_SLOT))

/*
 * Copy an entry's @data from or to a private copy: up to 8 bytes only the word in the first cache
 * line, else all. Both branches have a constant size, and neither is marked unlikely: otherwise
 * compilers emit a string instruction, which takes as long as the rest of a poll.
 */
static inline void av_cqe_copy_data(uint8_t *to, const uint8_t *from, uint32_t bytes)
{
	if (__builtin_expect_with_probability(bytes > sizeof(uint64_t), 1, 0.5))
		memcpy(to, from, AV_CQE_DATA);
	else
		memcpy(to, from, sizeof(uint64_t));
}

/* The value of @there in entry @number: not 0 (a new ring), and unique within a turn of a ring. */
#define AV_CQE_THERE(number) ((uint32_t)(number) << 1 | 1)

enum av_cq_armed { AV_CQ_NOT_ARMED, AV_CQ_ARMED_SOLICITED, AV_CQ_ARMED_ANY };

/* Whom an event of a CQ wakes; see AS notify below. */
enum av_cq_notify {
	AV_CQ_NOTIFY_NOT,  /* the completion channel; the CQ is not for AS notify */
	AV_CQ_NOTIFY_MADE, /* the completion channel, until av_cq_notify_waits() */
	AV_CQ_NOTIFY_USED, /* threads in av_cq_wait() */
};

/*
 * A large message that its sender copies into a receive buffer. Threads that poll this CQ copy the
 * unclaimed chunks: transport/execution.h.
 */
struct av_coop_copy {
	struct av_lock sender; /* held by the sender of the open message; others only try it */
	struct av_lock chunk; /* held while a poller copies a chunk; an open @job stays unchanged */
	_Atomic uint32_t left; /* unclaimed chunks: bits 0-15 the first, 16-31 one past the last */
	_Atomic uint32_t failed; /* a poller failed to copy its chunk */
	struct av_coop_job {
		uint32_t qp;	/* the receiving queue pair */
		uint32_t bytes; /* of the message */
		uint32_t from_key, to_key;
		uint64_t from, to;
	} job;				 /* changes only while @left is empty */
	_Atomic uint64_t alone_until_ns; /* until then, senders copy without help */
};

/*
 * A producer ring: its lock, tail and events. An appender holds @lock, and owns the cache line
 * meanwhile. @lock guards all fields, unless one says otherwise.
 */
struct av_cq_producer {
	struct av_lock lock AV_ALIGNED(AV_CACHE_LINE);
	_Atomic uint32_t tail;	 /* free-running; read without @lock as a hint */
	struct av_oneshot armed; /* with enum av_cq_armed; read without @lock as a hint */
	uint32_t head_seen;	 /* the appender's copy of @head */
	/* Moderation of an armed CQ's events. 0: no such bound; both 0: no moderation. */
	uint16_t event_count;	  /* this many entries make an event */
	uint16_t event_period_us; /* the event is due this long after the first of them */
	uint32_t counted;	  /* entries that count towards the next event */
	uint32_t told;		  /* the last event stands for the entries before this number */
	_Atomic uint64_t event_due_ns; /* when the timer sends the event at the latest; 0: never */
	/* What appenders have counted here: av_cq_counted(). A new CQ at this index keeps them. */
	struct av_cq_counters counters;
	uint32_t peak;	/* high-water mark: the most entries seen in the CQ */
	uint32_t level; /* from this many entries on, the appender reads @head: look_for_room() */
};

/* The part in the owner's segment. */
struct av_cq_shared {
	/*
	 * Constant while the CQ exists, but for two writers: a resize holds poll_lock and the used
	 * producer ring's lock; the owner that abandons a ring holds poll_lock and the other one's.
	 */
	_Atomic uint32_t id;	   /* different for each CQ at this index; 0: no CQ */
	_Atomic uint32_t used;	   /* number of the used producer ring: 0 or 1 */
	_Atomic uint64_t ring[2];  /* offset in the segment */
	_Atomic uint32_t mask[2];  /* the ring has mask + 1 entries */
	_Atomic uint32_t capacity; /* most entries it may hold: the argument of ibv_create_cq() */
	uint32_t doorbell;	   /* of its completion channel; 0: it has none */
	/* An entry was lost; the CQ is broken. In this line, which a waiting poller reads. */
	_Atomic uint32_t overrun;
	_Atomic uint16_t stamped; /* entries carry the time; set before first use */
	_Atomic uint16_t drops;	  /* the CQ drops an entry that finds no room, and stays usable */
	struct av_cq_counters before; /* what earlier CQs at this index had counted */

	struct av_cq_producer producer[2];

	struct av_lock poll_lock AV_ALIGNED(AV_CACHE_LINE);
	_Atomic uint32_t head;	      /* free-running; written under poll_lock */
	_Atomic uint32_t empty_polls; /* consecutive polls that found nothing */
	_Atomic uint32_t yield_after; /* empty polls before a poll yields: transport/progress.c */
	/*
	 * Hints for a poll that finds nothing (transport/transport.h): a queue pair's index, or 0.
	 * @waiting: sends complete here, it awaits its peer. @owed: receives here, its peer waits.
	 */
	_Atomic uint32_t waiting, owed;
	/* Only the owner uses these, under poll_lock: "abandoned producer rings" below. */
	uint32_t left;	      /* number of the abandoned producer ring + 1; 0: none */
	uint32_t stuck_tail;  /* @tail when the owner saw the producer ring's lock held, */
	uint64_t stuck_since; /* since this time; 0: the lock was free */

	/* AS notify. This line changes only for an event, because cores rest on it. */
	_Atomic uint32_t ready AV_ALIGNED(AV_CACHE_LINE); /* 1: an event is there to be taken */
	_Atomic uint32_t waiters; /* number of threads that may sleep for it */
	_Atomic uint32_t notify;  /* enum av_cq_notify; written under the producer ring's lock */

	struct av_coop_copy coop AV_ALIGNED(AV_CACHE_LINE);
};
static_assert(sizeof(struct av_cq_shared) <= AV_CQ_BYTES, "CQ table entry");
static_assert(sizeof(struct av_cq_producer) == AV_CACHE_LINE, "one cache line");
static_assert(offsetof(struct av_cq_shared, producer[0].counters) == AV_CQ_COUNTERS_AT,
	      "where segment/segment_map.c reads them");
static_assert(offsetof(struct av_cq_shared, producer[1].counters) ==
		      AV_CQ_COUNTERS_AT + AV_CACHE_LINE,
	      "where segment/segment_map.c reads them");

/* Both producer rings' counts at this index. A lock holder of each may count meanwhile. */
static inline struct av_cq_counters av_cq_counted(const struct av_cq_shared *cq)
{
	struct av_cq_counters sum = {.completions = 0};

	for (int i = 0; i < 2; i++)
		av_count_add((uint64_t *)&sum, &cq->producer[i].counters, AV_CQ_COUNTERS);
	return sum;
}

/* Number of the used producer ring: 0 or 1, whatever value a peer has stored. */
uint32_t av_cq_used(const struct av_cq_shared *cq);

/* The place of entry @number in ring @i, whatever it holds; NULL: unsound. A CQ's lock is held. */
struct av_cqe *av_cq_entry(const struct av_seg *seg, const struct av_cq_shared *cq, uint32_t i,
			   uint32_t number);

/*
 * The oldest entry. NULL: the CQ is empty. Does not read @tail: an entry is published before @tail.
 * Context: any. A hint without poll_lock; with it, the entry stays valid until av_cq_take().
 */
const struct av_cqe *av_cq_peek(const struct av_seg *seg, const struct av_cq_shared *cq);

/* Remove the oldest entry. Context: the caller holds poll_lock. */
void av_cq_take(struct av_cq_shared *cq);

/*
 * Whoever executes work for a queue pair appends an entry, in any process. The owner takes them.
 * Thread-safety: an appender holds the producer ring's lock; the owner's threads take entries under
 * poll_lock. Both sides meet in the entry's @there (release by the appender, acquire by the poller)
 * and in @head (the other way round). A waiting poller reads only the next entry, so the appenders
 * keep their cache line. If an appender dies between storing @there and advancing @tail, the next
 * holder of the lock counts that entry. A debugger or SIGSTOP may stop an appender that holds the
 * lock. So a CQ has two producer rings, and uses one of them: "abandoned producer rings" below.
 */

/*
 * Set up a CQ in an own segment.
 * @capacity: 1 .. AV_MAX_CQE entries
 * @doorbell: number of the completion channel's doorbell; 0: none
 * @id: not 0; differs from that of earlier CQs at the same index
 * @limit: most CQs of this context
 * @policy: pages of the ring; NULL: any
 * Return: index, or 0 and errno ENOMEM
 */
AV_MUST_USE uint32_t av_cq_init(struct av_seg *seg, uint32_t capacity, uint32_t doorbell,
				uint32_t id, uint32_t limit, const struct av_page_policy *policy);
void av_cq_fini(struct av_seg *seg, uint32_t index);

/*
 * Change the capacity of an own CQ, and keep its entries. @capacity, @policy: as av_cq_init().
 * Context: the owner's threads; the caller holds no lock of rank AV_RANK_POLL or higher.
 * Return: 0; or the CQ is unchanged: EINVAL: it holds more entries than that; EBUSY: an appender
 * still holds an abandoned producer ring; ENOMEM
 */
AV_MUST_USE int av_cq_resize(struct av_seg *seg, uint32_t index, uint32_t capacity,
			     const struct av_page_policy *policy);

/* The same, retrying EBUSY for up to AV_PEER_TIMEOUT_NS: usually the appender goes on soon. */
AV_MUST_USE int av_cq_resize_retry(struct av_seg *seg, uint32_t index, uint32_t capacity,
				   const struct av_page_policy *policy);

/* An event that an appended entry has made and that nobody has sent yet. All zero: none. */
struct av_cq_bell {
	uint64_t claim; /* of av_oneshot_begin() */
	uint32_t index, id;
	uint32_t event; /* enum event of notify.c */
};

/* The CQ ignores overruns, and has dropped the entry. The appender releases what the entry held. */
#define AV_CQ_DROPPED 1

/*
 * Append an entry. Raises the asynchronous event IBV_EVENT_CQ_ERR at the first overrun.
 * @cqe: all fields but @there and @stamp_ns; @data up to @data_len
 * @later: out: the event for av_cq_ring(), if the CQ is armed for such an entry. NULL: send it here
 * Context, also of all below that do not say otherwise: any thread of any process; the caller holds
 * no lock of rank AV_RANK_POLL or higher. Waits for the lock of a peer's CQ for AV_PEER_TIMEOUT_NS
 * at most. May make a system call to send an event.
 * Return: 0; AV_CQ_DROPPED; -ENOSPC: the CQ was full, and is broken now; no CQ; or lock timed out
 */
int av_cq_push(struct av_seg *seg, uint32_t index, const struct av_cqe *cqe,
	       struct av_cq_bell *later);

/*
 * Send the event of an entry that was appended to a CQ of @seg, unless the CQ has ended since. If
 * the appender stops or dies before, another one sends it later (base/wait.h).
 */
void av_cq_ring(struct av_seg *seg, const struct av_cq_bell *bell);

/*
 * An entry found no room and is lost: mark the CQ broken; raise IBV_EVENT_CQ_ERR the first time.
 * Return: 0: the CQ is broken, or its lock timed out; AV_CQ_DROPPED: the CQ ignores overruns
 */
int av_cq_overrun(struct av_seg *seg, uint32_t index);

/*
 * Arm an own CQ for the next entry. If it already holds one that counts, send the event at once, as
 * adapters do. AV_CQ_ARMED_SOLICITED does not weaken AV_CQ_ARMED_ANY. Source: ibv_req_notify_cq(3).
 */
void av_cq_arm(struct av_seg *seg, uint32_t index, enum av_cq_armed how);

/* Events of an own CQ for AS notify wake av_cq_wait() from now on. Return: true: the first call */
bool av_cq_notify_waits(struct av_seg *seg, uint32_t index);

/*
 * Send the missing event of an own CQ that is armed and holds entries that count: the appender died
 * before. Does nothing while the CQ is moderated, because then this state is normal.
 */
void av_cq_look_again(struct av_seg *seg, uint32_t index);

/*
 * Moderate the events of an own CQ. An entry in error makes its event at once. Counts again from 0.
 * @count: send an event after this many entries
 * @period_us: send it at most this long after the first of them; if not 0, the caller has started
 * the owner's timer for this CQ. 0: no such bound; both 0: each entry makes an event
 * Source: ibv_modify_cq(3).
 */
void av_cq_moderate(struct av_seg *seg, uint32_t index, uint32_t count, uint32_t period_us);

/*
 * Send the moderated event of an own CQ, if it is due. Context: the owner's timer thread.
 * Return: when to call this again (av_now_ns()); UINT64_MAX: after the next wake-up
 */
uint64_t av_cq_put_off(struct av_seg *seg, uint32_t index, uint64_t now_ns);

/*
 * Prefetch for a push: the cache lines of the lock and of the next entry's payload, for writing.
 * Not the entry's first line: a waiting poller would take it back.
 */
void av_cq_prefetch(struct av_seg *seg, uint32_t index);

/*
 * Remove all entries of an object that is being reset or destroyed.
 * @of: does this entry belong to the object called @number?
 * @dropped: called for each such entry, to release what it holds; false: the entry stays
 * Context: the owner; the caller holds no lock of rank AV_RANK_POLL or higher. Both callbacks run
 * under poll_lock and the producer ring's lock. Return: how many stay
 */
uint32_t av_cq_purge(struct av_seg *seg, uint32_t index,
		     bool (*of)(const struct av_cqe *cqe, uint32_t number), uint32_t number,
		     bool (*dropped)(struct av_seg *seg, struct av_cqe *cqe));

/* Does the CQ hold the completion of receive @wqe of QP @qpn? False, too, if the lock timed out. */
bool av_cq_holds_receive(struct av_seg *seg, uint32_t index, uint32_t qpn, uint32_t wqe);

/* === notify ====================================================================== */

/*
 * Abandoned producer rings. A debugger or SIGSTOP may stop an appender that holds the producer
 * ring's lock, and nobody can prevent its stores when it continues. So the owner abandons this
 * ring, and copies its entries to new memory for the other one, which everybody uses from then on
 * (docs/concurrency, handshake 15). When the appender continues, it finds that its ring is not the
 * used one, and appends its entry again. Then the owner frees the abandoned memory. Only one ring
 * is abandoned at a time.
 */

/*
 * Take the lock of the used producer ring. If its last holder died after it published an entry,
 * counts that entry. While the lock of a peer's CQ is held, wakes the owner by an event of an armed
 * CQ, so that the owner can abandon the ring. @index: of @cq
 * @polls: the caller holds poll_lock. Otherwise the owner's threads may take poll_lock here.
 * Context: waits without limit in an own segment, else for AV_PEER_TIMEOUT_NS.
 * Return: number of the locked producer ring; -1: the lock of a peer's CQ timed out
 */
AV_MUST_USE int av_cq_lock(struct av_seg *seg, struct av_cq_shared *cq, uint32_t index, bool polls);

/*
 * Claim entry @number of an abandoned producer ring. Its appender tries this, and the owner when it
 * copies the entry, or has polled it before. Return: true: the caller has won
 */
static inline bool av_cqe_claim(struct av_cqe *e, uint32_t number)
{
	uint32_t there = AV_CQE_THERE(number);

	return atomic_compare_exchange_strong(&e->there, &there, 0);
}

/*
 * For an own CQ that has nothing to poll, now and then: abandon the used producer ring if a process
 * has held its lock for AV_STUCK_NS; free an abandoned one when possible.
 * Context: the owner, no lock of the CQ held. Tries poll_lock; may wait AV_STUCK_NS for a lock.
 */
void av_cq_producer_look(struct av_seg *seg, struct av_cq_shared *cq);

/* --- between cq.c and notify.c ------------------------------------------------------- */

/* Number of the first entry that has made no event. That for AS notify may have been taken back. */
uint32_t av_cq_first_untold(const struct av_cq_shared *cq, const struct av_cq_producer *in);

/*
 * An entry was appended to producer ring @i of a CQ that is armed. Return: the event that it makes,
 * if any, for av_cq_ring(). Context of both: the producer ring's lock is held.
 */
struct av_cq_bell av_cq_count_event(struct av_seg *seg, uint32_t index, uint32_t i,
				    const struct av_cqe *cqe);

/*
 * AS notify: an event of a CQ wakes a thread without a file descriptor. A CQ made for it rings its
 * completion channel until a thread first waits here; then each event ends one wait.
 *
 * @ready becomes 1 with the event of an armed CQ, and 0 when a waiter takes the event, or somebody
 * arms the CQ again. So at most one event can be taken. docs/concurrency, handshake 13, says why no
 * wake-up is lost. A sender may be killed after it published its entry and before it woke a thread.
 * So a thread checks the entries at least every av_notify_nap_ns.
 */

/* The longest sleep, in nanoseconds. Only tests change it. */
extern uint64_t av_notify_nap_ns;

/* Make an own CQ one for AS notify. Context: nobody has used the CQ yet. */
void av_cq_notify_make(struct av_cq_shared *cq);

/* Is it a CQ for AS notify? */
static inline bool av_cq_notifies(const struct av_cq_shared *cq)
{
	return atomic_load_explicit(&cq->notify, memory_order_relaxed) != AV_CQ_NOTIFY_NOT;
}

/*
 * Wait for the event of an own CQ for AS notify, after av_cq_notify_waits(). Any thread may arm the
 * CQ, before or during the wait. @until_ns: CLOCK_MONOTONIC; UINT64_MAX: forever
 * Context: any threads of the owner; no lock held. Sleeps.
 * Return: 0: this thread has taken the event; ETIMEDOUT; EINTR: a signal handler ran
 */
AV_MUST_USE int av_cq_wait(struct av_seg *seg, uint32_t index, uint64_t until_ns);
