/* SPDX-License-Identifier: MIT */
/*
 * A barrier whose whole price is paid by one side.
 *
 * "Store mine, look at yours" on two sides needs a full barrier between the store and the look on
 * either. Where one side does it for each message and the other once in a while, the frequent one
 * only keeps the compiler from changing the order (av_barrier_light()), and the rare one has the
 * kernel put a full barrier into every running thread of every process that joined
 * (av_barrier_heavy(), membarrier(2)): whatever a thread had done before that is seen afterwards,
 * and what it does later sees what was stored before.
 */
#ifndef AV_BASE_BARRIER_H
#define AV_BASE_BARRIER_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/compiler.h"

/* May this process leave its barriers to others? Set by av_barrier_join(); false: light ones are
 * full. */
extern bool av_barrier_is_light;

/**
 * av_barrier_join() - have this process take part in the heavy barriers of others
 *
 * Again in a forked child. Context: before the process uses anything shared; does not wait for
 * others.
 */
void av_barrier_join(void);

/* One that is the caller's own, for the seldom ways. */
void av_barrier_full(void);

static inline void av_barrier_light(void)
{
	if (av_likely(av_barrier_is_light))
		atomic_signal_fence(memory_order_seq_cst);
	else
		av_barrier_full();
}

/*
 * Behind an atomic read-modify-write of the caller's: a full barrier, together with it. On x86 that
 * was one; elsewhere what follows may be performed before its store is.
 */
static inline void av_barrier_behind_rmw(void)
{
#if defined(__x86_64__)
	atomic_signal_fence(memory_order_seq_cst);
#else
	av_barrier_full();
#endif
}

/**
 * av_barrier_heavy_own() - the other side of a light one, for the threads of this process
 *
 * And a full barrier of the caller. Context: any thread, any lock held; interrupts the processors
 * that run another thread of the process, for some microseconds (20 on a virtual machine). Return:
 * true; false: the kernel has refused, as it may from any moment on (a process that locks itself in
 * after its beginning), and this has taken 20 ms. It is a barrier even so: the caller sees to it
 * that it is not needed often.
 */
bool av_barrier_heavy_own(void);

/**
 * av_barrier_heavy() - the same for the threads of all processes that joined
 *
 * For what nearly never happens. The kernel's barrier has a gap between processes: it passes over a
 * processor that was at work for a process before that joined and has been since for no other. So
 * this one waits, too, for AV_BARRIER_SEEN_NS: a store that was made before the look that follows
 * it, on a processor, has left it by then. (A look is not over before the stores that come before
 * it in the program are, but for their way out of the processor: some tens of them, one after the
 * other, each waiting for a cache line at most.) Return: as above
 */
bool av_barrier_heavy(void);

#define AV_BARRIER_SEEN_NS 100000u

/* The one that is due to threads of this process (@own), or of another. */
bool av_barrier_heavy_for(bool own);

#endif
