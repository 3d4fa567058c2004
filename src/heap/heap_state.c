/* SPDX-License-Identifier: MIT */
#include "heap/blocks.h"

#include <fcntl.h>
#include <linux/falloc.h>
#include <linux/futex.h>

#include "base/thread.h"

struct av_block_state av_blocks;

/* --- the lock --------------------------------------------------------------------- */

#define WAITED 0x80000000u /* somebody sleeps until @holder changes */

static _Atomic uint32_t holder; /* a thread; 0: none */
static uint32_t depth;		/* how often it has locked it again */
static _Thread_local uint32_t own_tid AV_TLS_FAST;

/* Who has slept does not know whether others do. */
static void lock_contended(uint32_t seen)
{
	for (;;) {
		if (seen == 0) {
			if (atomic_compare_exchange_strong(&holder, &seen, own_tid | WAITED))
				return;
		} else if (seen & WAITED ||
			   atomic_compare_exchange_strong(&holder, &seen, seen | WAITED)) {
			AV_RAW(SYS_futex, &holder, FUTEX_WAIT_PRIVATE, seen | WAITED, NULL, NULL,
			       0);
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
	if (depth)
		depth--;
	else if (atomic_exchange(&holder, 0) & WAITED)
		AV_RAW(SYS_futex, &holder, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

void av_heap_lock_in_child(void)
{
	own_tid = 0;
	depth = 0;
	atomic_store(&holder, 0);
}

bool av_heap_enter(void)
{
	int saved = errno;

	av_heap_lock();
	if (!av_blocks.inside) {
		av_blocks.inside = true; /* first: a handler may come at any time */
		av_blocks.cancel = av_cancel_off();
		av_blocks.error = saved;
		return true;
	}
	av_heap_unlock();
	errno = saved;
	return false;
}

void av_heap_exit(void)
{
	int cancel = av_blocks.cancel, error = av_blocks.error;

	if (av_blocks.changing) {
		av_blocks.changing = false;
		pthread_sigmask(SIG_SETMASK, &av_blocks.signals, NULL);
	}
	av_blocks.inside = false;
	av_heap_unlock();
	av_cancel_back(&cancel);
	errno = error;
}

/* --- the file --------------------------------------------------------------------- */

bool av_heap_has_file(void)
{
	return av_own_fd(&av_heap_shown.file) >= 0;
}

void *av_heap_map(uint64_t at, uint64_t bytes, int prot, int flags)
{
	bool file = !(flags & MAP_ANONYMOUS);
	int fd = file ? av_heap_shown.file.fd : -1;

	return (void *)AV_RAW(SYS_mmap, at, bytes, prot, flags, fd, /* NOLINT */
			      file ? av_heap_offset(at) : 0);
}

void av_heap_punch(uint64_t begin, uint64_t end)
{
	if (av_heap_has_file())
		(void)!fallocate(av_heap_shown.file.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
				 (off_t)av_heap_offset(begin), (off_t)(end - begin));
}
