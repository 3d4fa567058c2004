/* SPDX-License-Identifier: MIT */
/*
 * AS notify: events of CQs that wake a thread without a file of the kernel's. A CQ that is made for
 * it (av_cq_notify_make()) sends its events the ordinary way until a thread waits for one here for
 * the first time; from then on each event ends one wait.
 *
 * The word: @ready of the CQ is 1 from the event of an armed CQ until a waiter takes it (1 to 0),
 * or until the CQ is armed again. One arming gives one event, so there is never more than one to
 * take.
 *
 * No wake-up is lost:
 *  - Who sends the event stores 1 and then looks at @waiters; a waiter counts itself in @waiters
 * and then looks at
 *    @ready, all sequentially consistent: the sender sees a waiter, or the waiter the event. The
 * kernel compares
 *    @ready with 0 under its own lock before it lets a thread sleep.
 *  - FUTEX_WAKE wakes one. A thread that is woken looks again and takes the event, or somebody else
 * has taken it. One that leaves for another reason (time, a signal) was not woken, and looks once
 * more, too.
 *  - Arming again takes an event back that nobody has taken. It looks at the entries there are, and
 * makes an event of them if they count: what that event stood for is still known, or was polled.
 *  - A sender that is killed between its entry and its wake (in any place: it publishes the entry
 * first) is why nobody sleeps longer than av_notify_nap_ns without looking at the entries again.
 */
#ifndef AV_QUEUE_NOTIFY_H
#define AV_QUEUE_NOTIFY_H

#include <stdint.h>

#include "base/compiler.h"
#include "queue/cq.h"

/* Nanoseconds; a variable for tests, which hide nothing behind it. */
extern uint64_t av_notify_nap_ns;

/* Make an own CQ that nobody has used yet one for AS notify. */
void av_cq_notify_make(struct av_cq_shared *cq);

/* Is it one? */
static inline bool av_cq_notifies(const struct av_cq_shared *cq)
{
	return atomic_load_explicit(&cq->notify, memory_order_relaxed) != AV_CQ_NOTIFY_NOT;
}

/**
 * av_cq_wait() - wait for the event of an own CQ that is armed, or will be
 * @until_ns: give up then (CLOCK_MONOTONIC); UINT64_MAX: never
 *
 * The CQ is one for AS notify, and av_cq_notify_waits() has been called. Context: any threads of
 * its owner, no lock held; sleeps. Return: 0: the event is taken; ETIMEDOUT; EINTR: a signal
 * handler has run
 */
AV_MUST_USE int av_cq_wait(struct av_seg *seg, uint32_t index, uint64_t until_ns);

/* For queue/cq.c: wakes who waits for the event just made of that CQ, whose lock is released. */
void av_cq_notify_wake(struct av_cq_shared *cq);

#endif
