/* SPDX-License-Identifier: MIT */
/*
 * Keep registered memory out of children of fork(), with ANYVERBS_FORK=dontfork. libibverbs does so
 * (MADV_DONTFORK, ibv_fork_init(3)) where pages are pinned and the kernel does not copy pinned
 * pages at fork(). Our memory is not pinned, but so a program can be tested for hosts that need it,
 * and the related errors of ibv_rereg_mr(3) have their meaning.
 *
 * A page is guarded while a region covers it. Thread-safe; blocks on a mutex and in the kernel.
 *
 * After ibv_fork_init() alone, children get a copy of registered memory as before, since it is not
 * pinned. But ranges are asked about as libibverbs asks, so that ibv_rereg_mr() finds the same
 * ranges wrong.
 */
#ifndef AV_MEMORY_FORK_GUARD_H
#define AV_MEMORY_FORK_GUARD_H

#include <stdint.h>

#include "base/compiler.h"

/* The program has called ibv_fork_init(). RDMAV_FORK_SAFE or IBV_FORK_SAFE say the same. */
void av_fork_asked(void);

/*
 * One more region covers a range: every page it touches is guarded.
 * Return: 0, also if memory is not guarded at all; or errno of madvise() or ENOMEM, also for a hole
 * in the range, and nothing has changed
 */
AV_MUST_USE int av_fork_guard(uint64_t addr, uint64_t length);

/*
 * One region less. Return: 0, or errno: then it is unknown whether a child gets the range, and the
 * caller has nothing to undo.
 */
AV_MUST_USE int av_fork_unguard(uint64_t addr, uint64_t length);

#endif
