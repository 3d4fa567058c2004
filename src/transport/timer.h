/* SPDX-License-Identifier: MIT */
/*
 * The timer of a context: one thread that drives send queues whose retry time has come, and sends
 * the events of CQs that are moderated by time. It is started when a request of the context first
 * has to wait, or an event is first put off. It keeps timeouts even if the program makes no call.
 */
#ifndef AV_TRANSPORT_TIMER_H
#define AV_TRANSPORT_TIMER_H

#include "queue/qp.h"

/**
 * av_timer_watch() - have the timer see to the deadline of a request that was just parked
 *
 * For a queue pair of another process, wakes its owner's timer. That one is running: only requests
 * that their owner has parked are driven from outside.
 * Context: the queue pair's right @exec is held or has just been released; may create a thread.
 */
void av_timer_watch(const struct av_qp_end *end, uint64_t deadline_ns);

/* Start the timer of an own segment. Without memory for it, there is none. May create a thread. */
void av_timer_start(struct av_seg *seg);

/* When to look again at an own queue pair that another process drives: that process may die. */
#define AV_DRIVEN_NS 50000000u

/**
 * av_timer_watch_cq() - from now on, send the events of an own CQ that are put off
 * (av_cq_put_off())
 *
 * Context: no lock held; may create a thread.
 * Return:  0, or ENOMEM: there can be no timer
 */
AV_MUST_USE int av_timer_watch_cq(struct av_seg *seg, uint32_t index);

/*
 * The CQ ends. On return the timer does not look at it, and never will.
 * Context: no lock held.
 */
void av_timer_forget_cq(struct av_seg *seg, uint32_t index);

/*
 * The thread's work, in transport/timer_look.c: look at one queue pair, and at faults on demand
 * that go by the clock.
 * Context: holds nothing.
 * Return:  when to look again; UINT64_MAX: when woken
 */
uint64_t av_timer_look(const struct av_qp_end *end);
uint64_t av_timer_look_at_faults(struct av_seg *seg);

/* Stop the timer of an own segment and wait for its thread to end. */
void av_timer_stop(struct av_seg *seg);

#endif
