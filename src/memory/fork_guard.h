/* SPDX-License-Identifier: MIT */
/*
 * Keep registered memory out of children of fork().
 *
 * Where pages are pinned and the kernel does not copy pinned pages at fork(), libibverbs keeps
 * registered memory out of children (madvise(2), MADV_DONTFORK), as ibv_fork_init(3) says. Our
 * memory is not pinned, so children get all of it. ANYVERBS_FORK=dontfork keeps it out
 * nevertheless. So a program can be tested for hosts that need it, and the related error codes of
 * ibv_rereg_mr(3) have their meaning.
 *
 * A page is guarded while a region covers it. Thread-safe; blocks on a mutex and in the kernel.
 */
#ifndef AV_MEMORY_FORK_GUARD_H
#define AV_MEMORY_FORK_GUARD_H

#include <stdint.h>

#include "base/compiler.h"

/**
 * av_fork_guard() - one more region covers a range of this process's memory
 * @addr, @length: in bytes; every page they touch is guarded; length 0 does nothing
 *
 * Return:  0, also if memory is not guarded at all; or errno of madvise() or ENOMEM, and nothing
 * has changed
 */
AV_MUST_USE int av_fork_guard(uint64_t addr, uint64_t length);

/**
 * av_fork_unguard() - one region less covers a range that was given to av_fork_guard()
 *
 * Return:  0, or errno: then it is unknown whether a child gets the range; the caller has nothing
 * to undo
 */
AV_MUST_USE int av_fork_unguard(uint64_t addr, uint64_t length);

#endif
