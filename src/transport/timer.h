/* SPDX-License-Identifier: MIT */
/*
 * The timer of a context: one thread that executes send queues whose retry time has come, and sends
 * the events of CQs that are moderated by time. The first request that has to wait, or event that
 * is put off, starts it. It keeps timeouts even if the program makes no call.
 */
#ifndef AV_TRANSPORT_TIMER_H
#define AV_TRANSPORT_TIMER_H

#include "queue/qp.h"

/*
 * Have the timer see to the deadline of a request that was just waiting, of an own queue pair.
 * Context: may create a thread.
 */
void av_timer_watch(const struct av_qp_ref *end, uint64_t deadline_ns);

/* Start the timer of an own segment. Without memory for it, there is none. May create a thread. */
void av_timer_start(struct av_seg *seg);

/*
 * From now on, send the events of an own CQ that are put off (av_cq_put_off()).
 * Context: no lock held; may create a thread. Return: 0, or ENOMEM: there can be no timer
 */
AV_MUST_USE int av_timer_watch_cq(struct av_seg *seg, uint32_t index);

/* The CQ ends: the timer never looks at it again. Context: no lock held. */
void av_timer_forget_cq(struct av_seg *seg, uint32_t index);

/*
 * The thread's work, in transport/progress.c: look at one queue pair, and at faults that go by
 * the clock. Context: holds nothing. Return: when to look again; UINT64_MAX: when woken
 */
uint64_t av_timer_look(const struct av_qp_ref *end);
uint64_t av_timer_look_at_faults(struct av_seg *seg);

/* Stop the timer of an own segment and wait for its thread to end. */
void av_timer_stop(struct av_seg *seg);

#endif
