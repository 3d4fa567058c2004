/* SPDX-License-Identifier: MIT */
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
 * An appender may be stopped (SIGSTOP, a debugger) while it holds @lock. So a CQ has two inlets, of
 * which one is used: queue/notify.h.
 */
#ifndef AV_QUEUE_CQ_H
#define AV_QUEUE_CQ_H

#include "queue/cq_shared.h"
#include "segment/pages.h"

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
 * Return:  0, EINVAL (it holds more entries than that), EBUSY (an inlet is left behind) or ENOMEM;
 * on failure nothing has changed
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

#endif
