/* SPDX-License-Identifier: MIT */
/*
 * The timer of a context: one thread, started when a request of the context first has to wait, or
 * the events of a CQ are moderated by time, that drives send queues whose retry time has come, and
 * sends the events. The last resort that makes timeouts true even when the program makes no call.
 */
#ifndef AV_TRANSPORT_TIMER_H
#define AV_TRANSPORT_TIMER_H

#include "queue/qp.h"

/**
 * av_timer_watch() - see to the deadline of a request that was just parked
 *
 * For a queue pair of another process, wakes the timer of its owner (which has been started before:
 * only requests that its owner parked are ever driven from outside). Context: the queue pair's
 * @exec execution right is held or has just been released; may create a thread.
 */
void av_timer_watch(const struct av_qp_end *end, uint64_t deadline_ns);

/* Have the timer of an own segment run; without memory for it, it does not. May create a thread. */
void av_timer_start(struct av_seg *seg);

/* How soon an own queue pair is looked at again that another process drives: it may die with it. */
#define AV_DRIVEN_NS 50000000u

/**
 * av_timer_watch_cq() - from now on see to the events of an own CQ that are put off,
 * av_cq_put_off()
 *
 * Context: no lock held; may create a thread. Return: 0, or ENOMEM (there can be no timer)
 */
AV_MUST_USE int av_timer_watch_cq(struct av_seg *seg, uint32_t index);

/* The CQ ends: on return the timer does not look at it, and will not. Context: no lock held. */
void av_timer_forget_cq(struct av_seg *seg, uint32_t index);

/*
 * What the thread does, in transport/timer_look.c: see to one queue pair, and to faults on demand
 * that go by the clock. Return: when to look again, UINT64_MAX: when woken. Context: holds nothing.
 */
uint64_t av_timer_look(const struct av_qp_end *end);
uint64_t av_timer_look_at_faults(struct av_seg *seg);

/* Stop the timer of an own segment and wait for its thread to end. */
void av_timer_stop(struct av_seg *seg);

#endif
