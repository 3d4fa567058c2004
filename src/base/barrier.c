/* SPDX-License-Identifier: MIT */
#include "base/barrier.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

/* Longer than any processor keeps a store to itself, or works on what it has not decided to do. */
#define SURELY_SEEN_NS 20000000

bool av_barrier_is_light;

static bool membarrier(int command)
{
	return syscall(SYS_membarrier, command, 0, 0) == 0;
}

void av_barrier_join(void)
{
	av_barrier_is_light = membarrier(MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED) &&
			      membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
}

/* ThreadSanitizer does not follow fences, and GCC says so; what needs one here is told by the
 * atomic words.
 */
#if defined(__SANITIZE_THREAD__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wtsan"
#endif

void av_barrier_full(void)
{
	atomic_thread_fence(memory_order_seq_cst);
}

/* Where the kernel refuses: what others had begun is over by then, whatever they run on. */
static void wait_surely(void)
{
	uint64_t until = av_now_ns() + SURELY_SEEN_NS, now;

	while ((now = av_now_ns()) < until) {
		struct timespec nap = {.tv_nsec = (long)(until - now)};

		nanosleep(&nap, NULL); /* cut short by a signal, or refused as well */
	}
	av_barrier_full();
}

bool av_barrier_heavy_own(void)
{
	av_barrier_full();
	if (!av_barrier_is_light || membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED))
		return true;
	wait_surely();
	return false;
}

bool av_barrier_heavy(void)
{
	uint64_t until;

	if (!av_barrier_heavy_own())
		return false; /* that was long enough for everybody */
	if (!membarrier(MEMBARRIER_CMD_GLOBAL_EXPEDITED)) {
		wait_surely();
		return false;
	}
	until = av_now_ns() + AV_BARRIER_SEEN_NS;
	while (av_now_ns() < until)
		av_pause();
	av_barrier_full();
	return true;
}

bool av_barrier_heavy_for(bool own)
{
	return own ? av_barrier_heavy_own() : av_barrier_heavy();
}
