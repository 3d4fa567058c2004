/* SPDX-License-Identifier: MIT */
/* How a thread is woken that waits for a CQ; and peers that are stopped while they append. */
#ifndef AV_QUEUE_NOTIFY_H
#define AV_QUEUE_NOTIFY_H

#include <stdint.h>

#include "base/compiler.h"
#include "queue/cq.h"

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
