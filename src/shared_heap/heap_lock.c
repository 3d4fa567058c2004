/* SPDX-License-Identifier: MIT */
#include "shared_heap/blocks.h"

#include <errno.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

#define WAITED 0x80000000u /* somebody sleeps until @holder changes */

static _Atomic uint32_t holder; /* a thread; 0: none */
static uint32_t depth;		/* how often it has locked it again */
static _Thread_local uint32_t own_tid AV_TLS_FAST;

static void sleep_while_held(uint32_t by)
{
	int saved = errno;

	AV_RAW(SYS_futex, &holder, FUTEX_WAIT_PRIVATE, by, NULL, NULL, 0);
	errno = saved;
}

/* Who has slept does not know whether others do. */
static void lock_contended(uint32_t seen)
{
	for (;;) {
		if (seen == 0) {
			if (atomic_compare_exchange_strong(&holder, &seen, own_tid | WAITED))
				return;
		} else if (seen & WAITED ||
			   atomic_compare_exchange_strong(&holder, &seen, seen | WAITED)) {
			sleep_while_held(seen | WAITED);
			seen = atomic_load(&holder);
		}
	}
}

void av_heap_lock(void)
{
	uint32_t seen = 0;

	if (!own_tid)
		own_tid = (uint32_t)AV_RAW(SYS_gettid);
	if (atomic_compare_exchange_strong(&holder, &seen, own_tid))
		return;
	if ((seen & ~WAITED) == own_tid)
		depth++;
	else
		lock_contended(seen);
}

void av_heap_unlock(void)
{
	int saved = errno;

	if (depth)
		depth--;
	else if (atomic_exchange(&holder, 0) & WAITED)
		AV_RAW(SYS_futex, &holder, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
	errno = saved;
}

void av_heap_lock_in_child(void)
{
	own_tid = 0;
	depth = 0;
	atomic_store(&holder, 0);
}
